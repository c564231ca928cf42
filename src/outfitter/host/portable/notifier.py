"""What has changed in folders, in the words of `host.watch.inotify`: watchfiles says where, a look says what.

watchfiles (an extra: `outfitter[watch]`) uses what the system has: FSEvents on a Mac, kqueue, or it looks
again and again. It tells paths of one set of folders, and begins anew for another set. So each folder's
entries are remembered when its watch begins, and compared when something was told about it, or when watching
began anew: nothing is missed between two sets, but what came and went meanwhile is never told.
"""

from __future__ import annotations

import os
import stat
import threading

from ...errors import FileFailed, HostUnsupported
from ...log import warn
from ...loop import Wakeup
from ..watch.inotify import ATTRIB, CREATE, DELETE, IGNORED, ISDIR, MODIFY, MOVE_SELF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..watch.inotify import Event

    Entries = dict[str, os.stat_result]

_SETTLE_SECONDS = 0.02  # folders that are added one after the other make one set
_STEP_MS, _DEBOUNCE_MS = 20, 50  # watchfiles tells what happened within such a time together
_SETTLED_MS = 200  # after so long it watches a new set, and all folders of it are looked at
_MOST_ENTRIES = 50_000  # of a folder that are remembered: as many as can be listed


class _Watched:
    """A folder by its path, as it was at the last look."""

    __slots__ = ("entries", "identity", "own", "path")

    def __init__(self, path: str) -> None:
        """Raises OSError, FileFailed."""
        self.path = path
        self.own = os.stat(path)
        self.identity = self.own.st_dev, self.own.st_ino
        self.entries = _entries(path)


class Notifier:
    """One for everybody who watches. Raises HostUnsupported without watchfiles."""

    def __init__(self) -> None:
        try:
            import watchfiles  # noqa: F401
        except ImportError:
            raise HostUnsupported(
                "watching files needs Linux's inotify, or the package watchfiles: install outfitter[watch]"
            ) from None
        self._wakeup = Wakeup()
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = 0
        self._told: set[str] = set()  # folders of which something was told, by path
        # Folders in which a look found something, by path. watchfiles looks at other times than we do: what
        # we saw come may be gone before it looks, and then it tells nothing.
        self._again: set[str] = set()
        self._renewed = threading.Event()  # another set is to be watched
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name="outfitter-watch").start()

    @property
    def fd(self) -> int:
        return self._wakeup.fd

    def add(self, folder: int, bits: int, path: str = "") -> int:
        """Watches a folder by its path and returns the watch's number; the same one for the same folder at
        the same path. One that was moved gets another: the first one ends with its path. Raises OSError,
        FileFailed."""
        found = os.fstat(folder)
        with self._lock:
            number = self._numbers.get((found.st_dev, found.st_ino))
            if number is not None and self._watched[number].path == path:
                return number
            watched = _Watched(path)
            self._next += 1
            self._watched[self._next] = watched
            self._numbers[watched.identity] = self._next
            self._renewed.set()
            return self._next

    def remove(self, watch: int) -> None:
        """Ends a watch; one that has ended by itself is fine."""
        with self._lock:
            self._forget(watch)

    def _forget(self, watch: int) -> None:
        watched = self._watched.pop(watch, None)
        if watched is not None:
            if self._numbers.get(watched.identity) == watch:
                del self._numbers[watched.identity]
            self._renewed.set()

    def read(self) -> tuple[list[Event], bool]:
        """What happened, folder by folder; nothing when nothing did."""
        try:
            self._wakeup.woken()
        except BlockingIOError:
            pass
        events: list[Event] = []
        with self._lock:
            told, self._told = self._told, set()
            for number, watched in list(self._watched.items()):
                if watched.path in told:
                    found = _changes(watched)
                    if found:
                        self._again.add(watched.path)
                    events += ((number, bits, name) for bits, name in found)
                    if found and found[-1][0] & IGNORED:
                        self._forget(number)
        return events, False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._watched.clear()
            self._numbers.clear()
        self._renewed.set()
        self._wakeup.close()

    # In its thread

    def _run(self) -> None:
        while not self._closed:
            self._renewed.wait()
            self._renewed.clear()
            threading.Event().wait(_SETTLE_SECONDS)
            with self._lock:
                paths = sorted({watched.path for watched in self._watched.values()})
            if not paths:
                continue
            try:
                self._watch(paths)
            except Exception as error:  # a folder is gone before it could be watched, most often
                self._tell(paths)
                if not isinstance(error, FileNotFoundError):
                    warn("server", "watching begins anew: %r", error)
                threading.Event().wait(_SETTLED_MS / 1000)
                self._renewed.set()

    def _watch(self, paths: list[str]) -> None:
        from watchfiles import watch

        began = False
        for changes in watch(
            *paths,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=_SETTLED_MS,
            yield_on_timeout=True,
            stop_event=self._renewed,
            raise_interrupt=False,
            recursive=False,
            ignore_permission_denied=True,
        ):
            if not began:
                began = True
                self._tell(paths)  # whatever happened before it watched
            else:
                places = {place for _, path in changes for place in (path, os.path.dirname(path))}
                with self._lock:
                    places |= self._again
                    self._again.clear()
                if places:
                    self._tell(places)

    def _tell(self, paths: Iterable[str]) -> None:
        with self._lock:
            if self._closed:
                return
            self._told.update(paths)
            self._wakeup.wake()


