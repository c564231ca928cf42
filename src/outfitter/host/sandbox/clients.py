"""What clients of a proxy speak: HTTP, read and written by h11, and SOCKS5.

An HTTP connection carries one request. Its body goes on as h11 has read it, framed anew, and what follows it
is never looked at: there is no second request to be smuggled in.
"""

from __future__ import annotations

import h11

from ...core import socks
from ...core.forwarding import BadRequest, forwarded, returned
from ...core.network import UNIX_SOCKET, UNIX_SOCKET_TARGET, UPSTREAM_FAILED, plain, refusal, unresolved
from .admission import HEAD_BYTES, ProxyClient
from .relay import COPIED, Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.forwarding import Forwarded
    from ...core.network import Destination, NetworkVerdict, ProxyAnswer
    from ...loop import Loop
    from ...stdlib import socket
    from .admission import Admitting

_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    502: b"Bad Gateway",
}
_BAD = {431: f"the head of a request is larger than {HEAD_BYTES} bytes"}


class SocksClient(ProxyClient):
    """Greeting, request, reply; then bytes."""

    def __init__(self, proxy: Admitting, sock: socket, client: str) -> None:
        self._data = b""
        self._greeted = False
        super().__init__(proxy, sock, client)

    def received(self, data: bytes) -> None:
        self._data += data  # a greeting and a request are at most 519 bytes, and what follows waits for us
        try:
            if not self._greeted:
                size = socks.greeting(self._data)
                if not size:
                    return
                self._greeted = True
                self._data = self._data[size:]
                self.sock.send(socks.GREETED)
            wanted = socks.request(self._data)
        except socks.Invalid as error:
            self.loop.remove_reader(self.sock.fileno())
            self.say_and_close(error.reply)
            return
        except OSError:
            self.close()
            return
        if wanted is not None:
            target, size = wanted
            self._data = self._data[size:]
            self.admit(target)

    def refused(self, target: Destination, verdict: NetworkVerdict) -> None:
        self.say_and_close(socks.REFUSED)

    def failed(self, target: Destination, *, resolved: bool) -> None:
        self.say_and_close(socks.NO_CONNECTION if resolved else socks.UNREACHABLE)

    def connected(self, far: socket) -> None:
        self.join(far, near_first=self._data, far_first=socks.OK)


class HttpClient(ProxyClient):
    """One request: a tunnel, or one that is forwarded."""

    def __init__(self, proxy: Admitting, sock: socket, client: str) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._forwarded: Forwarded | None = None
        self._exchange: _Exchange | None = None
        super().__init__(proxy, sock, client)

    def received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return
            assert isinstance(event, h11.Request)
            wanted = forwarded(event.method, event.target, event.headers, event.http_version)
        except h11.RemoteProtocolError as error:
            self._refuse(plain(error.error_status_hint, _BAD.get(error.error_status_hint, "bad request")))
            return
        except BadRequest as error:
            self._refuse(error.answer)
            return
        self._forwarded = wanted
        if [name for name, _ in event.headers if name == b"x-unix-socket"]:
            self._tell_of_unix_socket(wanted.target)
            return
        self.admit(wanted.target)

    def _tell_of_unix_socket(self, target: Destination) -> None:
        from ...record import replace

        told = replace(UNIX_SOCKET_TARGET, method=target.method)
        self.proxy.watcher.decided(told, UNIX_SOCKET, self.client)
        self._refuse(refusal(told, UNIX_SOCKET))

    def refused(self, target: Destination, verdict: NetworkVerdict) -> None:
        self._refuse(refusal(target, verdict))

    def failed(self, target: Destination, *, resolved: bool) -> None:
        self._refuse(UPSTREAM_FAILED if resolved else unresolved(target))

    def _refuse(self, answer: ProxyAnswer) -> None:
        """Answers instead of whom was asked for."""
        self.loop.remove_reader(self.sock.fileno())
        headers = [("content-type", answer.kind), ("content-length", str(len(answer.body)))]
        if answer.error:
            headers.append(("x-proxy-error", answer.error))
        headers.append(("connection", "close"))
        reason = _REASONS.get(answer.status, b"")
        head = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        try:
            data = (self._http.send(head) or b"") + (self._http.send(h11.Data(data=answer.body)) or b"")
        except h11.LocalProtocolError:
            # It said nothing that can be answered in its own protocol.
            data = h11.Connection(h11.SERVER).send(head) or b""
            data += answer.body
        self.say_and_close(data)

    def connected(self, far: socket) -> None:
        assert self._forwarded is not None
        if self._forwarded.target.method == "CONNECT":
            while isinstance(self._http.next_event(), h11.EndOfMessage):
                pass  # it has no body
            head = self._http.send(h11.Response(status_code=200, headers=[], reason=b"OK")) or b""
            self.join(far, near_first=self._http.trailing_data[0], far_first=head)
        else:
            self._exchange = _Exchange(self, self._http, far, self._forwarded)
            self._exchange.begin()

    def refuse_late(self, answer: ProxyAnswer) -> None:
        """As whom it was to be forwarded to has not answered."""
        self._exchange = None
        self._refuse(answer)

    def finish(self) -> None:
        """The answer was sent as a whole."""
        self._exchange = None
        self.loop.remove_reader(self.sock.fileno())
        self.say_and_close(b"")

    def check_idle(self) -> None:
        if self._exchange is not None:
            self._exchange.check_idle()
        else:
            super().check_idle()

    def released(self) -> None:
        if self._exchange is not None:
            self._exchange.close()


