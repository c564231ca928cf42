"""A proxy of ours on a loop of its own, with names that only it knows."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from outfitter.core.network import Destination, NetworkPolicy, NetworkVerdict, decided
from outfitter.host.descriptors import Descriptors
from outfitter.host.sandbox.proxy import Proxy
from outfitter.host.sandbox.upstream import Resolver
from outfitter.host.workers import Workers
from outfitter.loop import EpollLoop
from outfitter.protocol.network import ProxyRules
from outfitter.transport.sockets import listen

SECONDS = 20.0


class Served:
    """Where it listens, what it decided, and whom it asks."""

    principal = ""

    def __init__(self, answers: Mapping[str, tuple[str, str]] | None) -> None:
        self.verdicts: list[tuple[Destination, NetworkVerdict]] = []
        self.asked: list[Destination] = []
        self._answers = answers
        self.loop = EpollLoop()
        self.proxy: Proxy
        self.http = self.socks = 0

    def decided(self, target: Destination, verdict: NetworkVerdict, client: str) -> None:
        self.verdicts.append((target, verdict))

    def ask(self, target: Destination, then: Callable[[NetworkVerdict], None]) -> bool:
        if self._answers is None:
            return False
        self.asked.append(target)
        self.loop.call_soon(then, decided(*self._answers[target.host]))
        return True

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """What it returns there."""
        over = threading.Event()
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(work())
            finally:
                over.set()

        self.loop.call_soon_threadsafe(run)
        assert over.wait(SECONDS)
        return found[0]

    def connect(self, *, socks: bool = False) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.socks if socks else self.http), SECONDS)

    def exchange(self, request: bytes) -> bytes:
        """All that is answered to one request."""
        with self.connect() as sock:
            sock.sendall(request)
            return rest(sock)


def rest(sock: socket.socket) -> bytes:
    """What comes until the end of a connection."""
    data = b""
    try:
        while more := sock.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


@contextlib.contextmanager
def proxying(
    domains: Mapping[str, str],
    *,
    names: Mapping[str, Sequence[str]] | None = None,
    answers: Mapping[str, tuple[str, str]] | None = None,
    own_ports: Sequence[int] = (),
    descriptors: Descriptors | None = None,
    **rules: Any,
) -> Iterator[Served]:
    """A proxy with these rules. `names` is its table of hosts; `answers` are what its client says."""
    served = Served(answers)
    loop = served.loop
    table = names or {}

    def look(host: str) -> Sequence[str]:
        if host not in table:
            raise OSError("no such name")
        return table[host]

    policy = NetworkPolicy(ProxyRules(domains=tuple(domains.items()), **rules))
    served.proxy = Proxy(
        policy,
        served,
        loop=loop,
        resolver=Resolver(Workers(loop, 2), look),
        descriptors=descriptors,
        own_ports=own_ports,
    )
    for kind in ("http", "socks"):
        sock = listen("127.0.0.1", 0)
        setattr(served, kind, sock.getsockname()[1])
        served.proxy.listen(sock, kind)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield served
    finally:
        served.on_loop(served.proxy.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
