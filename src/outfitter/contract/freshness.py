"""What files and folders looked like, and whether they can have changed since.

A stamp tells two states of a file apart, unless both fall into one tick of the clock that kernels stamp files
with. So a stamp that is younger than a tick proves nothing: `lasting` makes one of it that no file has, and
`settled` waits until there is none.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

TICK_NS = 20_000_000  # twice the slowest tick
# Some file systems know whole seconds only (ext3, HFS+), FAT every other one. Elsewhere one stamp in a
# billion looks like that.
COARSE_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
_TRIES = 10  # to find files at rest
# An answer about a file that is written without a pause holds for so long: for whoever asked, at least.
RESTLESS_SECONDS = 1.0

# Inode, size, and the two times to the nanosecond; the last one nobody can set back, as tar and rsync do with
# the other. None for what is not there.
Stamp = tuple[int, ...] | None
Stamps = tuple[Stamp, ...]
_UNSETTLED: Stamp = ()  # no file has this one


def stamp_of(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def stamp(path: str) -> Stamp:
    """What a path is now; links are followed."""
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):  # a file of a project may name a path with a NUL: nothing is there
        return None


def stamps(paths: Iterable[str]) -> Stamps:
    return tuple(map(stamp, paths))


def lasting(found: Stamp) -> Stamp:
    """A stamp to compare with later. Ask for it before reading the file: what comes after it must show."""
    return _UNSETTLED if found is not None and abs(time.time_ns() - found[3]) < _tick(found) else found


def _tick(found: tuple[int, ...]) -> int:
    """How long a file can change without a sign in its stamp."""
    return TICK_NS if found[3] % _SECOND_NS else COARSE_NS


def _unrest(found: Stamps) -> int:
    """How many nanoseconds it takes until none of them is too young. Clocks that were ahead do not count."""
    now = time.time_ns()
    rests = [one[3] + _tick(one) - now for one in found if one is not None and one[3] <= now]
    return max(rests, default=0)


def unchanged(paths: Sequence[str], before: Stamps) -> bool:
    """Whether every path is what it was."""
    stat, access = os.stat, os.access
    try:
        for path, was in zip(paths, before, strict=True):
            if was is None:
                try:
                    if access(path, os.F_OK):  # a third of the price of a stat that fails
                        return False
                except ValueError:
                    pass  # as above
                continue
            info = stat(path)
            if was != (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns):
                return False
    except OSError:
        return False
    return True


def by_now(paths: Sequence[str], before: Stamps) -> Stamps:
    """The stamps of paths as they are by now; those that never rested `before` do not now."""
    return tuple(was if was == _UNSETTLED else stamp(path) for path, was in zip(paths, before, strict=True))


def settled(paths: Sequence[str]) -> Stamps:
    """The stamps of paths, once none is so young that it could change again without a sign of it.

    That takes a clock tick at most, in the thread that asks anyway; so one change is one question. For a file
    that never rests, there is a stamp that no file has.
    """
    for _ in range(_TRIES):
        found = stamps(paths)
        unrest = _unrest(found)
        if unrest <= 0:
            return found
        time.sleep(unrest / 1e9)
        if unrest > TICK_NS:
            break  # nobody waits for several of these
    return tuple(map(lasting, stamps(paths)))


class Fresh:
    """An answer's inputs: `watch` are the paths, `stamps` what they were. With `seconds`, for so long.

    Those that never rest are not compared: nobody would ever get an answer. It holds for RESTLESS_SECONDS.
    """

    __slots__ = ("_compared", "stamps", "until", "watch")

    def __init__(self, watch: Sequence[str], stamps: Stamps, seconds: float | None = None) -> None:
        self.watch = self._compared = watch
        self.stamps = stamps
        if _UNSETTLED in stamps:
            calm = [(path, was) for path, was in zip(watch, stamps, strict=True) if was != _UNSETTLED]
            self._compared, self.stamps = [path for path, _ in calm], tuple(was for _, was in calm)
            seconds = RESTLESS_SECONDS
        self.until = None if seconds is None else time.monotonic() + seconds

    def holds(self) -> bool:
        """Whether the answer can be used again: one stat for each path."""
        if self.until is not None and time.monotonic() > self.until:
            return False
        return unchanged(self._compared, self.stamps)


class Way:
    """Folders from a directory upwards, as they were when this was made: it `holds` while nothing has come
    or gone in one of them, and nobody else may write there from now on."""

    __slots__ = ("_stamps", "paths")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._stamps = tuple(map(lasting, stamps(paths)))

    @classmethod
    def joined(cls, ways: Iterable[Way], but: Container[str] = ()) -> Way:
        """Several in one, as they were; without the folders in `but`."""
        found = [pair for one in ways for pair in zip(one.paths, one._stamps, strict=True)]
        way = cls(())
        way.paths = [path for path, _ in found if path not in but]
        way._stamps = tuple(was for path, was in found if path not in but)
        return way

    def holds(self) -> bool:
        """One stat for each folder."""
        return unchanged(self.paths, self._stamps)
