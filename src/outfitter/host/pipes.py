"""Descriptors: how to let go of them, and the pipes of the next command, opened before it comes."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Two pipes: our end of stdout and the child's, our end of stderr and the child's.
    Ends = tuple[int, int, int, int]


def let_go(*fds: int) -> None:
    """Closes descriptors that nothing was written through, all of them: one whose close fails is closed, too.

    -1 is none. Raises OSError where one was closed before, which is a fault of ours.
    """
    twice = None
    for fd in fds:
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno == errno.EBADF:
                    twice = error
    if twice is not None:
        raise twice


class Pipes:
    """Pairs of pipes for output. Our ends do not block; the child's ends must, so they are opened plainly."""

    def __init__(self) -> None:
        self._ready: Ends | None = None

    def take(self) -> Ends:
        """Raises OSError."""
        ready, self._ready = self._ready, None
        return _opened() if ready is None else ready

    def prepare(self) -> None:
        """Opens those that will be taken next; where that fails, taking them will say so."""
        if self._ready is None:
            try:
                self._ready = _opened()
            except OSError:
                pass

    def close(self) -> None:
        ready, self._ready = self._ready, None
        let_go(*(ready or ()))


def _opened() -> Ends:
    opened: list[int] = []
    try:
        opened += os.pipe()
        opened += os.pipe()
        out_ours, out_theirs, err_ours, err_theirs = opened
        os.set_blocking(out_ours, False)
        os.set_blocking(err_ours, False)
    except OSError:
        let_go(*opened)
        raise
    return out_ours, out_theirs, err_ours, err_theirs