def tells_nothing(folder: int) -> bool:
    """No system but Linux has folders that never tell anything."""
    return False


def _entries(path: str) -> Entries:
    """Raises OSError, FileFailed."""
    found: Entries = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if len(found) >= _MOST_ENTRIES:
                raise FileFailed(f"{path} has more than {_MOST_ENTRIES} entries", "ENOSPC")
            try:
                found[entry.name] = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it went while we looked
    return found


def _changes(watched: _Watched) -> list[tuple[int, str]]:
    """What is different from the last look, as bits and a name; the folder itself is ""."""
    try:
        own, now = os.stat(watched.path), _entries(watched.path)
    except (OSError, FileFailed):
        return [(IGNORED, "")]
    if (own.st_dev, own.st_ino) != watched.identity:
        return [(MOVE_SELF, ""), (IGNORED, "")]
    before, was = watched.entries, watched.own
    watched.entries, watched.own = now, own
    return ([(ATTRIB, "")] if own.st_mode != was.st_mode else []) + differences(before, now)


def differences(before: Entries, now: Entries) -> list[tuple[int, str]]:
    """What makes one listing another, in the words of inotify: first what went, then the rest by its time."""
    gone: list[tuple[int, str]] = []
    for name, was in before.items():
        found = now.get(name)
        if found is None or _is_another(was, found):
            gone.append((DELETE | _kind(was), name))
    came: list[tuple[int, int, str]] = []
    for name, found in now.items():
        old = before.get(name)
        if old is None or _is_another(old, found):
            bits = CREATE | _kind(found)
        elif not stat.S_ISDIR(found.st_mode) and _content(old) != _content(found):
            bits = MODIFY
        elif old.st_mode != found.st_mode:
            bits = ATTRIB | _kind(found)
        else:
            continue
        came.append((found.st_ctime_ns, bits, name))
    return gone + [(bits, name) for _, bits, name in sorted(came)]


def _is_another(was: os.stat_result, found: os.stat_result) -> bool:
    """A file that took the place of another has changed; a folder that did is another."""
    kinds = stat.S_IFMT(was.st_mode), stat.S_IFMT(found.st_mode)
    return kinds[0] != kinds[1] or (kinds[0] == stat.S_IFDIR and was.st_ino != found.st_ino)


def _kind(found: os.stat_result) -> int:
    return ISDIR if stat.S_ISDIR(found.st_mode) else 0


def _content(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns
