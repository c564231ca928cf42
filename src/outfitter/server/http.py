"""http/request: the requests of one connection.

The next piece of a stream is read when the one before has left, or will soon: a client that does not read
holds the other server back.
"""

from __future__ import annotations

from ..errors import AddressRefused, HttpFailed, InvalidParams, QuotaReached, Refused
from ..host.http.requests import Exchange
from ..protocol.base64 import encode
from ..protocol.http import FOLLOW, BodyNotice, RequestResult
from ..protocol.results import Written
from .limits import HTTP_BODY_BYTES, HTTP_REQUESTS, LONGEST_HTTP_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.http import HttpRequest
    from ..host.http.requests import Head
    from ..loop import Timer
    from ..protocol.http import RequestParams
    from .call import Call, Channel, Later
    from .services import Services

_BODY = "failed to read http/request response body"
_WRITTEN_BYTES = 1 << 20  # of a body that is written into its answer on the loop: 0.5 ms. Threads write more.


class HttpRequests:
    """The requests of one connection. They end with it."""

    def __init__(self, channel: Channel, services: Services) -> None:
        self.channel = channel
        self.principal = channel.principal
        self.loop = services.loop
        self.pace = services.pace
        self.outbound = services.http
        self._descriptors = services.sessions.descriptors
        self._active: set[_Request] = set()
        self.streams: dict[str, _Request] = {}

    def begin(self, call: Call, params: RequestParams, outgoing: HttpRequest) -> Later:
        """Raises Refused, QuotaReached, Exhausted, HttpFailed."""
        ident = params.request_id
        if params.stream_response and ident in self.streams:
            raise _active(ident)
        if params.timeout_ms == 0:
            raise HttpFailed("http/request failed: route-aware request timed out")
        if len(self._active) >= HTTP_REQUESTS:
            raise Refused(
                f"{HTTP_REQUESTS} http requests of this connection are under way already; wait for one of "
                "them, or end one with http/cancel"
            )
        room = self.outbound.room
        if not room.allows(self.principal):
            raise QuotaReached("http requests under way", room.of(self.principal), "wait for one of them")
        later = call.later()
        self._descriptors.take(1, self.principal)
        room.take(self.principal)
        request = _Request(self, call, params)
        self._active.add(request)
        if params.stream_response:
            self.streams[ident] = request
        request.begin(outgoing)
        return later

    def over(self, request: _Request) -> None:
        """Nothing of it follows."""
        self._active.discard(request)
        self._descriptors.give_back(1, self.principal)
        self.outbound.room.give(self.principal)

    def cancel(self, ident: str) -> bool:
        """Ends the requests with an id; whether there was one."""
        found = [one for one in self._active if one.ident == ident and not one.ended]
        for one in found:
            one.end("cancelled")
        return bool(found)

    def hold(self, ident: str, on: bool) -> None:
        """Reads no more of a stream, or reads on. One that is over has nothing more to hold."""
        stream = self.streams.get(ident)
        if stream is not None:
            stream.hold(on)

    def drained(self) -> None:
        for stream in list(self.streams.values()):
            stream.go_on()

    def lost(self) -> None:
        for one in list(self._active):
            one.end(None)


