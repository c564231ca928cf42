"""How this process uses its heap."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_KEEP = 16 << 20
_GROW = 1 << 20
_LARGE = 4 << 20


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
