"""The proxy of one command: HTTP, CONNECT and SOCKS5, on the server's own loop.

Each connection says first what it wants, in at most 64 KiB and 30 s. The policy judges it, and the addresses
behind it; then bytes pass, and nobody looks at them. A step that fails ends the connection: there is no way
through the proxy that was not judged.
"""

from __future__ import annotations

from ...errors import Exhausted
from ...stdlib import socket
from . import admission
from .clients import HttpClient, SocksClient
from .relay import StreamPipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...core.network import NetworkPolicy
    from ...loop import Loop, Timer
    from ..descriptors import Descriptors
    from .admission import ProxyClient, Watcher
    from .upstream import Resolver

# At a time, of one command. A browser has a hundred, a package manager fifty. More wait in the kernel.
CONNECTIONS = 256
_DESCRIPTORS = 2  # of one: its two sockets
_TCP, _NODELAY = 6, 1
_AGAIN_SECONDS = 0.1  # after a connection that could not be accepted


class Proxy:
    """Accepts what comes through its listening sockets until `close`."""

    def __init__(
        self,
        policy: NetworkPolicy,
        watcher: Watcher,
        *,
        loop: Loop,
        resolver: Resolver,
        descriptors: Descriptors | None = None,
        own_ports: Collection[int] = (),
        lets_in: Callable[[socket], bool] = lambda _: True,
    ) -> None:
        """`own_ports` are the server's own, which no command reaches; `lets_in` says who is served at all."""
        self.policy = policy
        self.watcher = watcher
        self.loop = loop
        self.resolver = resolver
        self.pipes = StreamPipes(descriptors, watcher.principal)
        self.own_ports = own_ports
        self.listening: list[tuple[socket, str]] = []
        self._descriptors = descriptors
        self._lets_in = lets_in
        self._connections: set[ProxyClient] = set()
        self._sweeping: Timer | None = None
        self.closed = False

    @property
    def principal(self) -> str:
        return self.watcher.principal

    def __len__(self) -> int:
        return len(self._connections)

    def listen(self, sock: socket, kind: str) -> None:
        """Serves a listening socket of ours; `kind` is "http" or "socks"."""
        sock.setblocking(False)
        self.listening.append((sock, kind))
        self.loop.add_reader(sock.fileno(), self._accept, sock, kind)

    def _accept(self, listening: socket, kind: str) -> None:
        try:
            fd, address = listening._accept()  # type: ignore[attr-defined]  # of _socket.socket
        except BlockingIOError:
            return
        except OSError:
            # Gone again, or there are no descriptors: asked again at once, the kernel would say the same.
            self._watch(on=False)
            self.loop.call_later(_AGAIN_SECONDS, self._accept_again)
            return
        sock = socket(listening.family, 1, 0, fileno=fd)
        if not self._lets_in(sock):
            sock.close()
            return
        try:
            if self._descriptors is not None:
                self._descriptors.take(_DESCRIPTORS, self.principal)
        except Exhausted:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(_TCP, _NODELAY, 1)  # what is passed on must not wait for an answer to what was before
        client = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
        made = SocksClient if kind == "socks" else HttpClient
        connection = made(self, sock, client)
        self._connections.add(connection)
        if self._sweeping is None:
            self._sweeping = self.loop.call_later(admission.IDLE_SECONDS, self._sweep)
        if len(self._connections) >= CONNECTIONS:
            self._watch(on=False)

    def _accept_again(self) -> None:
        if not self.closed and len(self._connections) < CONNECTIONS:
            self._watch(on=True)

    def _watch(self, *, on: bool) -> None:
        for sock, kind in self.listening:
            if on:
                self.loop.add_reader(sock.fileno(), self._accept, sock, kind)
            else:
                self.loop.remove_reader(sock.fileno())

    def gone(self, connection: ProxyClient) -> None:
        """A connection has ended."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        if self._descriptors is not None:
            self._descriptors.give_back(_DESCRIPTORS, self.principal)
        if len(self._connections) == CONNECTIONS - 1 and not self.closed:
            self._watch(on=True)

    def _sweep(self) -> None:
        """Ends what was idle since the last time."""
        self._sweeping = None
        for connection in list(self._connections):
            connection.check_idle()
        if self._connections:
            self._sweeping = self.loop.call_later(admission.IDLE_SECONDS, self._sweep)

    def close(self) -> None:
        """Ends everything."""
        self.closed = True
        self._watch(on=False)
        for sock, _ in self.listening:
            sock.close()
        self.listening.clear()
        for connection in list(self._connections):
            connection.close()
        self.pipes.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
