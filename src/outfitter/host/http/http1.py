"""A connection of HTTP/1.1 to another server, on the loop: one request at a time, its answer as it comes."""

from __future__ import annotations

import select

from ...core.http1 import NotHttp, head_end, read_head, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext
    from typing import Protocol

    from ...core.addresses import AddressRules
    from ...core.http import Headers, HttpRequest
    from ...core.http1 import Body
    from ...core.proxies import HttpProxy
    from ...loop import Loop
    from ...stdlib import socket
    from ..sandbox.upstream import Resolver
    from ..workers import Workers

    Key = tuple[str, str, str]  # a principal, a proxy or "", an origin

    class User(Protocol):
        """Whose request it is."""

        def head(self, status: int, headers: Headers) -> None: ...
        def data(self, piece: bytes) -> None: ...
        def end(self) -> None: ...
        def broken(self) -> None:
            """The connection is closed, and the answer is not whole."""

    class Kept(Protocol):
        """A connection: what those of HTTP/1.1 and of HTTP/2 have in common."""

        since: float  # when it began to wait

        @property
        def key(self) -> Key: ...
        def send(self, told: HttpRequest, cookie: bytes | None, user: User) -> None: ...
        def pause(self) -> None: ...
        def resume(self) -> None: ...
        def is_alive(self) -> bool: ...
        def close(self) -> None: ...

    class Home(Protocol):
        """Where connections wait for the next request, and what a new one needs."""

        loop: Loop
        resolver: Resolver
        workers: Workers
        rules: AddressRules

        def with_context(self, done: Callable[[SSLContext | None], None]) -> None: ...
        def give(self, link: Kept) -> None: ...
        def drop(self, link: Kept) -> None:
            """One that waits is closed."""


# Read at a time: less than a notice may have (protocol.http), and what is read, encoded and sent in one turn
# of the loop, 0.5 ms. 64 MiB take 82 ms; with 256 KiB 104, with 1 MiB 78.
READ_BYTES = 512 << 10
_RECORD_BYTES = 16 << 10  # of TLS, which gives no more at a time
WAITS = (BlockingIOError, InterruptedError)


class HttpLink:
    """`key` says what it can be used for, and whose it is; a `proxy` reads requests and passes them on."""

    def __init__(
        self,
        sock: socket,
        loop: Loop,
        home: Home,
        key: Key,
        waits: tuple[type[Exception], ...] = WAITS,
        proxy: HttpProxy | None = None,
    ) -> None:
        self.key = key
        self.principal = key[0]
        self.since = 0.0
        self._socket = sock
        self._fd = sock.fileno()
        self._loop = loop
        self._home = home
        self._waits = waits
        self._most = READ_BYTES if waits is WAITS else _RECORD_BYTES
        self._proxy = proxy
        self._user: User | None = None
        self._method = ""
        self._pending = b""  # of a head that is not whole
        self._body: Body | None = None
        self._keeps = False
        self._unsent: memoryview | None = None
        self._paused = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        loop.add_reader(self._fd, self._readable)

    # What is sent

    def send(self, told: HttpRequest, cookie: bytes | None, user: User) -> None:
        """Sends a request. Raises NotHttp for what cannot be one."""
        target = told.url.authority if told.method == "CONNECT" else told.url.target
        known = None
        if self._proxy is not None:
            target = told.url.origin + told.url.target
            known = self._proxy.authorization
        payload = written(told.method, target, told.wire_headers(cookie, known), told.body)
        self._user = user
        self._method = told.method
        self._body = None
        try:
            sent = self._socket.send(payload)
        except self._waits:
            sent = 0
        except OSError:
            return  # what comes tells
        if sent < len(payload):
            self._unsent = memoryview(payload)[sent:]
            self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        unsent = self._unsent
        assert unsent is not None
        try:
            unsent = unsent[self._socket.send(unsent) :]
        except self._waits:
            return
        except OSError:
            unsent = None  # a server may refuse a body before it has it all: what it says tells
        self._unsent = unsent or None
        if not unsent:
            self._loop.remove_writer(self._fd)

    # What comes

    def _readable(self) -> None:
        try:
            data = self._socket.recv(self._most)
        except self._waits:
            return
        except OSError:
            self._break()
            return
        try:
            if self._user is None:
                self._break()  # the other side closes it, or says what nobody asked for
            elif self._body is None:
                self._take_head(self._user, data)
            elif data:
                self._take(self._user, self._body, data)
            elif self._body.is_whole():
                self._end(keeps=False)
            else:
                self._break()
        except NotHttp:
            self._break()

    def _take_head(self, user: User, data: bytes) -> None:
        if not data:
            raise NotHttp("no answer")
        pending = (self._pending + data).lstrip(b"\r\n")
        while (end := head_end(pending)) >= 0:
            head = read_head(self._method, pending[:end])
            pending = pending[end:]
            if head.status >= 200 or head.status == 101:
                break
            pending = pending.lstrip(b"\r\n")
        else:
            self._pending = pending
            return
        self._pending = b""
        self._body = head.body
        self._keeps = head.keeps
        user.head(head.status, head.headers)
        if self._user is user:
            self._take(user, head.body, pending)

    def _take(self, user: User, body: Body, data: bytes) -> None:
        try:
            piece = body.feed(data)
        except NotHttp as error:
            if error.before:
                user.data(error.before)
            raise
        if piece:
            user.data(piece)
        if body.over and self._user is user:
            # What comes behind an answer would be taken for that of the next request.
            self._end(keeps=self._keeps and not body.surplus and self._unsent is None)

    def _end(self, *, keeps: bool) -> None:
        user, self._user = self._user, None
        if keeps:
            if self._paused:
                self.resume()
            self._home.give(self)
        else:
            self.close()
        if user is not None:
            user.end()

    def _break(self) -> None:
        user, self._user = self._user, None
        self.close()
        if user is None:
            self._home.drop(self)
        else:
            user.broken()

    # Its life

    def pause(self) -> None:
        """Reads nothing until `resume`: the other server has to wait."""
        if not self._paused and self._fd >= 0:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and self._fd >= 0:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)

    def is_alive(self) -> bool:
        """Of one that waits: whether the other side has neither closed it nor said what nobody asked for."""
        if not self._poll.poll(0):
            return True
        try:  # TLS may say something of its own
            self._socket.recv(1)
        except self._waits:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        self._user = None
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._fd = -1
            self._socket.close()
