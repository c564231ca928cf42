"""Whether files are still what they were: by their stamps, of which kernels' clocks make too few."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_TICK_NS = 20_000_000  # twice the slowest clock tick that kernels stamp files with

Signature = tuple[tuple[int, ...] | None, ...]


def signature(paths: Sequence[str]) -> Signature:
    """What each path is now, to the nanosecond; None for one that is not there."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            info = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return tuple(found)


def unchanged(paths: Sequence[str], before: Signature) -> bool:
    """Whether `signature` would be what it was."""
    stat, access = os.stat, os.access
    try:
        for path, was in zip(paths, before, strict=True):
            if was is None:
                if access(path, os.F_OK):  # a third of the price of a stat that fails
                    return False
                continue
            info = stat(path)
            if was != (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns):
                return False
    except OSError:
        return False
    return True


def settled(paths: Sequence[str]) -> Signature:
    """The same, once none is so young that it could change again without a sign of it.

    That takes a clock tick at most, in the thread that asks anyway; so one change is one question.
    """
    while True:
        found = signature(paths)
        youngest = max((entry[3] for entry in found if entry is not None), default=0)
        age = time.time_ns() - youngest
        if not 0 <= age < _TICK_NS:
            return found
        time.sleep((_TICK_NS - age) / 1e9)
