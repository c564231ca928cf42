"""From a URL to a connection that can be used: its addresses, judged; the first that answers; a proxy; TLS.

The address that is judged is the one that is connected to. A proxy is of the operator's choosing and looks
names up itself: there, an address is judged that stands in the URL.
"""

from __future__ import annotations

from ...core.hosts import address_of
from ...core.http1 import NotHttp, head_end, read_head, written
from ...core.url import PORTS
from ...errors import AddressRefused
from ..sandbox.upstream import Dial
from .http1 import WAITS, HttpLink

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ...core.hosts import Address
    from ...core.http import Headers
    from ...core.proxies import HttpProxy
    from ...core.url import Url
    from ...loop import Loop
    from ...stdlib import socket
    from .http1 import Home, Kept, Key

    Opened = Callable[[Kept | AddressRefused | None], None]


_ANSWER_BYTES = 16 << 10  # read at a time of what a proxy answers: a line


def client_context() -> ssl.SSLContext:
    """What checks the certificates of others. Blocks: it reads those that this machine trusts."""
    import ssl
    from importlib.util import find_spec

    context = ssl.create_default_context()
    has_http2 = find_spec("h2") is not None and find_spec("httpcore") is not None
    context.set_alpn_protocols(["h2", "http/1.1"] if has_http2 else ["http/1.1"])
    return context


class HttpDial:
    """`done` gets a connection, AddressRefused, or None: there is none to be had."""

    def __init__(self, home: Home, url: Url, proxy: HttpProxy | None, key: Key, done: Opened) -> None:
        self.principal = key[0]
        self._home = home
        self._loop = home.loop
        self._url = url
        self._proxy = proxy
        self._peer = url if proxy is None else proxy.url  # who is connected to
        self._key = key
        self._done: Opened | None = done
        self._dial: Dial | None = None
        self._secure: ssl.SSLSocket | None = None
        self._tunnel: ProxyTunnel | None = None
        self._fd = -1  # that is watched
        host = self._peer.host.strip("[]")
        home.resolver.resolve(host, self._resolved, self.principal, lambda: self._done is not None)

    def _resolved(self, addresses: list[Address]) -> None:
        if self._done is None:
            return
        judged = addresses
        if self._proxy is not None:
            named = address_of(self._url.host.strip("[]"))
            judged = [] if named is None else [named]
        try:
            for one in judged:
                self._home.rules.check(str(one))
        except AddressRefused as error:
            self._end(error)
            return
        port = self._peer.port or PORTS[self._peer.scheme]
        dial = Dial(addresses, port, self._connected, self._loop, self.principal)
        if self._done is not None:
            self._dial = dial

    def _connected(self, sock: socket | None) -> None:
        self._dial = None
        if sock is None:
            self._end(None)
        elif self._done is None:
            sock.close()
        elif self._peer.scheme == "https" and self._url.scheme == "https" and self._proxy is not None:
            sock.close()  # TLS within TLS
            self._end(None)
        elif self._peer.scheme == "https":
            self._secured(sock)
        elif self._url.scheme == "http" or self._proxy is None:
            self._end(HttpLink(sock, self._loop, self._home, self._key, proxy=self._proxy))
        else:
            self._tunnel = ProxyTunnel(sock, self._loop, self._url, self._proxy, self._through)

    def _through(self, sock: socket | None) -> None:
        self._tunnel = None
        if sock is None:
            self._end(None)
        else:
            self._secured(sock)

    def _secured(self, sock: socket) -> None:
        self._home.with_context(lambda context: self._wrap(sock, context))

    # TLS

    def _wrap(self, sock: socket, context: ssl.SSLContext | None) -> None:
        if context is None or self._done is None:
            sock.close()
            self._end(None)
            return
        server = self._peer if self._url.scheme == "http" else self._url
        try:
            self._secure = context.wrap_socket(
                sock,
                server_hostname=server.host.strip("[]"),
                do_handshake_on_connect=False,
                suppress_ragged_eofs=False,  # else whoever cuts a connection decides where a body ends
            )
        except (OSError, ValueError):  # a name that no certificate can have
            sock.close()
            self._end(None)
            return
        self._fd = self._secure.fileno()
        self._loop.add_reader(self._fd, self._shake)
        self._shake()

    def _shake(self) -> None:
        import ssl

        secure = self._secure
        assert secure is not None
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.remove_writer(self._fd)
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._fd, self._shake)
            return
        except (OSError, ValueError):
            self._cancel_tls()
            self._end(None)
            return
        self._unwatch()
        self._secure = None
        through = self._proxy if self._url.scheme == "http" else None
        if secure.selected_alpn_protocol() == "h2":
            from .http2 import Http2Link

            self._end(Http2Link(secure, self._url, self._home, self._key, through))
        else:
            waits = (*WAITS, ssl.SSLWantReadError, ssl.SSLWantWriteError)
            self._end(HttpLink(secure, self._loop, self._home, self._key, waits, through))

    def _unwatch(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._fd = -1

    def _cancel_tls(self) -> None:
        self._unwatch()
        secure, self._secure = self._secure, None
        if secure is not None:
            secure.close()

    def _end(self, result: Kept | AddressRefused | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)

    def cancel(self) -> None:
        """Gives it up."""
        self._done = None
        if self._dial is not None:
            self._dial.cancel()
        if self._tunnel is not None:
            self._tunnel.cancel()
        self._cancel_tls()


class ProxyTunnel:
    """Asks a proxy to connect somewhere. `done` gets the socket, from then on another server's, or None."""

    def __init__(
        self,
        sock: socket,
        loop: Loop,
        url: Url,
        proxy: HttpProxy,
        done: Callable[[socket | None], None],
    ) -> None:
        place = f"{url.host}:{url.port or PORTS[url.scheme]}"
        headers: Headers = [(b"Host", place.encode())]
        if proxy.authorization is not None:
            headers.append((b"Proxy-Authorization", proxy.authorization))
        self._socket = sock
        self._loop = loop
        self._done = done
        self._came = b""
        loop.add_reader(sock.fileno(), self._readable)
        try:
            sock.send(written("CONNECT", place, headers, b""))  # shorter than a buffer that is empty
        except OSError:
            pass  # what comes tells

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_ANSWER_BYTES)
            self._came += data
            if not data:
                raise NotHttp("no answer")
            end = head_end(self._came)
            if end < 0:
                return
            accepted = 200 <= read_head("CONNECT", self._came[:end]).status < 300 and end == len(self._came)
        except WAITS:
            return
        except (OSError, NotHttp):
            accepted = False
        if not accepted:
            self.cancel()
            self._done(None)
            return
        self._loop.remove_reader(self._socket.fileno())
        self._done(self._socket)

    def cancel(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
