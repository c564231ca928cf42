"""The exec-server on any loop: connections in, sessions behind them. Knows no sockets."""

from __future__ import annotations

from ..protocol.jsontext import dumps
from .connection import Connection
from .environment import Environments
from .sessions import Sessions
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..loop import Loop
    from ..transport.base import Transport


class Server:
    """One exec-server. `executor` is the environment that policies start from.

    `retain=False` ends a session with its connection, for carriers that cannot be dialled again.
    `left` is called after each connection that is gone.
    """

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        executor: Mapping[str, str],
        *,
        retain: bool = True,
        left: Callable[[], None] | None = None,
    ) -> None:
        self.sessions = Sessions(loop, settings)
        self.environments = Environments(executor, settings.session_retention if retain else 0.0)
        self.connections: set[Connection] = set()
        self._retain = retain
        self._left = left
        self._info = ""

    def connect(self, transport: Transport) -> Connection:
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

    def info_text(self) -> str:
        """environment/info as JSON text; nothing in it changes while the server runs."""
        if not self._info:
            self._info = dumps(self.environments.info())
        return self._info

    def stop(self, reason: str = "server is stopping") -> None:
        """Ends every session and all descendants, then tells every peer."""
        self.sessions.stop()
        for connection in list(self.connections):
            connection.transport.close(1001, reason)
