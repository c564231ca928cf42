"""What `run --explain` says after a command: what its environment was made of, and never a value."""

from __future__ import annotations

from .env.output import printable
from .env.text import printed, refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..protocol.jsontext import Json
    from .colour import Paint

# Names in one line: who wants to know all of them asks `outfitter env explain`.
_NAMES = 12
_STARTUP = {"enforce": "startup files off", "repair": "startup files repaired", "report": "startup files on"}
_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def report(told: Json, started: Json, startup: Json, differences: Json, paint: Paint) -> Iterator[str]:
    """The lines: a summary, what was refused, the shell, its startup files, what is flagged, the server.

    `told` is the explanation; `started` is the summary of the command's start, and `startup` what came of a
    shell's startup files; `differences` is in what the server's own environment differs from ours. Each is
    None if nobody knows.
    """
    started = started if isinstance(started, dict) else {}
    shell = started.get("shell")
    yield paint("bold", printable(str(told["summary"])))
    for line in refusals(told):
        yield f"  {paint('red', 'refused')} {line}"
    for layer in told["layers"]:
        yield from (paint("yellow", f"  {layer['id']} {line.strip()}") for line in printed(layer))
    if isinstance(shell, dict):
        yield from _shell(shell, startup if isinstance(startup, dict) else {}, paint)
    for flag in started.get("flags") or ():
        yield f"{paint('yellow', 'flagged')} " + printable(f"{flag.get('code')}: {flag.get('what')}")
    if isinstance(differences, dict):
        yield from _differences(differences)


def _shell(shell: dict[str, Any], startup: dict[str, Any], paint: Paint) -> Iterator[str]:
    parts = [str(shell.get("name"))]
    if shell.get("loginAsked"):
        parts.append("login shell" if shell.get("login") else "login flag stripped")
    parts.append(_STARTUP.get(str(shell.get("startup")), str(shell.get("startup"))))
    if shell.get("withheld"):
        parts.append(f"without {', '.join(map(str, shell['withheld']))}")
    if shell.get("through"):
        parts.append(f"behind {', '.join(map(str, shell['through']))}")
    yield printable(f"shell: {', '.join(parts)}")
    for note in shell.get("notes") or ():
        yield printable(f"  {note}")
    if startup.get("reported") is False:
        yield "  what the startup files changed is unknown: the shell did not report it"
    changes = startup.get("changes") or ()
    if changes:
        put_right = ", corrected" if shell.get("startup") == "repair" else ""
        yield f"  changed by startup files{put_right}:"
    for change in changes:
        several = change.get("places") or ([change] if "file" in change else [])
        first, *more = [f"{one['file']}:{one['line']}" for one in several] or [""]
        start = f"    {_MARKS.get(change['kind'], '?')} {change['name']}"
        yield printable(f"{start}  {first}".rstrip())
        yield from (printable(f"{' ' * len(start)}  {place}") for place in more)
    if startup.get("readonly"):
        yield printable(f"  read-only, so not corrected: {', '.join(startup['readonly'])}")


def _differences(found: dict[str, Any]) -> Iterator[str]:
    titles = {"onlyClient": "only here", "onlyServer": "only there", "changed": "different values"}
    parts = [f"{title}: {_some(found[key])}" for key, title in titles.items() if found.get(key)]
    if parts:
        yield printable(f"the server's own environment differs from this shell's; {'; '.join(parts)}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"
