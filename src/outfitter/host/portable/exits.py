"""The end of a child, noticed by a thread that waits for it: in place of a descriptor of the process.

The thread reaps the child, so its number may belong to somebody else from then on, a moment before we know of
its end. A thread costs a tenth of a millisecond; there are as many as there are commands, which are bounded.
"""

from __future__ import annotations

import os

from ...stdlib import allocate_lock, start_new_thread
from ..killing import kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...stdlib import LockType


class _Exit:
    """One child's end: `ended` can be taken when it has come, and `status` is what the kernel said of it."""

    __slots__ = ("ended", "status")

    def __init__(self) -> None:
        self.ended: LockType = allocate_lock()
        self.ended.acquire()
        self.status: int | None = None  # also where somebody else has reaped it


_exits: dict[int, _Exit] = {}  # children that are watched and that nobody has asked about since they ended


def watch_exit(pid: int, flags: int = 0) -> int:
    """A descriptor that can be read when the child has ended. Raises OSError."""
    reading, writing = os.pipe()
    known = _exits[pid] = _Exit()
    try:
        start_new_thread(_wait, (pid, known, writing))
    except RuntimeError:
        del _exits[pid]
        os.close(reading)
        os.close(writing)
        raise BlockingIOError(11, "no thread can be started") from None
    return reading


def _wait(pid: int, known: _Exit, writing: int) -> None:
    try:
        known.status = os.waitpid(pid, 0)[1]
    except ChildProcessError:
        pass
    known.ended.release()
    os.close(writing)


def waitpid(pid: int, options: int) -> tuple[int, int]:
    """As `os.waitpid`, for one child, watched or not. Raises ChildProcessError."""
    known = _exits.get(pid)
    if known is None:
        return os.waitpid(pid, options)
    if not known.ended.acquire(blocking=not options & os.WNOHANG):
        return 0, 0
    del _exits[pid]
    if known.status is None:
        raise ChildProcessError(10, "no child process")
    return pid, known.status


def kill_watched(pid: int, ending: int) -> None:
    """SIGKILL for a child that is watched, unless it has ended."""
    known = _exits.get(pid)
    if known is not None and known.ended.locked():
        kill(pid)


def reap_watched(pid: int, ending: int) -> bool:
    """Whether it has ended, whoever has reaped it."""
    try:
        return waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
