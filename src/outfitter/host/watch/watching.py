"""One inotify instance for everybody who watches: a user has few instances, a server many connections.

Who watches is a `Watcher`; it is called on the loop, with the key it gave for the folder. Watches are added
from threads, because finding a folder may take a while, and from the moment `add` returns nothing in it is
missed. An event from before is never told: what waits in the kernel is handed out to those it is for first.
"""

from __future__ import annotations

from collections import deque

from ...core.quotas import Sharing
from ...errors import FileFailed
from ...log import fault, warn
from ...stdlib import allocate_lock
from .inotify import IGNORED, OVERFLOW, UNMOUNT
from .notifying import Notifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from ...loop import Loop, Timer

    class Watcher(Protocol):
        principal: str

        # The key is whatever the watcher gave.
        def event(self, key: Any, bits: int, name: str) -> None:
            """Something happened in a folder; `IGNORED` is the last that is heard of it."""

        def overflowed(self) -> None:
            """Some events were lost, nobody knows which."""


# After a batch of events the kernel collects the next ones for so long: a program that writes and writes
# would wake us a hundred thousand times a second otherwise. Identical events in a row become one.
_PAUSE_SECONDS = 0.005


class Watching:
    """Shares an instance. Raises HostUnsupported, FileFailed."""

    def __init__(self, loop: Loop, limit: int, sharing: Sharing | None = None) -> None:
        """`limit` is how many folders may be watched in all; `sharing` says how principals share them."""
        self._loop = loop
        self._limit = limit
        self._sharing = sharing or Sharing()
        self._inotify = Notifier()
        self._lock = allocate_lock()
        self._users: dict[int, list[tuple[Watcher, object, int]]] = {}  # by watch: who, their key, their bits
        self._watches: dict[Watcher, set[int]] = {}
        self._ready: deque[tuple[Watcher, object, int, str]] = deque()
        self._pause: Timer | None = None
        self._failing = False  # the last read failed, and the log says so
        loop.add_reader(self._inotify.fd, self._readable)

    def __len__(self) -> int:
        """How many folders are watched."""
        return len(self._users)

    # From any thread

    def add(self, watcher: Watcher, folder: int, bits: int, key: object, path: str = "") -> int:
        """Watches an open folder, known as `path`; returns the watch's number. Raises OSError, FileFailed."""
        with self._lock:
            if self._inotify.fd < 0:
                raise FileFailed("the server is stopping")
            if len(self._users) >= self._limit:
                raise FileFailed(
                    f"this server already watches {self._limit} directories, which is its limit", "ENOSPC"
                )
            if self._sharing.several:
                self._check_share(watcher.principal)
            watch = self._inotify.add(folder, bits, path)
            users = self._users.get(watch)
            if users is None:
                users = self._users[watch] = []
            else:
                # Somebody watches it already, and what waits in the kernel happened before our time.
                while self._collect():
                    pass
            users.append((watcher, key, bits))
            self._watches.setdefault(watcher, set()).add(watch)
            told = bool(self._ready)
        if told:
            self._loop.call_soon_threadsafe(self._deliver)
        return watch

    def _check_share(self, principal: str) -> None:
        mine = sum(len(watches) for one, watches in self._watches.items() if one.principal == principal)
        if not self._sharing.allows(self._limit, len(self._users), mine):
            raise FileFailed(f"you already watch {mine} directories, your share of this server", "ENOSPC")

    def remove(self, watcher: Watcher, watch: int, key: object) -> None:
        """Ends one watch of a watcher, by the key it gave."""
        with self._lock:
            self._remove(watcher, watch, key)

    def drop(self, watcher: Watcher) -> None:
        """Ends all watches of a watcher. Events that are on their way may still reach it."""
        while True:
            with self._lock:
                watches = self._watches.get(watcher)
                if not watches:
                    self._watches.pop(watcher, None)
                    return
                self._remove(watcher, next(iter(watches)), None)

    def _remove(self, watcher: Watcher, watch: int, key: object) -> None:
        users = self._users.get(watch)
        if users is None:
            return
        users[:] = [one for one in users if one[0] is not watcher or (key is not None and one[1] is not key)]
        if not any(one[0] is watcher for one in users):
            self._watches.get(watcher, set()).discard(watch)
        if not users:
            del self._users[watch]
            if self._inotify.fd >= 0:
                self._inotify.remove(watch)

    # On the loop

    def _readable(self) -> None:
        with self._lock:
            more = self._collect()
        self._deliver()
        if not more and self._inotify.fd >= 0:
            self._loop.remove_reader(self._inotify.fd)
            self._pause = self._loop.call_later(_PAUSE_SECONDS, self._read_on)

    def _read_on(self) -> None:
        self._pause = None
        if self._inotify.fd >= 0:
            self._loop.add_reader(self._inotify.fd, self._readable)

    def _collect(self) -> bool:
        """Hands out what the kernel has, to those who are watching now; whether there may be more."""
        try:
            events, more = self._inotify.read()
        except OSError as error:
            # They wait in the kernel, and everybody watches through this one descriptor: it is read again.
            if not self._failing:
                warn("server", "cannot read what has changed in watched directories now: %s", error.strerror)
            self._failing = True
            return False
        self._failing = False
        for watch, bits, name in events:
            if bits & OVERFLOW:
                self._ready.extend((watcher, None, OVERFLOW, "") for watcher in self._watches)
                continue
            for watcher, key, wanted in self._users.get(watch, ()):
                if bits & (wanted | IGNORED | UNMOUNT):
                    self._ready.append((watcher, key, bits, name))
            if bits & IGNORED:
                self._forget(watch)
        return more

    def _forget(self, watch: int) -> None:
        """The kernel has ended a watch: its folder is gone."""
        for watcher, _, _ in self._users.pop(watch, ()):
            self._watches.get(watcher, set()).discard(watch)

    def _deliver(self) -> None:
        ready = self._ready
        while ready:
            watcher, key, bits, name = ready.popleft()
            try:
                if bits & OVERFLOW:
                    watcher.overflowed()
                else:
                    watcher.event(key, bits, name)
            except Exception as error:
                fault("server", "a watch could not handle an event", error)

    def close(self) -> None:
        """Ends every watch, without a word."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        with self._lock:
            if self._inotify.fd >= 0:
                self._loop.remove_reader(self._inotify.fd)
                self._inotify.close()
            self._users.clear()
            self._watches.clear()
            self._ready.clear()
