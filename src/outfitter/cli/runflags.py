"""The flags of `outfitter run`; apart from `flags`, because a server starts without them."""

from __future__ import annotations

import os

from ..errors import SettingInvalid
from ..plain import is_text
from . import detachkeys
from .envflags import SANDBOX, WHERE, WISHES
from .flags import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .wishes import Flags

DETACH_KEYS = Flag(
    "--detach-keys",
    "text",
    "On a terminal, the keys that leave the command running; `none` turns them off.",
    "KEYS",
    initial=detachkeys.DEFAULT,
)
EVENTS = Flag("--json", "flag", "Print one JSON line per event instead of the output.")
RUN: tuple[Flag, ...] = (
    *WHERE,
    Flag("--tty", "flag", "Allocate a terminal; if stdin is one, put it in raw mode.", short="-t"),
    Flag("--detach", "flag", "Leave the command running on the server and print its ID.", short="-d"),
    Flag(
        "--detach-for",
        "seconds",
        "Like --detach, for at most this long while no client is attached.",
        "SECONDS",
    ),
    Flag("--explain", "flag", "Afterwards, show on stderr where the environment came from."),
    *WISHES,
    Flag("--login", "text", "What to do with a shell's login flag.", choices=("allow", "strip", "reject")),
    Flag(
        "--startup",
        "text",
        "What to do with a shell's startup files.",
        choices=("enforce", "repair", "report"),
    ),
    Flag(
        "--from",
        "text",
        "Whose environment to start from, if --on names an Outfitter server on this machine.",
        choices=("client", "daemon", "merge"),
    ),
    *SANDBOX,
    Flag("--cwd", "text", "Run the command in this directory of the executor.", "PATH"),
    Flag("--timeout", "seconds", "End the command after this many seconds.", "SECONDS"),
    DETACH_KEYS,
    EVENTS,
)
# What only `cli.run` does, by the flags that ask for it.
_MORE = ("tty", "detach", "detach_for", "detach_keys", "explain", "json", "from")
_CONFINED = ("sandbox", "allow_domain", "allow_write", "deny_read")
_KNOWN = ("codex_home", "tls_ca", "tls_cert", "tls_key")  # about servers that are named or have TLS
_ELSEWHERE = ("on", "token_file", *_KNOWN)


def is_plain(argv: Sequence[str], flags: Flags) -> bool:
    """Whether a command line asks for nothing but a command on this machine."""
    return _unsaid(_MORE + _CONFINED + _ELSEWHERE, argv, flags) and not _has_environments()


def is_plain_elsewhere(argv: Sequence[str], flags: Flags) -> bool:
    """Whether it asks for nothing but a command on a server that has a URL."""
    return _unsaid(_MORE + _CONFINED + _KNOWN, argv, flags) and ":" in (flags["on"] or "")


def _unsaid(names: tuple[str, ...], argv: Sequence[str], flags: Flags) -> bool:
    unsaid = {flag.name: flag.default for flag in RUN}
    if not argv or any(flags[name] is not unsaid[name] for name in names):
        return False
    return not_text(argv, flags) is None


def not_text(argv: Sequence[str], flags: Flags) -> str | None:
    """Which part of a command line is not UTF-8, and could not be told to a server; values are not shown."""
    for place, argument in enumerate(argv):
        if not is_text(argument):
            return f"argument {place}" if place else "the name of the program"
    for option in ("env", "set"):
        for name, value in flags[option]:
            if not is_text(name) or not is_text(value):
                return f"--{option} {name}"
    for option in ("unset", "exclude", "include_only", "overlay", "allow_write", "deny_read"):
        if not all(map(is_text, flags[option])):
            return f"a value of --{option.replace('_', '-')}"
    return None if flags["cwd"] is None or is_text(flags["cwd"]) else "--cwd"


def _has_environments() -> bool:
    """Whether there is a file that may name another environment as the default."""
    from ..places import environments_file

    try:
        return os.path.lexists(environments_file(os.environ))
    except SettingInvalid:
        return False  # without a home there is no file
