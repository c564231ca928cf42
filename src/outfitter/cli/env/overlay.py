"""outfitter env overlay: who adds to the environment of later commands; and files that are read for it."""

from __future__ import annotations

import os
import sys

from ...errors import OverlayRefused, SettingInvalid
from .output import emit, emit_json, printable, say
from .session import place, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.jsontext import Json
    from ..wishes import Flags
    from .session import KeptHere, KeptThere

_LARGEST = 1 << 20  # the largest environment, by default


def overlay(flags: Flags) -> int:
    """Does it; returns the exit status. Raises OutfitterError."""
    where = place(flags)
    changes = flags["import"] is not None or flags["drop"] is not None
    status = _change(where, flags) if changes else 0
    if flags["json"]:
        emit_json(where.told())
    elif not changes:
        emit("\n".join(_text(where.told(), where.where)))
    return status


def _change(where: KeptHere | KeptThere, flags: Flags) -> int:
    """What --import or --drop asks for; returns the exit status."""
    if flags["import"] is not None:
        if flags["hook"] is not None:
            return _hook(where, flags["hook"], flags["import"], strict=flags["strict"])
        return _import(where, flags["import"], strict=flags["strict"])
    if where.drop(flags["drop"]):
        return 0
    say(f"{printable(flags['drop'])} has added nothing for {where.where}")
    return 1


def _import(where: KeptHere | KeptThere, file: str, *, strict: bool) -> int:
    from ...formats.envfile import parse

    producer = "file:-" if file == "-" else f"file:{os.path.abspath(file)}"
    read = parse(_content(file), where.known(producer))
    for mistake in read.mistakes:
        say(printable(f"{file}:{mistake.line}: {mistake.what}"))
    try:
        contribution = read.contribution(producer, strict=strict)
    except OverlayRefused:
        say("nothing was added, because of --strict")
        return 1
    status = report(where.put(contribution, merge=False))
    return 1 if read.mistakes else status


def _hook(where: KeptHere | KeptThere, name: str, file: str, *, strict: bool) -> int:
    """What a hook of an agent printed: its `hookSpecificOutput.env`."""
    from ...env.overlay import why_no_producer
    from ...formats.hookoutput import contribution

    producer = f"hook:{name}"
    if why := why_no_producer(producer):
        raise SettingInvalid(f"--hook {printable(name)}: {why}")
    try:
        said, rejected = contribution(_content(file), producer, strict=strict)
    except OverlayRefused as error:
        say(printable(str(error)))
        return 1
    return report([*rejected, *where.put(said, merge=False)])


def _content(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
            with open(fd, "rb") as opened:
                data = opened.read(_LARGEST + 1)
    except OSError as error:
        raise SettingInvalid(f"cannot read {file}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise SettingInvalid(f"{file} has more than {_LARGEST} bytes: too large for a file of variables")
    return data.decode("utf-8", "surrogateescape")


def _text(told: Json, where: str) -> list[str]:
    lines = [f"for {where}:"]
    for one in told["contributions"]:
        said = [("", name) for name in one["set"]]
        said += [("-", name) for name in one["unset"]]
        said += [(f"{op} ", name) for op in ("prepend", "append", "remove") for name in one[op]]
        names = "  ".join(mark + printable(name) for mark, name in said)
        lines.append(f"  {printable(one['producer'])}: {names}")
    if not told["contributions"]:
        lines.append("  nothing")
    if told.get("withheld"):
        lines.append(f"  withheld: {'  '.join(map(printable, told['withheld']))}")
    for one in told.get("named", ()):
        lines.append(f"named {one['name']}  ({one['kind']}: {printable(one['file'])})")
    return lines
