"""The pipes of the next command, opened before it comes: then nobody waits for them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Two pipes: our end of stdout and the child's, our end of stderr and the child's.
    Ends = tuple[int, int, int, int]


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
        for fd in ready or ():
            os.close(fd)


def _opened() -> Ends:
    opened: list[int] = []
    try:
        opened += os.pipe2(os.O_CLOEXEC)
        opened += os.pipe2(os.O_CLOEXEC)
        out_ours, out_theirs, err_ours, err_theirs = opened
        os.set_blocking(out_ours, False)
        os.set_blocking(err_ours, False)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return out_ours, out_theirs, err_ours, err_theirs
