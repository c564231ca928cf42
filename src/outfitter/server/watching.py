"""The watches of one connection. They end with it; no resume brings them back."""

from __future__ import annotations

from ..errors import Refused
from ..host.watch.awaiting import MissingWatch
from ..host.watch.tree import TreeWatch
from ..protocol.uri import from_path
from ..protocol.watching import ChangedNotice, MissingChangedNotice
from .limits import CHANGES, WATCHED_FOLDERS, WATCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..formats.ignore import IgnoreRules
    from ..host.sandbox.grounding import Bounds
    from ..host.sandbox.seen import SeenTree
    from ..loop import Loop, Timer
    from .call import Channel
    from .services import Services


class Watches:
    """All of them, and the one for missing paths."""

    def __init__(self, channel: Channel, services: Services) -> None:
        self._channel = channel
        self._services = services
        self._loop = services.loop
        self._workers = services.workers
        self._last_missing = 0
        self._missing: Missing | None = None
        self._folders: dict[str, FolderWatch] = {}

    # Missing paths

    def next_missing(self, watch_id: int) -> Missing | None:
        """The watch for this number, in place of the one before; None when the number is not a new one.

        The reference ends the old one and uses the number up, whatever then becomes of the new one.
        Raises HostUnsupported, FileFailed.
        """
        if watch_id <= self._last_missing:
            return None
        self._last_missing = watch_id
        self._end_missing()
        self._missing = Missing(self, watch_id, self._services, self._channel.principal)
        return self._missing

    def answered_missing(self, missing: Missing, *, armed: bool) -> None:
        """The answer to the request is about to go."""
        if self._missing is not missing:
            self._workers.run(missing.watch.drop, _nothing)  # replaced while it was being armed
        elif not armed:
            self._missing = None
        elif missing.armed():
            # It has happened already; but the answer goes first.
            self._loop.call_soon(self.missing_changed, missing)

    def missing_changed(self, missing: Missing) -> None:
        if self._missing is missing:
            self._end_missing()
            self._channel.push(MissingChangedNotice(missing.watch_id).message())

    def _end_missing(self) -> None:
        missing, self._missing = self._missing, None
        if missing is not None:
            self._workers.run(missing.watch.drop, _nothing)

    # Folders and trees

    def reserve(
        self,
        watch_id: str,
        path: str,
        recursive: bool,
        ignore: IgnoreRules | None,
        debounce: float,
        bounds: Bounds | None = None,
    ) -> FolderWatch:
        """A place for a watch that is being armed. Raises Refused, HostUnsupported, FileFailed."""
        if watch_id in self._folders:
            raise Refused(f"watch `{watch_id}` already exists")
        if len(self._folders) >= WATCHES:
            raise Refused(f"at most {WATCHES} watches may be open per connection")
        watching = self._services.watching
        watch = self._folders[watch_id] = FolderWatch(self._channel, self._loop, watch_id, debounce)
        watch.tree = TreeWatch(
            self._loop,
            self._workers,
            watching,
            path,
            recursive=recursive,
            ignore=ignore,
            folders=WATCHED_FOLDERS,
            changes=CHANGES,
            told=watch.told,
            principal=self._channel.principal,
            sight=None if bounds is None else _seen(bounds),
        )
        return watch

    def end(self, watch_id: str) -> None:
        """Ends a watch without a word; one that is not there is fine."""
        watch = self._folders.pop(watch_id, None)
        if watch is not None:
            watch.close()

    # The connection

    def drained(self) -> None:
        for watch in self._folders.values():
            watch.drained()

    def lost(self) -> None:
        self._end_missing()
        for watch_id in list(self._folders):
            self.end(watch_id)


class Missing:
    """One fs/watchMissing. It may happen before the request is answered."""

    def __init__(self, watches: Watches, watch_id: int, services: Services, principal: str) -> None:
        self.watch_id = watch_id
        self.watch = MissingWatch(services, self._fire, principal)
        self._watches = watches
        self._armed = False
        self._fired = False

    def armed(self) -> bool:
        """Lets it be told from now on; whether it has happened already."""
        self._armed = True
        return self._fired

    def _fire(self) -> None:
        self._fired = True
        if self._armed:
            self._watches.missing_changed(self)


class FolderWatch:
    """One fs/watch: collects what changed for a while, then tells it, when the peer takes it."""

    tree: TreeWatch

    def __init__(self, channel: Channel, loop: Loop, watch_id: str, debounce: float) -> None:
        self._channel = channel
        self._loop = loop
        self._watch_id = watch_id
        self._debounce = debounce
        self._timer: Timer | None = None
        self._due = False  # the time is over, but the peer is slow; changes merge meanwhile

    def told(self) -> None:
        """There are changes. They wait from the first one on: a flood does not put them off."""
        if self._timer is None and not self._due:
            self._timer = self._loop.call_later(self._debounce, self._tell)

    def _tell(self) -> None:
        self._timer = None
        if self._channel.full:
            self._due = True
            return
        self._due = False
        changes, overflow = self.tree.changes.take()
        if changes or overflow:
            told = [(from_path(self.tree.full(path)), kind) for path, kind in changes]
            notice = ChangedNotice(self._watch_id, told, overflow or self.tree.incomplete)
            self._channel.push(notice.message())

    def drained(self) -> None:
        if self._due:
            self._tell()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = False
        self.tree.close()


def _seen(bounds: Bounds) -> SeenTree:
    from ..host.sandbox.seen import SeenTree

    return SeenTree(bounds)


def _nothing(_: object, __: BaseException | None) -> None:
    """For work whose result nobody waits for."""
