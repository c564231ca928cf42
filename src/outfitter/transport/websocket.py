"""The server's end of a WebSocket connection that was admitted: its messages, both ways.

The framing is `protocol.websocket`; here are the socket, the queue, keep-alive and closing. What comes before
is in `listener`: a server answers /readyz without this module.
"""

from __future__ import annotations

from ..protocol import websocket as ws
from ..refusals import RemoteProtocolError
from ..stdlib import deque
from .base import LOW, Outgoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..loop import Loop, Timer
    from ..protocol.upgrade import Admitted
    from ..protocol.websocket import Payload
    from .sockets import Stream

    class Accepting(Protocol):
        """What a connection needs of those who have accepted it: `listener.Listener`."""

        wall: Callable[[], float]
        keepalive: float | None

        def holds_too_much(self, principal: str) -> bool: ...
        def gone(self, transport: WebSocketTransport) -> None: ...


MAX_MESSAGE = 64 << 20  # the reference's limit for a message; it takes 16 MiB in one frame, we all of it
RAW_ABOVE = 32 << 10  # a text message above this is given as bytes; see protocol.jsonrpc
READ_SIZE = 64 << 10
READ_SIZE_LARGE = 1 << 20  # while a large message is under way
# Messages handled in one go before other connections get their turn.
_BATCH = 8
_PING_SECONDS = 30.0  # the reference's interval
_DEAD_SECONDS = 60.0  # without a byte from the peer after a ping: the connection is half open
DEAD_BEATS = 3  # the same with a --keepalive of the operator's: so many pings may get lost
_STALL_SECONDS = 300.0  # a peer that takes nothing for this long has gone, whatever its kernel says
CLOSE_SECONDS = 2.0  # how long a closing handshake may take
_LOOK_AT_CLOCK_SECONDS = 60.0  # how late a credential's end is noticed when somebody has set the clock
_SHORT = 4096  # messages below this are copied into one piece
_IOV = 64  # pieces per system call; the kernel takes 1024