class _Request:
    """One of them, which owns its exchange."""

    def __init__(self, owner: HttpRequests, call: Call, params: RequestParams) -> None:
        self.ident = params.request_id
        self.ended = False  # the client was told how it went, or is gone
        self._owner = owner
        self._outbound = owner.outbound
        self._channel = owner.channel
        self._call: Call | None = call
        self._streams = params.stream_response
        self._held = False  # by the client, which has enough of it for now
        self._follow = params.redirect_policy == FOLLOW
        self._seq = 0
        self._exchange: Exchange | None = None
        self._head: Head | None = None
        self._pieces: list[bytes] = []  # of a body that is answered in one message
        self._size = 0
        self._outgoing: HttpRequest | None = None
        self._timer: Timer | None = None
        seconds = None if params.timeout_ms is None else params.timeout_ms / 1000
        if seconds is not None and seconds <= LONGEST_HTTP_SECONDS:
            self._timer = owner.loop.call_later(seconds, self.end, "")

    def begin(self, outgoing: HttpRequest) -> None:
        self._outgoing = outgoing
        pool = self._outbound.pool
        self._exchange = Exchange(pool, outgoing, self, self._owner.principal, follow=self._follow)
        self._exchange.begin()

    # From the exchange

    def began(self, head: Head) -> None:
        if self._streams:
            call, self._call = self._call, None
            if call is not None:
                call.answer(RequestResult(head.status, head.headers, b""))
        else:
            self._head = head

    def piece(self, data: bytes) -> None:
        if self._streams:
            self._tell(encode(data))
            if (self._channel.full or self._held) and self._exchange is not None:
                self._exchange.pause()
            return
        try:
            self._outbound.hold(self._owner.principal, len(data))
            self._size += len(data)
            self._pieces.append(data)
            if self._size > HTTP_BODY_BYTES:
                raise HttpFailed(
                    f"{_BODY}: it has more than {HTTP_BODY_BYTES} bytes; set streamResponse to read it"
                )
        except HttpFailed as error:
            self._refuse(error)

    def finished(self) -> None:
        self._exchange = None
        self._owner.pace.fetched()
        if self._streams:
            self._tell(b"", done=True)
            self._leave()
            return
        head, call = self._head, self._call
        assert head is not None and call is not None
        result = RequestResult(head.status, head.headers, b"".join(self._pieces))
        if self._size > _WRITTEN_BYTES:
            self._outbound.workers.run(lambda: Written(result.parts()), self._written)
        else:
            self._call = None
            self._leave()
            call.answer(result)

    def _written(self, result: Written, failure: BaseException | None) -> None:
        call, self._call = self._call, None
        if not self.ended and call is not None:
            self._leave()
            call.done(result, failure)

    def failed(self, error: HttpFailed | AddressRefused) -> None:
        self._exchange = None
        if self._head is not None:
            self._refuse(HttpFailed(f"{_BODY}: {error}"))
        elif self._call is not None:
            self._refuse(error)
        else:
            self.end(str(error))

    def _refuse(self, error: HttpFailed | AddressRefused) -> None:
        call, self._call = self._call, None
        self._leave()
        if call is not None:
            call.refuse(error)

    # To the client

    def go_on(self) -> None:
        """Reads on, if there is room for what comes."""
        if self._exchange is not None and not self._channel.full and not self._held:
            self._exchange.resume()

    def hold(self, on: bool) -> None:
        """Reads one more piece at most, or reads on."""
        self._held = on
        self.go_on()

    def _tell(self, text: bytes, *, done: bool = False, error: str | None = None) -> None:
        """Sends a notice with a piece as base64: none is larger than a notice may be (host.http.http1)."""
        self._seq += 1
        if self._channel.open:
            head, tail = BodyNotice(self.ident, self._seq, b"", done, error).around()
            self._channel.push_parts((head, text, tail))

    # Its end

    def end(self, why: str | None) -> None:
        """Ends it early; the client is told why, or with "" that it took too long. None: it is gone."""
        if self.ended:
            return
        call, self._call = self._call, None
        if why is not None and call is not None:
            call.refuse(HttpFailed(f"http/request failed: {why}" if why else self._late()))
        elif why is not None:
            self._tell(b"", done=True, error=why or "error decoding response body")
        self._leave()

    def _late(self) -> str:
        """What was not done when its time was over."""
        if self._head is not None or self._outgoing is None:
            return f"{_BODY}: error decoding response body"
        return f"http/request failed: error sending request for url ({self._outgoing.url.text})"

    def _leave(self) -> None:
        """Nothing more is said of it; its id is free."""
        if self.ended:
            return
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._owner.streams.get(self.ident) is self:
            del self._owner.streams[self.ident]
        self._outbound.let_go(self._owner.principal, self._size)
        self._pieces = []
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()
        self._owner.over(self)


def _active(ident: str) -> InvalidParams:
    return InvalidParams(f"http/request streamResponse requestId `{ident}` is already active")
