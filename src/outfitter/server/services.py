"""What the requests of all connections share. Each part is made when it is first needed."""

from __future__ import annotations

from ..core.turns import Turns
from ..pace import Pace
from .environment import Environments
from .limits import (
    EXPLAINING,
    QUESTIONS_TOTAL,
    SEARCHES,
    SEARCHES_TOTAL,
    WALKS,
    WALKS_TOTAL,
    WATCHED_FOLDERS_TOTAL,
)
from .sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from ..host.statx import CachedLookup
    from ..host.watching import Watching
    from ..host.workers import Done, Workers
    from ..loop import Loop
    from ..protocol.session import EnvironmentInfo
    from .asking import Asking
    from .settings import ServerSettings
    from .walking import Walkers


class Services:
    """`executor` is the environment that policies start from, `base` says whose it is."""

    def __init__(
        self,
        loop: Loop,
        settings: ServerSettings,
        executor: Mapping[str, str],
        *,
        retention: float,
        base: str,
        pace: Pace,
    ) -> None:
        self.loop = loop
        self.pace = pace
        self.sessions = Sessions(loop, settings, pace)
        self.environments = Environments(executor, retention, base)
        self._info: EnvironmentInfo | None = None
        self._workers: Workers | None = None
        self._watching: Watching | None = None
        self._cached: CachedLookup | None = None
        self._walkers: Walkers | None = None
        self._asking: Asking | None = None
        self._explaining: Turns | None = None
        self._slow: Workers | None = None
        self.walks = Turns(WALKS_TOTAL, WALKS)
        self.searches = Turns(SEARCHES_TOTAL, SEARCHES)

    @property
    def info(self) -> EnvironmentInfo:
        """What the server says of itself; nothing in it changes while the server runs."""
        if self._info is None:
            self._info = self.environments.info()
        return self._info

    @property
    def workers(self) -> Workers:
        """Threads for what may block; most servers' first need is long after their start."""
        if self._workers is None:
            from ..host.workers import Workers

            self._workers = Workers(self.loop)
        return self._workers

    @property
    def asking(self) -> Asking:
        """What providers are being asked."""
        if self._asking is None:
            from .asking import Asking

            self._asking = Asking(self.loop, self.sessions, self.slow)
        return self._asking

    @property
    def slow(self) -> Workers:
        """Threads for what may take long: nothing that is soon done waits for one of them."""
        if self._slow is None:
            from ..host.workers import Workers

            self._slow = Workers(self.loop, QUESTIONS_TOTAL + WALKS_TOTAL + EXPLAINING)
        return self._slow

    def explain(self, owner: Hashable, work: Callable[[], object], done: Done) -> None:
        """Computes something large beside the loop, one at a time; owners take turns."""
        if self._explaining is None:
            self._explaining = Turns(EXPLAINING, EXPLAINING)
        turns = self._explaining

        def over(result: object, failure: BaseException | None) -> None:
            turns.done(owner)
            done(result, failure)

        turns.add(owner, lambda: self.slow.run(work, over))

    @property
    def walkers(self) -> Walkers:
        if self._walkers is None:
            from .walking import Walkers

            self._walkers = Walkers(self.environments.for_ourselves())
        return self._walkers

    @property
    def cached(self) -> CachedLookup:
        if self._cached is None:
            from ..host.statx import CachedLookup

            self._cached = CachedLookup()
        return self._cached

    @property
    def watching(self) -> Watching:
        """What the kernel tells about files, for all connections. Raises HostUnsupported, FileFailed."""
        if self._watching is None:
            from ..host.watching import Watching

            self._watching = Watching(self.loop, WATCHED_FOLDERS_TOTAL)
        return self._watching

    def stop(self) -> None:
        """Ends every session and all descendants."""
        self.sessions.stop()
        if self._watching is not None:
            self._watching.close()
