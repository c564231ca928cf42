"""A connection of HTTP/2 to another server: httpcore reads and writes it, in threads, a request at a time."""

from __future__ import annotations

import select
import socket

from ...core.http import MAX_HEADERS
from ...core.http2 import Farewells
from ...core.url import PORTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from typing import Any

    from ...core.http import Headers, HttpRequest
    from ...core.proxies import HttpProxy
    from ...core.url import Url
    from .http1 import Home, Key, User

# What HTTP/2 does not have.
_OF_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")


class _Stream:
    """A socket as httpcore wants one: a NetworkStream."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.socket = sock
        self.number = -1  # of the stream of the present request: 1, 3, 5 and so on
        self.farewells = Farewells()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while data := self.socket.recv(max_bytes):
            if told := self.farewells.feed(data, self.number):
                return told
        return b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self.socket.sendall(buffer)

    def get_extra_info(self, info: str) -> Any:
        return self.is_readable() if info == "is_readable" else None

    def is_readable(self) -> bool:
        """Of a connection that nobody uses: the other side has closed it, or says what nobody asked for."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def cut(self) -> None:
        """Ends what a thread waits for."""
        try:
            # Not SSLSocket's own, which forgets its TLS while another thread uses it.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.socket.close()


def _connection_type() -> Any:
    """httpcore's connection, which does not wait for room for the rest of a body when the answer is there: a
    server that refuses a body takes no more of it. `unsent` when there was such a rest."""
    import httpcore
    from h2.events import StreamEnded, StreamReset

    class Answered(Exception):
        pass

    class Connection(httpcore.HTTP2Connection):
        unsent = False

        def _receive_events(self, request: httpcore.Request, stream_id: int | None = None) -> None:
            super()._receive_events(request, stream_id)
            if stream_id is None:  # it waits for room, for the only stream that there is
                events = [one for stream in self._events.values() for one in stream]
                if any(isinstance(one, StreamEnded | StreamReset) for one in events):
                    raise Answered

        def _send_request_body(self, request: httpcore.Request, stream_id: int) -> None:
            try:
                super()._send_request_body(request, stream_id)
            except Answered:
                self.unsent = True

    return Connection


class Http2Link:
    """As `http1.HttpLink`. While a thread is at it, its socket is cut, and closed when that is back."""

    def __init__(
        self, sock: ssl.SSLSocket, url: Url, home: Home, key: Key, proxy: HttpProxy | None = None
    ) -> None:
        sock.setblocking(True)
        self.key = key
        self.since = 0.0
        self._home = home
        self._proxy = proxy
        self._scheme = url.scheme.encode()  # http, where a proxy reads requests
        self._place = url.host.strip("[]"), url.port or PORTS[url.scheme]
        self._stream = _Stream(sock)
        self._state: Any = None  # httpcore's HTTP2Connection, as _connection_type makes it
        self._user: User | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._busy = self._paused = self._closed = False

    def _run(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        def back(result: object, failure: BaseException | None) -> None:
            self._busy = False
            user = self._user
            if self._closed:
                self._stream.close()
            elif failure is None:
                done(result)
            else:
                # Of all kinds: what a stranger sends is no fault of ours.
                self.close()
                if user is not None:
                    user.broken()

        self._busy = True
        self._home.workers.run(work, back)

    def send(self, told: HttpRequest, cookie: bytes | None, user: User) -> None:
        self._user = user
        self._run(lambda: self._request(told, cookie), self._answered)

    def _request(self, told: HttpRequest, cookie: bytes | None) -> tuple[int, Headers]:
        """In a thread."""
        import httpcore

        host, port = self._place
        if self._state is None:
            origin = httpcore.Origin(self._scheme, host.encode(), port)
            # It asks no more of a stream than ours has.
            stream: Any = self._stream
            self._state = _connection_type()(origin, stream)
        target = told.url.authority if told.method == "CONNECT" else told.url.target
        url = httpcore.URL(scheme=self._scheme, host=host.encode(), port=port, target=target.encode())
        known = None if self._proxy is None else self._proxy.authorization
        kept = [one for one in told.wire_headers(cookie, known) if one[0] not in _OF_CONNECTION]
        request = httpcore.Request(told.method.encode(), url, headers=kept, content=told.body)
        self._stream.number += 2
        response = self._state.handle_request(request)
        if len(response.headers) > MAX_HEADERS or not 100 <= response.status <= 999:
            raise OSError("too many headers, or no such status")
        self._pieces = _frames(response)
        return response.status, [(name.lower(), value) for name, value in response.headers]

    def _answered(self, result: tuple[int, Headers]) -> None:
        user = self._user
        assert user is not None
        user.head(*result)
        self._read()

    def _read(self) -> None:
        if self._user is not None and not (self._busy or self._paused):
            self._run(lambda: next(self._pieces, b""), self._got)

    def _got(self, piece: bytes) -> None:
        user = self._user
        assert user is not None
        if piece:
            user.data(piece)
            self._read()
            return
        self._user = None
        if self._state.is_idle() and not (self._stream.farewells.said or self._state.unsent):
            self._home.give(self)
        else:
            self.close()
        user.end()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._read()

    def is_alive(self) -> bool:
        return not self._stream.is_readable()

    def close(self) -> None:
        self._user = None
        if not self._closed:
            self._closed = True
            if self._busy:
                self._stream.cut()
            else:
                self._stream.close()


def _frames(response: Any) -> Iterator[bytes]:
    try:
        for piece in response.stream:
            if piece:
                yield piece
    finally:
        response.close()
