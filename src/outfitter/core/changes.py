"""What happened in a watched tree, merged per path until it is told.

A notice says how what is there now differs from what was there before: a file that came and went in between
is not worth a word. At most so many paths are kept; beyond them none is, and the notice says `overflow`,
which means "look for yourself".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CREATED, MODIFIED, REMOVED = "created", "modified", "removed"
# A folder that went and one that came at the same path: told as both, because what was below went with it.
REPLACED = "replaced"

# What was known of a path in this window, what happens to it, and what is known then; None: nothing.
MERGED: dict[tuple[str | None, str], str | None] = {
    (None, CREATED): CREATED,
    (None, MODIFIED): MODIFIED,
    (None, REMOVED): REMOVED,
    (CREATED, CREATED): CREATED,
    (CREATED, MODIFIED): CREATED,
    (CREATED, REMOVED): None,
    (MODIFIED, CREATED): MODIFIED,
    (MODIFIED, MODIFIED): MODIFIED,
    (MODIFIED, REMOVED): REMOVED,
    (REMOVED, CREATED): MODIFIED,  # REPLACED where one of the two is a folder
    (REMOVED, MODIFIED): MODIFIED,
    (REMOVED, REMOVED): REMOVED,
    (REPLACED, CREATED): REPLACED,
    (REPLACED, MODIFIED): REPLACED,
    (REPLACED, REMOVED): REMOVED,
}


class Changes:
    """The changes of one watch that have not been told yet."""

    __slots__ = ("_known", "_limit", "_overflow")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, tuple[str, bool]] = {}  # kind, and whether a folder is or was part of it
        self._overflow = False

    def __bool__(self) -> bool:
        return self._overflow or bool(self._known)

    def overflow(self) -> None:
        """There was more than can be told."""
        self._overflow = True
        self._known.clear()

    def add(self, path: str, kind: str, *, folder: bool = False) -> None:
        if self._overflow:
            return
        if folder and kind == REMOVED:
            # The folder stands for all that was below it, whatever was known of that.
            below = path + "/"
            for inner in [one for one in self._known if one.startswith(below)]:
                del self._known[inner]
        known, was_folder = self._known.get(path, (None, False))
        folder = folder or was_folder
        merged = MERGED[known, kind]
        if merged is None:
            del self._known[path]
            return
        if known == REMOVED and kind == CREATED and folder:
            merged = REPLACED
        if known is None and len(self._known) >= self._limit:
            self.overflow()
            return
        self._known[path] = merged, folder

    def take(self) -> tuple[list[tuple[str, str]], bool]:
        """Path and kind of each change, in the order they came, and whether there was more. Starts anew."""
        told: list[tuple[str, str]] = []
        for path, (kind, _) in self._known.items():
            if kind == REPLACED:
                told += ((path, REMOVED), (path, CREATED))
            else:
                told.append((path, kind))
        overflow = self._overflow
        self._known.clear()
        self._overflow = False
        return told, overflow


class Names:
    """The names in a folder, eight bytes each: only whether one was there before is ever asked.

    Two names with one hash would turn a "created" into a "modified", once in 2^64 pairs.
    """

    __slots__ = ("_hashes",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._hashes = array("q", sorted(map(hash, names)))

    def __contains__(self, name: str) -> bool:
        place = bisect_left(self._hashes, hash(name))
        return place < len(self._hashes) and self._hashes[place] == hash(name)

    def add(self, name: str) -> None:
        if name not in self:
            self._hashes.insert(bisect_left(self._hashes, hash(name)), hash(name))

    def discard(self, name: str) -> None:
        place = bisect_left(self._hashes, hash(name))
        if place < len(self._hashes) and self._hashes[place] == hash(name):
            del self._hashes[place]
