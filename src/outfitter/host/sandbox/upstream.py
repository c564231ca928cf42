"""From a host to a connection: its addresses, asked for once beside the loop, and the first that answers.

What is connected to is one of the addresses that were judged: a name that means something else a moment later
gains nothing.
"""

from __future__ import annotations

import errno
from ipaddress import IPv6Address, ip_address

from ...core.hosts import address_of, is_local
from ...stdlib import getaddrinfo, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...core.hosts import Address
    from ...core.shares import Shares
    from ...loop import Loop, Timer
    from ..workers import Workers

_INET, _INET6, _STREAM, _DATAGRAM = 2, 10, 1, 2
_SOL_SOCKET, _SO_ERROR = 1, 4
_TCP, _NODELAY = 6, 1
CONNECT_SECONDS = 10.0  # for one address: a SYN is sent four times in it
_ADDRESSES = 8  # that are tried; a name with more has one that answers among them


def lookup(host: str) -> list[str]:
    """The addresses of a name, as this machine finds them. Blocks. Raises OSError."""
    found = getaddrinfo(host.encode(), None, 0, _STREAM)
    return list(dict.fromkeys([str(place[0]) for *_, place in found]))


def is_here(address: Address) -> bool:
    """Whether an address is one of this machine's, or may be: a connection to it would begin at itself."""
    if is_local(address):
        return True
    probe = socket(_INET6 if isinstance(address, IPv6Address) else _INET, _DATAGRAM, 0)
    try:
        return probe.connect_ex((str(address), 9)) == 0 and probe.getsockname()[0] == str(address)
    finally:
        probe.close()


class Resolver:
    """Asks in threads of its own: slow names hold up nobody but those who wait for them. With `shares`, who
    asks for many waits for itself."""

    def __init__(
        self,
        workers: Workers,
        ask: Callable[[str], Sequence[str]] = lookup,
        shares: Shares | None = None,
    ) -> None:
        self._workers = workers
        self._ask = ask
        self._shares = shares

    def resolve(
        self,
        host: str,
        done: Callable[[list[Address]], None],
        principal: str = "",
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Calls `done` on the loop; with nothing where there are none, or where it is not `wanted` any more
        when its turn comes. An address means itself, at once."""
        literal = address_of(host)
        if literal is not None:
            done([literal])
            return
        shares = self._shares

        def over(found: Sequence[str] | None, failure: BaseException | None) -> None:
            if shares is not None:
                shares.done(principal)
            done([] if found is None else [ip_address(one.partition("%")[0]) for one in found])

        def begin() -> None:
            self._workers.run(lambda: self._ask(host) if wanted() else (), over)

        if shares is None:
            begin()
        else:
            shares.add(principal, begin)


class Dial:
    """A connection to the first of some addresses that takes one. `done` gets None when none does."""

    def __init__(
        self,
        addresses: Sequence[Address],
        port: int,
        done: Callable[[socket | None], None],
        loop: Loop,
        principal: str = "",
    ) -> None:
        self.principal = principal
        self._left = list(addresses[:_ADDRESSES])
        self._port = port
        self._done = done
        self._loop = loop
        self._socket: socket | None = None
        self._timer: Timer | None = None
        self._next()

    def _next(self) -> None:
        while self._left:
            address = self._left.pop(0)
            family = _INET6 if isinstance(address, IPv6Address) else _INET
            try:
                sock = socket(family, _STREAM, 0)
            except OSError:
                continue
            sock.setblocking(False)
            code = sock.connect_ex((str(address), self._port))
            if code in (0, errno.EINPROGRESS):
                self._socket = sock
                self._timer = self._loop.call_later(CONNECT_SECONDS, self._failed)
                self._loop.add_writer(sock.fileno(), self._connected)
                return
            sock.close()
        self._done(None)

    def _connected(self) -> None:
        sock = self._socket
        assert sock is not None
        if sock.getsockopt(_SOL_SOCKET, _SO_ERROR):
            self._failed()
            return
        self._let_go()
        sock.setsockopt(_TCP, _NODELAY, 1)
        self._done(sock)

    def _failed(self) -> None:
        self.cancel()
        self._next()

    def cancel(self) -> None:
        """Gives the present attempt up."""
        sock = self._let_go()
        if sock is not None:
            sock.close()

    def _let_go(self) -> socket | None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.remove_writer(sock.fileno())
        if self._timer is not None:
            self._timer.cancel()
        return sock