class WebSocketTransport(Outgoing):
    """The server's end of one upgraded connection."""

    limit = MAX_MESSAGE
    raw_above = RAW_ABOVE

    def __init__(
        self, loop: Loop, sock: Stream, listener: Accepting, admitted: Admitted, address: str
    ) -> None:
        super().__init__(loop)
        self.principal = admitted.principal
        self.address = address
        self.expires = admitted.expires
        self._sock = sock
        self._fd = sock.fileno()
        self._listener = listener
        self._frames = ws.FrameReader(masked=True, limit=self.limit, raw_above=self.raw_above)
        self._read_size = READ_SIZE
        self._inbox: deque[Payload] = deque()
        self._delivering = False
        self._reading = False
        self._hold = False
        self._told = False  # the receiver knows that the connection is lost
        self._gone = False  # the socket is closed
        now = loop.time()
        self.heard = now
        self._moved = now
        self._pinged = 0.0
        self._patience: Timer | None = None  # with a closing handshake
        keepalive = listener.keepalive
        self._ping = keepalive or _PING_SECONDS
        self._dead = _DEAD_SECONDS if keepalive is None else DEAD_BEATS * keepalive
        self._keepalive: Timer = loop.call_later(self._ping, self._beat)
        self._expiry: Timer | None = None

    def begin(self, rest: bytes) -> None:
        """Starts reading; `rest` came together with the request head."""
        if self.expires is not None:
            self._check_expiry()
        self._watch()
        if rest:
            self._received(rest)

    # Receiving

    def _watch(self) -> None:
        wanted = not self._gone and not self._hold and not self._inbox
        if wanted and not self._reading:
            self._loop.add_reader(self._fd, self._readable)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._fd)
        self._reading = wanted

    def pause_reading(self) -> None:
        self._hold = True
        self._watch()

    def resume_reading(self) -> None:
        self._hold = False
        if self._inbox and not self._delivering:
            self._delivering = True
            self._loop.call_soon(self._deliver)
        self._watch()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(self._read_size)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"connection failed: {error.strerror}")
            return
        if data:
            self._received(data)
        else:
            self._lose("the client closed the connection")

    def _received(self, data: bytes) -> None:
        self.heard = self._loop.time()
        if not self._inbox and not self._delivering and not self._hold and not self._closing:
            text = self._frames.only(data)
            if text is not None:
                self.receiver.message(text)
                return
        for opcode, payload in self._frames.feed(data):
            if opcode in (ws.TEXT, ws.BINARY):
                self._inbox.append(payload)
            else:
                self._control(opcode, payload)
        self._read_size = READ_SIZE_LARGE if self._frames.held > READ_SIZE else READ_SIZE
        if self._inbox and not self._delivering and not self._hold:
            self._deliver()
        if self._frames.fault is not None and not self._inbox:
            self._fail(self._frames.fault)
        if self._frames.held > READ_SIZE_LARGE and self._listener.holds_too_much(self.principal):
            self.close(1013, "too many large messages are in progress; try again later")

    @property
    def held(self) -> int:
        """Bytes of messages that are not complete."""
        return self._frames.held

    def _deliver(self) -> None:
        self._delivering = False
        inbox = self._inbox
        for _ in range(_BATCH):
            if not inbox or self._hold or self._closing or self._gone:
                break
            self.receiver.message(inbox.popleft())
        if self._closing or self._gone:
            inbox.clear()
        if inbox and not self._hold:
            self._delivering = True
            self._loop.call_soon(self._deliver)
        elif not inbox and self._frames.fault is not None:
            self._fail(self._frames.fault)
        if self._reading != (not self._hold and not inbox):
            self._watch()

    def _fail(self, fault: RemoteProtocolError) -> None:
        self.close(fault.close_code, fault.reason)

    def _control(self, opcode: int, payload: Payload) -> None:
        assert isinstance(payload, bytes)
        if opcode == ws.PING:
            # A peer that pings without reading would fill the queue; pongs may be skipped (RFC 6455 5.5.3).
            if not self._closing and self.buffered < LOW:
                self._push([ws.header(len(payload), ws.PONG), payload])
        elif opcode == ws.CLOSE:
            try:
                code, _ = ws.parse_close(payload)
            except RemoteProtocolError as error:
                code = error.close_code
            if not self._closing:
                self.close_code = code
                self.close(1000 if code == 1005 else code, "")
            self._lose("the client closed the connection")

    # Sending

    def send(self, *messages: bytes) -> None:
        if self._closing or self._gone:
            return
        alone = len(messages) == 1
        size = len(messages[0]) if alone else sum(map(len, messages))
        if size < _SHORT and not self._outbox and self._deferred is None:
            # The usual answer, or the end of a command: small frames, one system call, nothing to take apart.
            frame = ws.framed(messages[0]) if alone else b"".join(map(ws.framed, messages))
            try:
                sent = self._sock.send(frame)
            except OSError:
                sent = 0  # full, or broken: the long way finds out which
            if sent == len(frame):
                return
            self._push([memoryview(frame)[sent:]])
            return
        out: list[bytes | memoryview] = []
        for message in messages:
            out += ws.pieces(message)
        self._push_message(out)

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        if self._closing or self._gone:
            return
        out: list[bytes | memoryview] = []
        for parts in messages:
            length = sum(map(len, parts))
            if length > ws.MAX_FRAME_OUT:
                out += ws.pieces(b"".join(parts))
            else:
                out.append(ws.header(length))
                out += parts
        self._push_message(out)

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        self._fragment(ws.TEXT, parts)
        self._begun(wake)

    def send_fragment(self, *parts: bytes) -> None:
        self._fragment(ws.CONTINUATION, parts)

    def end_message(self, *parts: bytes) -> None:
        self._fragment(ws.CONTINUATION, parts, final=True)
        self._ended()

    def _fragment(self, opcode: int, parts: tuple[bytes, ...], *, final: bool = False) -> None:
        if not self._closing and not self._gone:
            self._push([ws.header(sum(map(len, parts)), opcode, final=final), *parts])

    def _push(self, pieces: list[bytes | memoryview]) -> None:
        if self._outbox:
            self._queue(pieces)
            return
        try:
            sent = self._sock.sendmsg(pieces if len(pieces) <= _IOV else pieces[:_IOV])
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # Told apart from inside a callback, so that a sender never finds its connection gone.
            self._loop.call_soon(self._lose, f"connection failed: {error.strerror}")
            self._closing = True
            return
        for place, piece in enumerate(pieces):
            if sent < len(piece):
                pieces[place] = memoryview(piece)[sent:]
                del pieces[:place]
                self._queue(pieces)
                self._loop.add_writer(self._fd, self._writable)
                return
            sent -= len(piece)

    def _queue(self, pieces: list[bytes | memoryview]) -> None:
        if not self._outbox:
            self._moved = self._loop.time()
        self._outbox.extend(pieces)
        self.buffered += sum(map(len, pieces))
        self._crowded = self._crowded or self.buffered > LOW

    def _writable(self) -> None:
        outbox = self._outbox
        try:
            sent = self._sock.sendmsg([outbox[place] for place in range(min(_IOV, len(outbox)))])
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"connection failed: {error.strerror}")
            return
        self._moved = self._loop.time()
        self._sent(sent)
        if not outbox:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._half_close()
        self._drained()

    # Keep-alive

    def _beat(self) -> None:
        now = self._loop.time()
        if self._outbox:
            # A ping would wait behind the data: judge the peer by whether it takes any.
            if now - self._moved > _STALL_SECONDS:
                self._lose("the client has read nothing for too long")
                return
        elif self._pinged > self.heard and not self._hold:  # what we do not read cannot be heard
            if now - self._pinged >= self._dead:
                self._lose("the client stopped responding")
                return
        else:
            self._pinged = now
            self._push([ws.header(0, ws.PING)])
        self._keepalive = self._loop.call_later(self._ping, self._beat)

    def probe(self, seconds: float) -> None:
        since = self._loop.time()
        if not self._outbox:
            self._push([ws.header(0, ws.PING)])
        self._loop.call_later(seconds, self._probed, since)

    def _probed(self, since: float) -> None:
        if self._hold and not self._outbox:
            return  # what we do not read cannot be heard; who wants the session asks again
        if not self._gone and self.heard < since and self._moved < since:
            self._lose("the client did not answer when another connection asked for its session")

    # Closing

    def _check_expiry(self) -> None:
        """Ends the connection when its credential has expired; the wall clock may be set meanwhile."""
        assert self.expires is not None
        left = self.expires - self._listener.wall()
        if left > 0:
            self._expiry = self._loop.call_later(min(left, _LOOK_AT_CLOCK_SECONDS), self._check_expiry)
        else:
            # Policy violation: the registered code for it, which every client knows how to show.
            self.close(1008, "the token of this connection has expired; connect again with a new one")

    def close(self, code: int, reason: str) -> None:
        if self._closing or self._gone:
            return
        body = ws.close_payload(code, reason)
        self.buffered -= self._deferred_bytes
        self._deferred, self._deferred_bytes, self._wake = None, 0, None
        self._push([ws.header(len(body), ws.CLOSE), body])
        self._closing = True
        self._keepalive.cancel()
        if not self._outbox:
            self._half_close()
        self._patience = self._loop.call_later(CLOSE_SECONDS, self._finish)
        # The receiver is done with it now; the socket stays for the closing handshake.
        self._tell(reason or "closed")

    def _half_close(self) -> None:
        # Unread requests would turn the close into a reset that discards our close frame; ending
        # only our direction lets the peer read it first.
        try:
            self._sock.shutdown(1)
        except OSError:
            pass
        self._hold = False
        self._inbox.clear()
        self._watch()

    def _lose(self, reason: str) -> None:
        self._finish()
        self._tell(reason)

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self.receiver.lost(reason)

    def _finish(self) -> None:
        """Lets go of the socket."""
        if self._gone:
            return
        self._gone = True
        self._closing = True
        self._keepalive.cancel()
        if self._patience is not None:
            self._patience.cancel()  # else it would keep all of this alive
        if self._expiry is not None:
            self._expiry.cancel()
        self._inbox.clear()
        self._watch()
        if self._outbox:
            self._outbox.clear()
            self._loop.remove_writer(self._fd)
        self.buffered = 0
        self._listener.gone(self)  # before a close that fails: a place that nobody has is free
        try:
            self._sock.close()
        except OSError:
            pass  # it is closed all the same
