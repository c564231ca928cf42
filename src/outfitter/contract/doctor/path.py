"""The entries of PATH."""

from __future__ import annotations

import os

from ...env.lists import entry_key, leads_somewhere, reaches_system
from .check import Check, Finding
from .machine import Given, given
from .words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

_EMPTY = "is empty, which means the current directory"
_RELATIVE = "is relative: its meaning depends on the current directory"
_LITERAL = "is an unexpanded reference to a variable"


def folders(machine: Machine) -> frozenset[str]:
    """The entries that exist."""
    return frozenset(filter(os.path.isdir, machine.environ.get("PATH", "").split(":")))


def path_segments(given: Given, folders: frozenset[str]) -> Finding:
    path = given.base.get("PATH", "")
    if not leads_somewhere(path):
        return Finding(
            "error",
            "PATH is not set or has no absolute entry: shells then search their own lists",
            remedy="Start Outfitter with a PATH: `PATH=/usr/local/bin:/usr/bin:/bin outfitter ...`.",
        )
    wrong, harmless = [], []
    seen: set[str] = set()
    segments = path.split(":")
    for place, segment in enumerate(segments):
        key = entry_key(segment)
        about = f"PATH[{place}] {segment}".rstrip()
        if not segment:
            wrong.append(f"{about} {_EMPTY}")
        elif "$" in segment:
            wrong.append(f"{about} {_LITERAL}")
        elif not segment.startswith("/"):
            wrong.append(f"{about} {_RELATIVE}")
        elif key in seen:
            harmless.append(f"{about} is listed twice")
        elif segment not in folders:
            harmless.append(f"{about} does not exist")
        seen.add(key)
    details = [*wrong, *harmless]
    if wrong:
        are, them = ("is", "it") if len(wrong) == 1 else ("are", "them")
        return Finding(
            "warning",
            f"{counted(wrong, 'entry')} of PATH {are} probably a mistake; commands do not get {them}",
            details,
            'Correct the line of your startup file that adds to PATH (PATH="/directory:$PATH", '
            "in double quotes, without a colon at the end), then log in again.",
        )
    rest = f", {len(harmless)} without effect" if harmless else ""
    return Finding("ok", f"{counted(segments, 'entry')}{rest}", details)


def path_result(given: Given) -> Finding:
    """The PATH that commands really get, after every layer."""
    if given.problem or given.refused:
        return Finding("ok", "no command can be started here, so there is no PATH to look at")
    path = given.values.get("PATH", "")
    reaches = reaches_system(path)
    if reaches and not given.path_mistakes:
        return Finding("ok", "commands find the system's programs")
    if reaches:
        return Finding(
            "warning",
            "commands get a PATH without something that was probably meant to be in it",
            given.path_mistakes,
            "Correct that place. `outfitter env explain PATH` shows every entry and who added it.",
        )
    return Finding(
        "error",
        "commands get a PATH without /usr/bin and /bin, so they find hardly any program",
        [f"PATH={path}", *given.path_mistakes],
        "Type `outfitter env explain PATH` to see who set it, and let that add to PATH instead "
        "(`outfitter env unset --forget PATH` takes back what `outfitter env set` has set).",
    )


CHECKS = (
    Check("path.segments", (given, folders), path_segments),
    Check("path.result", (given,), path_result),
)
