"""Requests to other servers: connections, kept for the next request, one exchange after the other on each.

Everything here blocks and runs in threads; `Exchange.cut` alone may be called from the loop, and ends what
blocks. h11 writes and reads HTTP/1.1; httpcore does HTTP/2, if it is installed and the other server wants it.
"""

from __future__ import annotations

import select
import socket
import ssl
from importlib.util import find_spec
from time import monotonic

import h11

from ..core.http import MAX_HEADERS, REDIRECTS, Affinity, shown
from ..core.url import PORTS
from ..errors import AddressRefused, HttpFailed
from ..log import note
from ..record import record
from ..stdlib import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeVar

    from ..core.addresses import AddressRules
    from ..core.http import Headers, HttpRequest
    from ..core.url import Url

    Sock = TypeVar("Sock", bound=socket.socket)

IDLE_CONNECTIONS = 32  # that are kept for the next request, of all hosts
IDLE_SECONDS = 30.0  # and for how long: most servers close theirs after a minute
_READ_BYTES = 256 << 10  # at a time: as much as a kernel buffers, and less than a notice may have
_ADDRESSES = 8  # of a name that are tried; a name with more has one that answers among them
_SHORT = 5  # digits of the length of a redirect's body that is read and thrown away
_HEAD_BYTES = 256 << 10  # of an answer: some times what servers send
# What HTTP/2 does not have.
_OF_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
_HTTP2 = find_spec("h2") is not None and find_spec("httpcore") is not None
UNREADABLE = "error decoding response body"


@record
class Head:
    """What comes before the body."""

    status: int
    headers: list[tuple[str, str]]


