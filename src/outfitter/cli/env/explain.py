"""outfitter env explain: why each variable is what it is, and where those that are missing went."""

from __future__ import annotations

from ...env.names import MARK
from . import asking
from .output import emit, emit_json, painter, say, write_whole
from .show import how_much
from .text import count, login_shell, overview, program, variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.jsontext import Json
    from ..wishes import Flags

_MARK_MEANS = (
    "where the system is not Linux, Outfitter sets it for each command when it starts, to find and end what "
    "the command leaves behind"
)


def explain(names: Sequence[str], flags: Flags) -> int:
    """Prints it; returns the exit status, 1 when a name means nothing here. Raises OutfitterError."""
    show = how_much(flags)
    programs = list(dict.fromkeys((*flags["program"], *names, *asking.PROGRAMS)))
    told = asking.explain(flags, show, programs=programs, login=flags["login"])
    _drop_missing(told, flags["program"])
    unknown = [name for name in names if name not in told["variables"] and name not in told["programs"]]
    if MARK in unknown:
        unknown.remove(MARK)
        say(f"{MARK} is not a part of the contract: {_MARK_MEANS}")
    if flags["anonymous"]:
        from ...host.facts import home
        from ...providers.inherited import load
        from ...web.anonymous import anonymous

        told = anonymous(told, [home(load())])
    if flags["html"] is not None:
        from ...web.page import render

        write_whole(flags["html"], render(told).encode(), private=show != "names")
        say(f"wrote the explanation to {flags['html']}")
    if flags["json"]:
        emit_json(_only(told, names, flags["program"]) if names else told)
    elif flags["html"] is None or names:
        lines = _text(told, names, flags["program"])
        if not names and not flags["program"] and asking.where(flags) is None:
            lines += _agents(asking.folder_of(flags["cwd"]))
        if lines:
            emit("\n".join(lines))
    for name in unknown:
        say(f"{name} is neither a variable nor a program in PATH{_meant(name, told)}{_may_be_set(told)}")
    return 1 if unknown else 0


def _agents(folder: str) -> list[str]:
    """What an agent on this machine still has of a hook that is gone."""
    from ...contract.doctor.agents import claude
    from ...contract.doctor.machine import Machine
    from ...providers.inherited import load

    found = claude(Machine(load(), folder, login=False))
    if found.configured or not found.sessions:
        return []
    sessions = count(len(found.sessions), "session")
    return [
        f"agents: {sessions} of Claude Code would keep old variables when resumed, because the hook is gone; "
        "type: outfitter doctor"
    ]


def _may_be_set(told: Json) -> str:
    """Which layers could set what is not there, and what would make them."""
    waiting = [layer for layer in told["layers"] if layer["state"] in ("blocked", "failed")]
    return "".join(
        f"; {layer['id']} {'is blocked' if layer['state'] == 'blocked' else 'has failed'} and may set it: "
        f"{layer.get('note', '')}".removesuffix(": ")
        for layer in waiting
    )


def _meant(name: str, told: Json) -> str:
    """The variable or program that is spelled nearly like that."""
    from difflib import get_close_matches

    known = {one.upper(): one for one in (*told["programs"], *told["variables"])}
    close = get_close_matches(name.upper(), known, 1, 0.7)
    return f"; did you mean {known[close[0]]}?" if close else ""


def _drop_missing(told: Json, asked_for: Sequence[str]) -> None:
    """Programs that are nowhere are told only to those who asked for them as programs."""
    places = [told["programs"], told.get("loginShell", {}).get("programs", {})]
    found = {name for programs in places for name, entry in programs.items() if entry["path"] is not None}
    for programs in places:
        for name in [name for name in programs if name not in found and name not in asked_for]:
            del programs[name]


def _only(told: Json, names: Sequence[str], programs: Sequence[str]) -> Json:
    wanted = {*names, *programs}
    return {
        **told,
        "variables": {name: entry for name, entry in told["variables"].items() if name in wanted},
        "programs": {name: entry for name, entry in told["programs"].items() if name in wanted},
    }


def _text(told: Json, names: Sequence[str], programs: Sequence[str]) -> list[str]:
    paint = painter()
    lines: list[str] = []
    if not names and not programs:
        lines += overview(told, paint)
        if told["programs"]:
            lines.append(paint("bold", "programs"))
        for name in told["programs"]:
            lines += (f"  {line}" for line in program(name, told, paint))
    for name in dict.fromkeys((*names, *programs)):
        if name in told["variables"] and name in names:
            lines += variable(name, told["variables"][name], paint)
        if name in told["programs"]:
            lines += program(name, told, paint)
    if "loginShell" in told:
        lines += login_shell(told, paint)
    return lines
