"""The end of a child, noticed by a thread that waits for it: in place of a descriptor of the process.

The thread reaps the child, so its number may belong to somebody else from then on, a moment before we know of
its end. A thread costs a tenth of a millisecond; there are as many as there are commands, which are bounded.
"""

from __future__ import annotations

import errno
import os

from ...stdlib import allocate_lock, start_new_thread
from ..killing import kill
from .descendants import reaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...stdlib import LockType


class _Exit:
    """One child's end: `over` when it has come, and `status` is what the kernel said of it.

    `told` can be taken when the thread has done all that it does.
    """

    __slots__ = ("over", "status", "told")

    def __init__(self) -> None:
        self.over = False
        self.status: int | None = None  # also where somebody else has reaped it
        self.told: LockType = allocate_lock()
        self.told.acquire()


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
        raise BlockingIOError(errno.EAGAIN, "no thread can be started") from None
    return reading


def _wait(pid: int, known: _Exit, writing: int) -> None:
    try:
        known.status = os.waitpid(pid, 0)[1]
    except ChildProcessError:
        pass
    known.over = True
    reaped(pid)
    os.close(writing)
    known.told.release()


def waitpid(pid: int, options: int) -> tuple[int, int]:
    """As `os.waitpid`, for one child, watched or not. Raises ChildProcessError."""
    known = _exits.get(pid)
    if known is None:
        found = os.waitpid(pid, options)
        reaped(found[0])
        return found
    if options & os.WNOHANG and not known.over:
        return 0, 0
    known.told.acquire()  # a moment after `over`
    del _exits[pid]
    if known.status is None:
        raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
    return pid, known.status


def kill_watched(pid: int, ending: int) -> None:
    """SIGKILL for a child that is watched, unless it has ended."""
    known = _exits.get(pid)
    if known is not None and not known.over:
        kill(pid)


def reap_watched(pid: int, ending: int) -> bool:
    """Whether it has ended, whoever has reaped it."""
    try:
        return waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
