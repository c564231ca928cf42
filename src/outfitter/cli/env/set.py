"""outfitter env set: variables for all later commands of a worktree, or of a session on a server."""

from __future__ import annotations

import sys

from ...env.overlay import read
from ...errors import SettingInvalid
from .output import printable
from .session import place, report, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wishes import Flags

_LONGEST = 131_072  # more is no variable


def set_variables(words: Sequence[str], flags: Flags) -> int:
    """Keeps them; returns the exit status. Raises OutfitterError."""
    if flags["secret"] and flags["on"] is None:
        raise SettingInvalid(
            "secrets are never written to disk: set them on a running server with --on and --scope"
        )
    where = place(flags)
    values: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        values[name] = value if equals else _typed(name)
    secrets = list(values) if flags["secret"] else []
    contribution, rejected = read("user", {"set": values, "secrets": secrets})
    refused = [*rejected, *where.put(contribution, merge=True)]
    return tell(refused, {"where": where.where}, "set", list(values)) if flags["json"] else report(refused)


def _typed(name: str) -> str:
    """A value that is not on the command line, where others could see it."""
    if sys.stdin is None:
        raise SettingInvalid(
            f"{printable(name)} has no value, and standard input is closed: write NAME=VALUE"
        )
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass(f"{printable(name)}: ")
    line = sys.stdin.buffer.readline(_LONGEST)
    if not line:
        raise SettingInvalid(f"{printable(name)} has no value, and standard input has no line for it")
    return line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
