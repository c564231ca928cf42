"""The exec-server on any loop: connections in, sessions behind them. Knows no sockets."""

from __future__ import annotations

from ..protocol.jsontext import dumps
from .connection import Connection
from .environment import Environments
from .limits import WATCHED_FOLDERS_TOTAL
from .sessions import Sessions
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..host.statx import CachedLookup
    from ..host.watching import Watching
    from ..host.workers import Workers
    from ..loop import Loop
    from ..transport.base import Serving
    from .asking import Asking
    from .walking import Walkers


class Server:
    """One exec-server. `executor` is the environment that policies start from.

    `retain=False` ends a session with its connection, for carriers that cannot be dialled again.
    `left` is called after each connection that is gone. `base` says whose environment `executor` is.
    """

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        executor: Mapping[str, str],
        *,
        retain: bool = True,
        left: Callable[[], None] | None = None,
        base: str = "daemon",
    ) -> None:
        self.sessions = Sessions(loop, settings)
        self.environments = Environments(executor, settings.session_retention if retain else 0.0, base)
        self.connections: set[Connection] = set()
        self._retain = retain
        self._left = left
        self._info = ""
        self._loop = loop
        # Ours has it, an application's own loop has not.
        self.answered: Callable[..., None] | None = getattr(loop, "answered", None)
        self._workers: Workers | None = None
        self._watching: Watching | None = None
        self._cached: CachedLookup | None = None
        self._walkers: Walkers | None = None
        self._asking: Asking | None = None

    def connect(self, transport: Serving) -> Connection:
        """Serves one connection; the transport may start delivering after this."""
        connection = Connection(self, transport)
        self.connections.add(connection)
        return connection

    def disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)
        session, connection.session = connection.session, None
        if session is not None and self._retain:
            self.sessions.detach(session, connection)
        elif session is not None:
            self.sessions.end(session)
        if self._left is not None:
            self._left()

    @property
    def workers(self) -> Workers:
        """Threads for what may block; most servers' first need is long after their start."""
        if self._workers is None:
            from ..host.workers import Workers

            self._workers = Workers(self._loop)
        return self._workers

    @property
    def asking(self) -> Asking:
        """What providers are being asked."""
        if self._asking is None:
            from .asking import Asking

            self._asking = Asking(self, self._loop)
        return self._asking

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

            self._watching = Watching(self._loop, WATCHED_FOLDERS_TOTAL)
        return self._watching

    def info_text(self) -> str:
        """environment/info as JSON text; nothing in it changes while the server runs."""
        if not self._info:
            self._info = dumps(self.environments.info())
        return self._info

    def stop(self, reason: str = "server is stopping") -> None:
        """Ends every session and all descendants, then tells every peer."""
        self.sessions.stop()
        if self._watching is not None:
            self._watching.close()
        for connection in list(self.connections):
            connection.transport.close(1001, reason)
