"""The exec-server on any loop: connections in, sessions behind them. Knows no sockets."""

from __future__ import annotations

from ..pace import Pace
from ..protocol.session import LEFT
from ..transport.base import own_principal
from .connection import Connection
from .limits import GRANTS_KNOWN
from .services import Services
from .settings import ServerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..contract.contract import Contract
    from ..contract.trust import Grant
    from ..core.quotas import Sharing
    from ..loop import Loop
    from ..observe.observer import Observer
    from ..transport.base import Serving

    Connecting = Callable[[Services, Serving, Callable[[Connection], None]], Connection]


_TIDY_SECONDS = 0.2  # after what the first client waits for


class Server:
    """One exec-server. `executor` is the environment that policies start from.

    `retain=False` ends a session with its connection, for carriers that cannot be dialled again.
    `left` is called after each connection that is gone. `base` says whose environment `executor` is.
    `observer` is told what happens; `connection` makes a connection that tells of its requests.
    """

    def __init__(
        self,
        loop: Loop,
        settings: ServerSettings,
        executor: Mapping[str, str],
        *,
        retain: bool = True,
        left: Callable[[], None] | None = None,
        base: str = "daemon",
        pace: Pace | None = None,
        sharing: Sharing | None = None,
        observer: Observer | None = None,
        connection: Connecting = Connection,
    ) -> None:
        self._connection = connection
        self._services = Services(
            loop,
            settings,
            executor,
            retains=retain,
            base=base,
            pace=pace or Pace(),
            sharing=sharing,
            observer=observer,
        )
        if observer is not None:
            self.contract.on_grant = _told_once(observer)
        self._connections: set[Connection] = set()
        self._services.connections = self._connections
        self._retain = retain
        self._left = left

    @property
    def services(self) -> Services:
        """What all connections share."""
        return self._services

    @property
    def open_connections(self) -> list[Connection]:
        return list(self._connections)

    # What there is now, for those who count it

    @property
    def connected(self) -> int:
        return len(self._connections)

    @property
    def running(self) -> int:
        return self._services.sessions.running()

    @property
    def attached(self) -> int:
        return self._services.pace.clients

    @property
    def detached(self) -> int:
        return len(self._services.sessions) - self.attached

    @property
    def contract(self) -> Contract:
        """The environment contract of the commands."""
        return self._services.environments.contract

    def own_process(self, others: set[int]) -> None:
        """This process exists for the server alone: it may adopt orphans and raise its own limits."""
        self._services.sessions.own_process(others)
        self._services.loop.call_later(_TIDY_SECONDS, self._services.get_ready_to_confine)

    @property
    def connections(self) -> tuple[int, int]:
        """How many connections at a time the descriptors of this process suffice for: clients, strangers."""
        descriptors = self._services.sessions.descriptors
        return descriptors.connections, descriptors.strangers

    def drains(self, begun: Callable[[str], None], over: Callable[[], None]) -> None:
        """The server can end by itself: see `draining.Drain`."""
        self._services.ends = (begun, over)

    def drain(self, why: str) -> None:
        """Takes no more sessions, and ends when none is in use, where it can."""
        drain, observer = self._services.drain, self._services.observer
        if drain is not None and drain.begin() and observer is not None:
            observer.happened("draining", "", "", "", reason=why)

    def connect(self, transport: Serving) -> None:
        """Serves one connection; the transport may start delivering after this."""
        self._connections.add(self._connection(self._services, transport, self._disconnected))

    def _disconnected(self, connection: Connection) -> None:
        self._connections.discard(connection)
        session, connection.session = connection.session, None
        if session is not None and self._retain and not session.operates:
            left = connection.transport.close_code == LEFT
            self._services.sessions.detach(session, connection, left=left)
        elif session is not None:
            self._services.sessions.end(session)
        if self._left is not None:
            self._left()

    def stop(self, reason: str = "server is stopping") -> bool:
        """Tells every peer, and ends every session and all descendants; False when some may be left."""
        for connection in list(self._connections):
            connection.close(1001, reason)  # first: nobody waits for what takes long to end
        return self._services.stop()


def _told_once(observer: Observer) -> Callable[[Grant], None]:
    """Tells an observer of the trust that people have granted, when the server first makes use of it."""
    known: set[Grant] = set()

    def used(grant: Grant) -> None:
        if grant in known:
            return
        if len(known) >= GRANTS_KNOWN:
            known.clear()
        known.add(grant)
        facts = {"provider": grant.provider, "root": grant.root, "digest": grant.digest}
        observer.happened("trust-granted", own_principal(), "", "", grantedAtMs=grant.granted_ms, **facts)

    return used
