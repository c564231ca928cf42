"""Requests to other servers: connections, kept for the next request, one exchange after the other on each.

Everything here blocks and runs in threads; `Exchange.cut` alone may be called from the loop, and ends what
blocks. httpcore writes and reads HTTP/1.1, and HTTP/2 where h2 is installed; it is imported with this module.
"""

from __future__ import annotations

import socket
import ssl
from importlib.util import find_spec
from time import monotonic

import httpcore

from ..core.http import MAX_HEADERS, REDIRECTS, Affinity, shown
from ..core.url import PORTS
from ..errors import AddressRefused, HttpFailed
from ..log import note
from ..record import record
from ..stdlib import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..core.addresses import AddressRules
    from ..core.http import HttpRequest
    from ..core.url import Url

IDLE_CONNECTIONS = 32  # that are kept for the next request, of all hosts
IDLE_SECONDS = 30.0  # and for how long: most servers close theirs after a minute
_READ_BYTES = 256 << 10  # at a time: as much as a kernel buffers
_ADDRESSES = 8  # of a name that are tried; a name with more has one that answers among them
_SHORT = 5  # digits of the length of a redirect's body that is read and thrown away
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2")
_HTTP2 = find_spec("h2") is not None
UNREADABLE = "error decoding response body"


@record
class Head:
    """What comes before the body."""

    status: int
    headers: list[tuple[str, str]]


class _Stream(httpcore.NetworkStream):
    """A socket that another thread can shut down, whatever it waits for."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = allocate_lock()
        self._cut = False

    def connect(self, addresses: list[tuple[Any, ...]]) -> None:
        failure: OSError | None = None
        for family, place in addresses[:_ADDRESSES]:
            try:
                self._use(socket.socket(family, socket.SOCK_STREAM)).connect(place)
                self._used().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError as error:
                failure = error
                self.close()
        raise httpcore.ConnectError(str(failure))

    def _use(self, sock: socket.socket) -> socket.socket:
        with self._lock:
            self._socket = sock
            if self._cut:
                sock.close()
        return sock

    def _used(self) -> socket.socket:
        if self._socket is None:
            raise httpcore.ReadError("closed")
        return self._socket

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._used().recv(max(max_bytes, _READ_BYTES))
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            if buffer:  # httpcore writes nothing twice for every request without a body
                self._used().sendall(buffer)
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            # The handshake comes after `_use`: it must be possible to cut it short.
            secure = ssl_context.wrap_socket(
                self._used(), server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._use(secure)
            secure.do_handshake()
        except (OSError, ValueError) as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "is_readable":
            return self._readable()
        return None

    def _readable(self) -> bool:
        """Of a connection that nobody uses: the other side has closed it, or says what nobody asked for."""
        import select

        sock = self._socket
        if sock is None:
            return True
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            if self._socket is not None:
                try:
                    # Not SSLSocket's own, which forgets its TLS while another thread uses it.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        with self._lock:
            sock, self._socket = self._socket, None
            if sock is not None:
                sock.close()


class _Backend(httpcore.NetworkBackend):
    """Connects one stream to an address that the rules allow: the one that was judged."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self.stream = _Stream()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        for *_, place in found:
            self._rules.check(str(place[0]))
        self.stream.connect([(family, place) for family, *_, place in found])
        return self.stream


def _name(url: Url) -> str:
    return url.host.strip("[]")


class _Link:
    """One connection, for one request at a time."""

    def __init__(self, url: Url, context: ssl.SSLContext | None, rules: AddressRules) -> None:
        backend = _Backend(rules)
        self.stream = backend.stream
        self.since = 0.0
        origin = httpcore.Origin(url.scheme.encode(), _name(url).encode(), url.port or PORTS[url.scheme])
        self.connection = httpcore.HTTPConnection(
            origin,
            ssl_context=context,
            keepalive_expiry=IDLE_SECONDS,
            http2=context is not None and _HTTP2,
            network_backend=backend,
        )

    @property
    def is_clean(self) -> bool:
        """Whether nothing came after the answer: the next request would take it for its own answer.

        httpcore does not look, and has no name for it; a version that differs is never clean.
        """
        inner = getattr(self.connection, "_connection", None)
        if isinstance(inner, httpcore.HTTP2Connection):
            return True
        state = getattr(inner, "_h11_state", None)
        return state is not None and not state.trailing_data[0]

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self.stream.close()


