"""http/request: the requests of one connection.

A thread sends and reads; what it brings goes out on the loop. The next piece of a stream is read when the one
before has left, or will soon: a client that does not read holds the other server back.
"""

from __future__ import annotations

from ..errors import HttpFailed, InvalidParams, QuotaReached, Refused
from ..protocol.base64 import encode
from ..protocol.http import FOLLOW, BodyNotice, RequestResult
from ..protocol.results import Written
from .limits import (
    HTTP_BODY_BYTES,
    HTTP_REQUESTS,
    LONGEST_HTTP_SECONDS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.http import HttpRequest
    from ..host.http import Exchange, Head
    from ..loop import Timer
    from ..protocol.http import RequestParams
    from .call import Call, Channel, Later
    from .services import Services

_BODY = "failed to read http/request response body"


class HttpRequests:
    """The requests of one connection. They end with it."""

    def __init__(self, channel: Channel, services: Services) -> None:
        self.channel = channel
        self.loop = services.loop
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
        if not room.allows(call.principal):
            raise QuotaReached("http requests under way", room.of(call.principal), "wait for one of them")
        later = call.later()
        self._descriptors.take(1)
        room.take(call.principal)
        request = _Request(self, call, params)
        self._active.add(request)
        if params.stream_response:
            self.streams[ident] = request
        request.begin(outgoing)
        return later

    def over(self, request: _Request) -> None:
        """Its thread is back, and nothing of it follows."""
        self._active.discard(request)
        self._descriptors.give_back(1)
        self.outbound.room.give(self.channel.principal)

    def cancel(self, ident: str) -> bool:
        """Ends the requests with an id; whether there was one."""
        found = [one for one in self._active if one.ident == ident and not one.ended]
        for one in found:
            one.end("cancelled")
        return bool(found)

    def drained(self) -> None:
        for stream in list(self.streams.values()):
            stream.go_on()

    def lost(self) -> None:
        for one in list(self._active):
            one.end(None)


class _Request:
    """One of them: a thread is at it, or, when the client is slow, nobody."""

    def __init__(self, owner: HttpRequests, call: Call, params: RequestParams) -> None:
        self.ident = params.request_id
        self.ended = False  # the client was told how it went, or is gone
        self._owner = owner
        self._outbound = owner.outbound
        self._channel = owner.channel
        self._call: Call | None = call
        self._streams = params.stream_response
        self._follow = params.redirect_policy == FOLLOW
        self._seq = 0
        self._exchange: Exchange | None = None
        self._reading = False
        self._failure = ""
        self._timer: Timer | None = None
        seconds = None if params.timeout_ms is None else params.timeout_ms / 1000
        if seconds is not None and seconds <= LONGEST_HTTP_SECONDS:
            self._timer = owner.loop.call_later(seconds, self.end, "")

    # To the answer

    def begin(self, outgoing: HttpRequest) -> None:
        self._failure = f"http/request failed: error sending request for url ({outgoing.url.text})"

        def work() -> Head | Written:
            exchange = self._outbound.exchange(outgoing, follow=self._follow)
            self._exchange = exchange
            if self.ended:
                raise HttpFailed(self._failure)
            head = exchange.begin()
            return head if self._streams else self._whole(exchange, head)

        self._reading = True
        self._outbound.workers.run(work, self._begun)

    def _whole(self, exchange: Exchange, head: Head) -> Written:
        """In the thread: the answer with the whole body, written already."""
        self._failure = f"{_BODY}: error decoding response body"
        pieces: list[bytes] = []
        size = 0
        try:
            while piece := self._next(exchange):
                self._outbound.hold(len(piece))
                size += len(piece)
                pieces.append(piece)
                if size > HTTP_BODY_BYTES:
                    raise HttpFailed(
                        f"{_BODY}: it has more than {HTTP_BODY_BYTES} bytes; set streamResponse to read it"
                    )
            return Written(RequestResult(head.status, head.headers, b"".join(pieces)).wire())
        except BaseException:
            exchange.close()
            raise
        finally:
            self._outbound.hold(-size)

    def _next(self, exchange: Exchange) -> bytes:
        try:
            return exchange.read()
        except HttpFailed as error:
            raise HttpFailed(f"{_BODY}: {error}") from None

    def _begun(self, result: Head | Written | None, failure: BaseException | None) -> None:
        self._reading = False
        call, self._call = self._call, None
        if self.ended or call is None:
            self._leave()
        elif failure is not None or result is None:
            self._settle()
            self._leave()
            call.refuse(failure or HttpFailed(self._failure))
        elif isinstance(result, Written):
            self._settle()
            self._leave()
            call.done(result, None)
        else:
            call.answer(RequestResult(result.status, result.headers, b""))
            self._read()

    # Piece by piece

    def _read(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        self._reading = True
        self._outbound.workers.run(lambda: encode(exchange.read()), self._got)

    def _got(self, text: bytes, failure: BaseException | None) -> None:
        self._reading = False
        if self.ended:
            self._leave()
        elif failure is not None:
            self.end(str(failure) if isinstance(failure, HttpFailed) else "error decoding response body")
        elif not text:
            self._tell(b"", done=True)
            self._settle()
            self._leave()
        else:
            # The thread reads on while this piece is sent: one more may wait than there is room for.
            self.go_on()
            self._tell(text)

    def go_on(self) -> None:
        """Reads on, if there is room for what comes."""
        if not (self._reading or self._call is not None or self.ended or self._channel.full):
            self._read()

    def _tell(self, text: bytes, *, done: bool = False, error: str | None = None) -> None:
        """Sends a notice with a piece as base64: no piece is larger than a notice may be (host.http)."""
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
            text = f"http/request failed: {why}" if why else self._failure
            call.refuse(HttpFailed(text))
        elif why is not None:
            self._tell(b"", done=True, error=why or "error decoding response body")
        self._settle()
        if self._exchange is not None:
            self._exchange.cut()
        if not self._reading:
            self._leave()

    def _settle(self) -> None:
        """Nothing more is said of it; its id is free."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._owner.streams.get(self.ident) is self:
            del self._owner.streams[self.ident]

    def _leave(self) -> None:
        """Nobody is at it any more."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()
        self._owner.over(self)


def _active(ident: str) -> InvalidParams:
    return InvalidParams(f"http/request streamResponse requestId `{ident}` is already active")
