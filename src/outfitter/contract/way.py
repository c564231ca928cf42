"""Folders from a directory upwards, and whether something has come or gone in one of them."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

TICK_NS = 20_000_000  # twice the slowest clock tick that kernels stamp files with

Signature = tuple[int, int]


class Way:
    """Folders as they were when this was made. The same object for as long as it `holds`."""

    __slots__ = ("_watched", "paths")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        now = time.time_ns()
        self._watched = [(path, signature(path, now)) for path in paths]

    @classmethod
    def joined(cls, ways: Iterable[Way], but: Container[str] = ()) -> Way:
        """Several in one, as they were; without the folders in `but`."""
        way = cls(())
        way._watched = [entry for one in ways for entry in one._watched if entry[0] not in but]
        way.paths = [path for path, _ in way._watched]
        return way

    def holds(self) -> bool:
        """Whether nothing has come or gone since: one stat for each folder."""
        stat = os.stat
        try:
            for path, before in self._watched:
                found = stat(path)
                if before is None or found.st_ctime_ns != before[0] or found.st_ino != before[1]:
                    return False
        except OSError:
            return False
        return True


def signature(path: str, now: int) -> Signature | None:
    """What changes when something comes or goes in a folder, or others may write there from now on.

    By the time that nobody can set back: `touch -d`, tar and rsync set the other one. None when it is not
    there, or so young that it could change again without a sign of it.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    changed = found.st_ctime_ns
    return None if abs(now - changed) < TICK_NS else (changed, found.st_ino)
