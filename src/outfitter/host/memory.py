"""How this process uses its heap."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..loop import Loop

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_KEEP = 16 << 20
_GROW = 1 << 20
_LARGE = 4 << 20
# How long after a session has ended. To give back 40 MiB takes 8 ms, 240 MiB 34 ms, to find nothing 0.04 ms.
_GIVE_BACK_SECONDS = 10.0


def keep_freed_memory() -> None:
    """Tells glibc to keep a little freed memory instead of returning it to the kernel after each use.

    A stream allocates and frees 64 KiB pieces all the time; by default the top of the heap goes back
    every time and its pages are faulted in again, which cost more than encoding them (41 us against 15
    for one message). For a process of our own only: it is a setting of the whole process.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
        mallopt(_M_TOP_PAD, _GROW)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


class FreedMemory:
    """Gives back to the kernel what sessions have left, in one go for all that end together.

    Freed memory lies between what is in use: glibc returns none of it by itself, and a server that a crowd
    has left would keep 34 MiB of heap for 2 MiB that are used.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._due = False
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none

    def later(self) -> None:
        """A session has ended."""
        if self._trim is not None and not self._due:
            self._due = True
            self._loop.call_later(_GIVE_BACK_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._due = False
        assert self._trim is not None
        self._trim(ctypes.c_size_t(_GROW))