class HttpPool:
    """The connections of one server that wait for the next request, and the cookies that requests share."""

    def __init__(self, rules: AddressRules, affinity: Affinity) -> None:
        self._rules = rules
        self.affinity = affinity
        self._idle: dict[str, list[_Link]] = {}
        self._count = 0
        self._lock = allocate_lock()
        self._context: ssl.SSLContext | None = None

    def take(self, url: Url) -> _Link:
        """A connection for a URL, connected or not."""
        while True:
            with self._lock:
                waiting = self._idle.get(url.origin)
                if not waiting:
                    break
                link = waiting.pop()
                self._count -= 1
                if not waiting:
                    del self._idle[url.origin]
            if not link.connection.has_expired():
                return link
            link.close()
        if url.scheme == "https" and self._context is None:
            self._context = ssl.create_default_context()
        return _Link(url, self._context if url.scheme == "https" else None, self._rules)

    def give(self, url: Url, link: _Link) -> None:
        """Takes a connection back, for the next request if it can have one."""
        if not (link.connection.is_idle() and link.is_clean):
            link.close()
            return
        link.since = monotonic()
        with self._lock:
            self._idle.setdefault(url.origin, []).append(link)
            self._count += 1
            surplus = self._oldest() if self._count > IDLE_CONNECTIONS else None
        if surplus is not None:
            surplus.close()

    def _oldest(self) -> _Link:
        origin = min(self._idle, key=lambda one: self._idle[one][0].since)
        links = self._idle[origin]
        oldest = links.pop(0)
        self._count -= 1
        if not links:
            del self._idle[origin]
        return oldest


class Exchange:
    """One request to its answer, redirects included. Raises HttpFailed, AddressRefused."""

    def __init__(self, pool: HttpPool, outgoing: HttpRequest, *, follow: bool) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._left = REDIRECTS if follow else -1
        self._link: _Link | None = None
        self._lock = allocate_lock()
        self._cut = False
        self._response: httpcore.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def begin(self) -> Head:
        """Sends the request, and follows where it leads."""
        while True:
            head = self._send()
            if self._left < 0:
                return head
            location = next((value for name, value in head.headers if name == "location"), None)
            following = self._outgoing.redirected(head.status, location)
            if following is None:
                return head
            self._skip(head)
            if self._left == 0:
                raise HttpFailed("http/request failed: too many redirects")
            self._left -= 1
            self._outgoing = following

    def _send(self) -> Head:
        told = self._outgoing
        url = told.url
        try:
            link = self._pool.take(url)
            with self._lock:
                self._link = link
                if self._cut:
                    raise OSError("ended")
            target = url.authority if told.method == "CONNECT" else url.target
            request = httpcore.Request(
                told.method.encode(),
                httpcore.URL(
                    scheme=url.scheme.encode(),
                    host=_name(url).encode(),
                    port=url.port or PORTS[url.scheme],
                    target=target.encode(),
                ),
                headers=told.wire_headers(self._pool.affinity.header(url)),
                content=told.body,
            )
            self._response = link.connection.handle_request(request)
            if self._response.extensions.get("http_version") not in _VERSIONS:
                raise OSError("another version")
            if len(self._response.headers) > MAX_HEADERS:
                raise OSError("too many headers")
            head = Head(self._response.status, shown(self._response.headers))
        except AddressRefused:
            self.close()
            raise
        except Exception as error:
            # Of all kinds: what a stranger sends is no fault of ours. The text may have what was sent.
            note("server", "=", "http/request failed: %s", type(error).__name__)
            self.close()
            raise HttpFailed(f"http/request failed: error sending request for url ({url.text})") from None
        self._pieces = iter(self._response.stream)  # type: ignore[arg-type]
        self._pool.affinity.keep(url, head.headers)
        return head

    def read(self) -> bytes:
        """The next piece of the body; nothing at its end."""
        try:
            for piece in self._pieces:
                if piece:
                    return piece
        except Exception as error:
            note("server", "=", "http/request: the body failed: %s", type(error).__name__)
            self.close()
            raise HttpFailed(UNREADABLE) from None
        self._finish()
        return b""

    def _skip(self, head: Head) -> None:
        """Reads what comes with a redirect, if it is short: the connection can be used again."""
        if any(name == "content-length" and len(value) < _SHORT for name, value in head.headers):
            try:
                while self.read():
                    pass
            except HttpFailed:
                pass
        self._finish()

    def _finish(self) -> None:
        """The answer was read, as far as it is wanted."""
        response, self._response = self._response, None
        if response is not None:
            response.close()
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            self._pool.give(self._outgoing.url, link)

    def cut(self) -> None:
        """Ends it, from any thread."""
        with self._lock:
            self._cut = True
            if self._link is not None:
                self._link.stream.cut()

    def close(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()
