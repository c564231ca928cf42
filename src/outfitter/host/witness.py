"""Remembers what was looked at, so that somebody can tell later whether it would look the same."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from .walk import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .walk import Entry

    Mark = tuple[int, int, int, int, int] | None  # None: it is not there, or cannot be seen

# A change within the tick of a file system's clock does not show in its times. The longest tick that is in
# use is FAT's.
_TICK_NS = 2_000_000_000
_PATHS = 65_536  # that are remembered, 10 MB; to look at more again takes as long as to read them


class Witness:
    """Files as they are (a `walk.Sight`). What changes a file or a folder changes its `ctime`, which nobody
    can set back."""

    def __init__(self, now_ns: int | None = None) -> None:
        self._seen: dict[str, Mark] = {}
        self._since = time.time_ns() if now_ns is None else now_ns

    @property
    def settled(self) -> bool:
        """Whether all that was seen was old enough for a later change to show, and is worth remembering."""
        last = max([mark[0] for mark in self._seen.values() if mark is not None], default=0)
        return last + _TICK_NS < self._since and len(self._seen) <= _PATHS

    def holds(self) -> bool:
        """Whether all of it looks the same now."""
        return all(_mark(path) == mark for path, mark in self._seen.items())

    # Looking

    def stat(self, path: str) -> os.stat_result:
        self._seen[path] = None
        found = os.stat(path)
        self._seen[path] = _of(found)
        return found

    def is_link(self, path: str) -> bool:
        self._seen[os.path.dirname(path)] = _mark(os.path.dirname(path))
        return PLAIN.is_link(path)

    def real(self, path: str) -> str:
        self._seen[path] = _mark(path)
        return PLAIN.real(path)

    @contextmanager
    def scan(self, path: str) -> Iterator[Iterable[Entry]]:
        self._seen[path] = _mark(path)  # before it is listed: what comes meanwhile is a change
        with os.scandir(path) as entries:
            yield self._entries(entries)

    def _entries(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[Entry]:
        for entry in entries:
            if entry.is_symlink():  # where it leads is not in its folder
                self._seen[entry.path] = _mark(entry.path)
            yield entry

    def open_read(self, path: str) -> tuple[int, os.stat_result]:
        self._seen[path] = None
        fd, found = PLAIN.open_read(path)
        self._seen[path] = _of(found)
        return fd, found


def _mark(path: str) -> Mark:
    try:
        return _of(os.stat(path))
    except OSError:
        return None


def _of(found: os.stat_result) -> Mark:
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