class _Outbox:
    """What is on its way to a socket. `drained` is called when all of it was taken, `lost` if it cannot."""

    def __init__(
        self, loop: Loop, sock: socket, drained: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._drained = drained
        self._lost = lost
        self.waiting = b""

    def send(self, data: bytes) -> None:
        if not self.waiting:
            try:
                data = data[self._sock.send(data) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._lost()
                return
            if data:
                self._loop.add_writer(self._sock.fileno(), self._writable)
        self.waiting += data

    def _writable(self) -> None:
        data, self.waiting = self.waiting, b""
        self._loop.remove_writer(self._sock.fileno())
        self.send(data)
        if not self.waiting:
            self._drained()


class _Exchange:
    """A request on its way, and its response back.

    Both are read by h11. The body of a response whose end the client sees by itself passes as it is.
    """

    def __init__(self, client: HttpClient, near: h11.Connection, far: socket, wanted: Forwarded) -> None:
        self._client = client
        self._loop = client.loop
        self._near = near
        self._far = far
        self._wanted = wanted
        self._up = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._to_far = _Outbox(client.loop, far, self._upload, client.close)
        self._to_near = _Outbox(client.loop, client.sock, self._download, client.close)
        self._uploaded = False
        self._answered = False  # the head of the response has come
        self._over = False  # and all of its body
        self._relay: Relay | None = None
        self._stirred = True

    @property
    def principal(self) -> str:
        return self._client.principal

    def begin(self) -> None:
        wanted = self._wanted
        try:
            head = self._up.send(
                h11.Request(
                    method=wanted.target.method or "GET", target=wanted.path, headers=list(wanted.headers)
                )
            )
        except h11.LocalProtocolError:
            self._far.close()
            self._client.refuse_late(plain(400, "bad request"))
            return
        self._to_far.send(head or b"")
        if self._far.fileno() >= 0:
            self._loop.add_reader(self._far.fileno(), self._far_readable)
            self._upload()

    # The request's body

    def _upload(self) -> None:
        """Passes on what h11 has read, and reads more while the other end takes it."""
        if self._far.fileno() < 0 or self._client.sock.fileno() < 0:
            return
        try:
            while not self._to_far.waiting and not self._uploaded:
                event = self._near.next_event()
                if isinstance(event, h11.Data):
                    self._to_far.send(self._up.send(event) or b"")
                elif isinstance(event, h11.EndOfMessage):
                    self._uploaded = True
                    self._to_far.send(self._up.send(h11.EndOfMessage()) or b"")
                else:
                    break
        except h11.ProtocolError:
            self._client.close()
            return
        if self._far.fileno() < 0:
            return
        near = self._client.sock.fileno()
        if self._to_far.waiting:
            self._loop.remove_reader(near)
        else:
            self._loop.add_reader(near, self._near_readable)

    def _near_readable(self) -> None:
        self._stirred = True
        try:
            data = self._client.sock.recv(COPIED)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._client.close()
            return
        if self._uploaded:
            # Nothing of it counts. Who has ended its direction may still want the answer.
            if not data:
                self._loop.remove_reader(self._client.sock.fileno())
            return
        try:
            self._near.receive_data(data)
        except h11.RemoteProtocolError:
            self._client.close()
            return
        self._upload()

    # The response

    def _far_readable(self) -> None:
        self._stirred = True
        try:
            data = self._far.recv(COPIED)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._up.receive_data(data)
        self._download()

    def _download(self) -> None:
        """Passes on what h11 has read of the response, and reads more while the client takes it."""
        if self._relay is not None or self._far.fileno() < 0:
            return
        try:
            self._pass_on()
        except h11.ProtocolError:
            self._broken()

    def _pass_on(self) -> None:
        """Raises h11.ProtocolError."""
        while not self._to_near.waiting and not self._over:
            event = self._up.next_event()
            if isinstance(event, h11.InformationalResponse):
                if event.status_code != 101:
                    self._pass(h11.InformationalResponse(status_code=event.status_code, headers=[]))
            elif isinstance(event, h11.Response):
                self._answered = True
                if self._pass_quickly(event):
                    return
            elif isinstance(event, h11.Data):
                self._pass(event)
            elif isinstance(event, h11.EndOfMessage):
                self._over = True
                self._pass(h11.EndOfMessage())
                break
            else:
                break
        if self._far.fileno() < 0:
            return
        if self._over and not self._to_near.waiting:
            self._let_go()
            self._client.finish()
        elif self._to_near.waiting or self._over:
            self._loop.remove_reader(self._far.fileno())
        else:
            self._loop.add_reader(self._far.fileno(), self._far_readable)

    def _pass(self, event: h11.Event) -> None:
        self._to_near.send(self._near.send(event) or b"")

    def _pass_quickly(self, response: h11.Response) -> bool:
        """Passes the head on, and has the body follow as it is where its end can be seen."""
        headers = returned(response.headers)
        self._pass(h11.Response(status_code=response.status_code, headers=headers, reason=response.reason))
        if self._far.fileno() < 0:
            return True
        names = dict(headers)
        modern = self._near.their_http_version == b"1.1"
        if b"content-length" not in names and not (modern and b"transfer-encoding" in names):
            return False
        length = None
        if b"transfer-encoding" not in names:
            empty = self._wanted.target.method == "HEAD" or response.status_code in (204, 304)
            length = 0 if empty else int(names[b"content-length"])
        first = self._to_near.waiting + self._up.trailing_data[0]
        if length is not None:
            length += len(self._to_near.waiting)
        self._loop.remove_reader(self._far.fileno())
        self._loop.remove_writer(self._client.sock.fileno())
        self._to_near.waiting = b""
        self._relay = Relay(
            self._client.sock,
            self._far,
            self._client.close,
            loop=self._loop,
            pipes=self._client.proxy.pipes,
            principal=self.principal,
            far_first=first,
            both=False,
            limit=length,
        )
        return True

    def _broken(self) -> None:
        """The other end has not spoken HTTP, or stopped in the middle."""
        if self._answered:
            self._client.close()
            return
        self._let_go()
        self._client.refuse_late(UPSTREAM_FAILED)

    # The end

    def check_idle(self) -> None:
        stirred = self._stirred or (self._relay is not None and self._relay.stirred)
        self._stirred = False
        if self._relay is not None:
            self._relay.stirred = False
        if not stirred:
            self._client.close()

    def _let_go(self) -> None:
        if self._far.fileno() >= 0:
            self._loop.remove_reader(self._far.fileno())
            self._loop.remove_writer(self._far.fileno())
            self._far.close()

    def close(self) -> None:
        if self._relay is not None:
            self._relay.close()
        self._let_go()
