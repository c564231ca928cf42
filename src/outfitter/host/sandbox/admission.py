"""One connection to a proxy: from what it wants to the bytes that pass.

What it wants is judged, then what its name stands for; only then somebody connects. The protocols of clients
are subclasses (`clients`).
"""

from __future__ import annotations

from ...core.network import LOCAL, UNLISTED
from ...log import note
from .relay import Relay
from .upstream import Dial, is_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from ...core.hosts import Address
    from ...core.network import Destination, NetworkPolicy, NetworkVerdict
    from ...loop import Loop, Timer
    from ...stdlib import socket
    from .relay import StreamPipes
    from .upstream import Resolver

    class Watcher(Protocol):
        """Who hears of verdicts, and may be asked."""

        @property
        def principal(self) -> str: ...
        def decided(self, target: Destination, verdict: NetworkVerdict, client: str) -> None: ...
        def ask(self, target: Destination, then: Callable[[NetworkVerdict], None]) -> bool:
            """False if nobody can be asked; else `then` is called once, now or later."""

    class Admitting(Protocol):
        """What a connection needs of its proxy."""

        policy: NetworkPolicy
        watcher: Watcher
        loop: Loop
        resolver: Resolver
        pipes: StreamPipes
        own_ports: Collection[int]

        def gone(self, connection: ProxyClient) -> None: ...


HEAD_BYTES = 64 << 10  # of what a connection wants; the largest cookies and tokens fit
HEAD_SECONDS = 30.0  # to say it
# Without a byte in either direction. Longer than anybody waits for a model's answer or a build's next line.
IDLE_SECONDS = 900.0
_READ = 64 << 10
_LINGER_SECONDS = 2.0  # for the client to take an answer and end the connection


class ProxyClient:
    """One connection to the proxy, from what it wants to its end. Subclasses know a protocol."""

    def __init__(self, proxy: Admitting, sock: socket, client: str) -> None:
        self.proxy = proxy
        self.loop = proxy.loop
        self.sock = sock
        self.client = client
        self._dial: Dial | None = None
        self._relay: Relay | None = None
        self._asking = False
        self._closed = False
        self._timer: Timer | None = self.loop.call_later(HEAD_SECONDS, self.close)
        self.loop.add_reader(sock.fileno(), self._readable)

    @property
    def principal(self) -> str:
        return self.proxy.watcher.principal

    # What a protocol says

    def received(self, data: bytes) -> None:
        """Some of what it wants. Calls `admit` once it is known."""
        raise NotImplementedError

    def refused(self, target: Destination, verdict: NetworkVerdict) -> None:
        raise NotImplementedError

    def failed(self, target: Destination, *, resolved: bool) -> None:
        raise NotImplementedError

    def connected(self, far: socket) -> None:
        raise NotImplementedError

    # Reading what is wanted

    def _readable(self) -> None:
        try:
            data = self.sock.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self.received(data)
        else:
            self.close()

    # From a wish to a connection

    def admit(self, target: Destination) -> None:
        """Judges a target, and connects to it if that is allowed."""
        self.loop.remove_reader(self.sock.fileno())
        self._set_timer(None)
        policy, watcher = self.proxy.policy, self.proxy.watcher
        verdict = policy.judge(target)
        if verdict is UNLISTED and policy.guard(target) is None:
            self._asking = True
            if watcher.ask(target, lambda answer: self._judged(target, answer)):
                return
        self._judged(target, verdict)

    def _judged(self, target: Destination, verdict: NetworkVerdict) -> None:
        if self._closed:
            return
        policy, tell = self.proxy.policy, self.proxy.watcher.decided
        if not verdict.allows:
            tell(target, verdict, self.client)
            self.refused(target, verdict)
            return
        guard = policy.guard(target)
        if guard is not None:
            tell(target, verdict, self.client)
            tell(target, guard, self.client)
            self.refused(target, guard)
            return

        def resolved(addresses: list[Address]) -> None:
            if self._closed:
                return
            against = policy.judge_addresses(target, addresses)
            if target.port in self.proxy.own_ports and any(map(is_here, addresses)):
                # The server knows its users by their processes, and would take the command for itself.
                against = LOCAL
            tell(target, against or verdict, self.client)
            if against is not None:
                self.refused(target, against)
            elif not addresses:
                self.failed(target, resolved=False)
            else:
                done = self._dialled
                self._dial = Dial(
                    addresses, target.port, lambda far: done(target, far), self.loop, self.principal
                )

        self.proxy.resolver.resolve(target.host, resolved, self.principal, lambda: not self._closed)

    def _dialled(self, target: Destination, far: socket | None) -> None:
        self._dial = None
        if far is None:
            self.failed(target, resolved=True)
        else:
            self.connected(far)

    # Passing bytes

    def join(self, far: socket, *, near_first: bytes = b"", far_first: bytes = b"") -> None:
        """From now on bytes pass, until one end has enough."""
        self._set_timer(None)
        self._relay = Relay(
            self.sock,
            far,
            self.close,
            loop=self.loop,
            pipes=self.proxy.pipes,
            principal=self.principal,
            near_first=near_first,
            far_first=far_first,
        )

    def check_idle(self) -> None:
        """Ends a relay through which nothing has passed since the last look."""
        if self._relay is not None:
            if not self._relay.stirred:
                note("server", "=", "a connection of a proxy was idle for %g s", IDLE_SECONDS)
                self.close()
            else:
                self._relay.stirred = False

    # Ending

    def say_and_close(self, data: bytes) -> None:
        """Sends a short last word, and ends once the client has taken it."""
        try:
            self.sock.send(data)  # a new connection has room for it
            self.sock.shutdown(1)
        except OSError:
            self.close()
            return
        # To close with something unread would take the answer back.
        self.loop.add_reader(self.sock.fileno(), self._drain)
        self._set_timer(_LINGER_SECONDS)

    def _drain(self) -> None:
        try:
            if self.sock.recv(_READ):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self.close()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.close)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._set_timer(None)
        if self._dial is not None:
            self._dial.cancel()
        self.released()  # first: a relay whose socket is closed already would keep its pipe
        if self._relay is not None:
            self._relay.close()
        elif self.sock.fileno() >= 0:
            self.loop.remove_reader(self.sock.fileno())
            self.loop.remove_writer(self.sock.fileno())
            self.sock.close()
        self.proxy.gone(self)

    def released(self) -> None:
        """Gives up what a subclass holds."""