class _Stream:
    """A socket that another thread can shut down, whatever it waits for; for httpcore, a NetworkStream."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = allocate_lock()
        self._cut = False

    def connect(self, addresses: list[tuple[int, Any]]) -> None:
        """To the first address that takes it."""
        failure = OSError("no address")
        for family, place in addresses[:_ADDRESSES]:
            sock = self._use(socket.socket(family, socket.SOCK_STREAM))
            try:
                sock.connect(place)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError as error:
                failure = error
                self.close()
        raise failure

    def start_tls(self, context: ssl.SSLContext, name: str) -> str | None:
        """The protocol that both ends chose."""
        # The handshake comes after `_use`: it must be possible to cut it short.
        secure = context.wrap_socket(self._used(), server_hostname=name, do_handshake_on_connect=False)
        self._use(secure)
        secure.do_handshake()
        return secure.selected_alpn_protocol()

    def _use(self, sock: Sock) -> Sock:
        with self._lock:
            self._socket = sock
            if self._cut:
                sock.close()
        return sock

    def _used(self) -> socket.socket:
        if self._socket is None:
            raise OSError("closed")
        return self._socket

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._used().recv(max(max_bytes, _READ_BYTES))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._used().sendall(buffer)

    def get_extra_info(self, info: str) -> Any:
        return self.is_readable() if info == "is_readable" else None

    def is_readable(self) -> bool:
        """Of a connection that nobody uses: the other side has closed it, or says what nobody asked for."""
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


class _Link:
    """One connection, for one request at a time: to an address that the rules allow, the one that was judged.

    Raises AddressRefused, and anything at all for what a stranger sends.
    """

    def __init__(self, url: Url, context: ssl.SSLContext | None, rules: AddressRules) -> None:
        self.stream = _Stream()
        self.since = 0.0
        self._place = url.host.strip("[]"), url.port or PORTS[url.scheme]
        self._context = context
        self._rules = rules
        self._one: h11.Connection | None = None
        self._two: Any = None  # httpcore's HTTP2Connection

    def _connect(self) -> None:
        host, port = self._place
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        for *_, place in found:
            self._rules.check(str(place[0]))
        self.stream.connect([(family, place) for family, *_, place in found])
        if self._context is not None and self.stream.start_tls(self._context, host) == "h2":
            import httpcore

            origin = httpcore.Origin(b"https", host.encode(), port)
            # It asks no more of a stream than ours has.
            stream: Any = self.stream
            self._two = httpcore.HTTP2Connection(origin, stream, IDLE_SECONDS)
        else:
            self._one = h11.Connection(h11.CLIENT, _HEAD_BYTES)

    def send(self, told: HttpRequest, cookie: bytes | None) -> tuple[int, Headers, Iterator[bytes]]:
        """The status, the headers and the body to come."""
        if self._one is None and self._two is None:
            self._connect()
        target = told.url.authority if told.method == "CONNECT" else told.url.target
        headers = told.wire_headers(cookie)
        if self._one is None:
            return self._send_two(told, target, headers)
        return self._send_one(self._one, told, target, headers)

    def _send_one(
        self, state: h11.Connection, told: HttpRequest, target: str, headers: Headers
    ) -> tuple[int, Headers, Iterator[bytes]]:
        parts = [state.send(h11.Request(method=told.method, target=target, headers=headers))]
        if told.body:
            parts.append(state.send(h11.Data(data=told.body)))
        parts.append(state.send(h11.EndOfMessage()))
        try:
            self.stream.write(b"".join([part for part in parts if part]))
        except OSError:
            pass  # a server may refuse a body before it has it all: what it says tells
        while True:
            event = self._event(state)
            if isinstance(event, h11.Response) or (
                isinstance(event, h11.InformationalResponse) and event.status_code == 101
            ):
                break
        if event.http_version not in (b"1.0", b"1.1"):
            raise OSError("another version")
        return event.status_code, list(event.headers), self._pieces(state)

    def _event(self, state: h11.Connection) -> Any:
        while (event := state.next_event()) is h11.NEED_DATA:
            state.receive_data(self.stream.read(_READ_BYTES))
        return event

    def _pieces(self, state: h11.Connection) -> Iterator[bytes]:
        while isinstance(event := self._event(state), h11.Data):
            yield bytes(event.data)

    def _send_two(
        self, told: HttpRequest, target: str, headers: Headers
    ) -> tuple[int, Headers, Iterator[bytes]]:
        import httpcore

        host, port = self._place
        url = httpcore.URL(scheme=b"https", host=host.encode(), port=port, target=target.encode())
        kept = [one for one in headers if one[0] not in _OF_CONNECTION]
        request = httpcore.Request(told.method.encode(), url, headers=kept, content=told.body)
        response = self._two.handle_request(request)
        return response.status, response.headers, self._frames(response)

    def _frames(self, response: Any) -> Iterator[bytes]:
        try:
            yield from response.stream
        finally:
            response.close()

    def is_reusable(self) -> bool:
        """Whether the answer is read to its end and nothing came after it, which the next request would take
        for its own answer."""
        if self._two is not None:
            return bool(self._two.is_idle())
        state = self._one
        if state is None or not state.our_state is state.their_state is h11.DONE or state.trailing_data[0]:
            return False
        state.start_next_cycle()
        return True

    def has_expired(self) -> bool:
        return monotonic() - self.since > IDLE_SECONDS or self.stream.is_readable()

    def close(self) -> None:
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
            if not link.has_expired():
                return link
            link.close()
        if url.scheme == "https" and self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["h2", "http/1.1"] if _HTTP2 else ["http/1.1"])
        return _Link(url, self._context if url.scheme == "https" else None, self._rules)

    def give(self, url: Url, link: _Link) -> None:
        """Takes a connection back, for the next request if it can have one."""
        if not link.is_reusable():
            link.close()
            return
        link.since = monotonic()
        with self._lock:
            self._idle.setdefault(url.origin, []).append(link)
            self._count += 1
            surplus = []
            while self._count > IDLE_CONNECTIONS or link.since - self._since() > IDLE_SECONDS:
                surplus.append(self._oldest())
        for one in surplus:
            one.close()

    def _since(self) -> float:
        """When the oldest of them was used last."""
        return min([links[0].since for links in self._idle.values()])

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
            status, headers, self._pieces = link.send(told, self._pool.affinity.header(url))
            if len(headers) > MAX_HEADERS:
                raise OSError("too many headers")
            head = Head(status, shown(headers))
        except AddressRefused:
            self.close()
            raise
        except Exception as error:
            # Of all kinds: what a stranger sends is no fault of ours. The text may have what was sent.
            note("server", "=", "http/request failed: %s", type(error).__name__)
            self.close()
            raise HttpFailed(f"http/request failed: error sending request for url ({url.text})") from None
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
