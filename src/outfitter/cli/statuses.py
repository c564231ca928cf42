"""Exit statuses of `run` and `attach` that are not the command's own."""

from __future__ import annotations

from .console import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TIMED_OUT, NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND, READER_GONE = 124, 125, 126, 127, 141
INTERRUPTED = 128 + 2
DENIED = (  # by a sandbox that is not of this command line
    "the sandbox of the configuration denied something: see `outfitter sandbox explain`; "
    "--sandbox takes the place of your own [sandbox]"
)

_OF_THE_MACHINE = {
    "out-of-memory": "memory was used up, and the kernel has killed the command or one of its processes: "
    "raise the limit of its server or sandbox, or have it use less"
}


def say_reason(reason: str | None) -> None:
    """Says why the machine has ended a command, if its server says so."""
    if reason in _OF_THE_MACHINE:
        say(_OF_THE_MACHINE[reason])


def not_started(program: str, cwd: str | None, message: str, data: Mapping[str, object] | None) -> int:
    """Says why a server did not start a program; returns the exit status. `cwd` is the one asked for."""
    data = data or {}
    subject = data.get("subject")
    where = f" in {cwd}" if subject == "cwd" and cwd else ""
    say(f"cannot start {program}{where}: {data.get('reason') or message}")
    if subject in ("cwd", "sandbox"):
        return NOT_STARTED
    known = {"ENOENT": NOT_FOUND, "EACCES": NOT_EXECUTABLE, "ENOEXEC": NOT_EXECUTABLE}
    return known.get(str(data.get("errno")), NOT_STARTED)
