"""The streams of one socket to a rendezvous, each as a connection that a server can serve.

All share one socket. What a stream sends waits in its own queue while the socket is full, and queues take
turns, a record each: one that streams does not keep the others from answering.
"""

from __future__ import annotations

from ..core.records import cut, farewell
from ..core.streams import Begun, Came, Ended, Send, Validate
from ..errors import RemoteProtocolError
from ..protocol.relay import MAX_FRAME, DataWriter
from ..stdlib import deque
from ..transport.base import HIGH, LOW
from ..transport.outward import OutwardSocket
from .joining import Joining
from .keys import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.records import Sealer
    from ..core.streams import Action, Streams
    from ..loop import EpollLoop
    from ..transport.sockets import Stream

# What the socket holds of all streams: enough for it never to run dry, little to wait behind. It holds more
# only for a service that sends what has to be refused and takes no refusals: above HIGH it is not read.
_SOCKET_BYTES = 256 << 10
_QUEUED_MESSAGES = 128  # that came for a stream whose server does not read; the reference's limit
_QUEUED_BYTES = 512 << 20  # the same for all streams together: eight of the largest messages
_PATIENT = 64  # that may wait for the turn of their principal; a stream that brings more waits no longer
_NORMAL = 1000  # the close code that says nothing
_BATCH = 8  # messages handled in one go before other streams get their turn


class Carrier:
    """One socket. `connected` gets a transport for each stream that begins; `ask` is given who wants to
    begin one, and what to call with the registry's answer."""

    def __init__(
        self,
        loop: EpollLoop,
        sock: Stream,
        streams: Streams,
        connected: Callable[[StreamTransport], None],
        ask: Callable[[Validate, Callable[[bool, str], None]], None],
        over: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._streams = streams
        self._connected = connected
        self._ask = ask
        self._over = over
        self.heard = loop.time()  # when a harness has said something that only it can say
        self._flooded = False
        self._gone = False
        self._open: dict[int, StreamTransport] = {}
        self._principals: dict[int, str] = {}  # as the registry calls them
        self._waiting: deque[StreamTransport] = deque()  # streams with something to send, in turn
        self._socket = OutwardSocket(loop, sock, MAX_FRAME, self)

    def begin(self, rest: bytes) -> None:
        self._socket.begin(rest)

    def close(self, code: int, reason: str) -> None:
        """Ends the socket; its streams are lost."""
        self._socket.close(code, reason)

    # From the socket

    def frame(self, data: bytes) -> None:
        self._do(self._streams.receive(data, self._loop.time()))
        if self._socket.buffered > HIGH and not self._flooded:
            self._flooded = True
            self._socket.pause_reading()

    def lost(self, reason: str) -> None:
        self._gone = True
        gone, self._open = self._open, {}
        self._waiting.clear()
        for one in gone.values():
            one.end(reason)
        self._over(reason)

    def drained(self) -> None:
        """Gives each stream that waits its turn, a record at a time."""
        if self._flooded and self._socket.buffered <= HIGH // 2:
            self._flooded = False
            self._socket.resume_reading()
        waiting = self._waiting
        while waiting and self._socket.buffered < _SOCKET_BYTES:
            one = waiting.popleft()
            if one.send_next():
                waiting.append(one)

    # What the streams decide

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Came):
                self.heard = self._loop.time()
                one = self._open.get(action.instance)
                if one is not None and not one.take(action.messages):
                    self.end(one)
                elif one is not None and one.unread > HIGH:
                    self._make_room()
            elif isinstance(action, Send):
                self._socket.send_frame(action.frame)
            elif isinstance(action, Validate):
                self._validate(action)
            elif isinstance(action, Begun):
                self._begin(action)
            else:
                self._ended(action)

    def _make_room(self) -> None:
        """Where servers do not read, the stream that has brought most gives way."""
        while sum(one.unread for one in self._open.values()) > _QUEUED_BYTES:
            self.end(max(self._open.values(), key=lambda one: one.unread))

    def _validate(self, asked: Validate) -> None:
        def answered(valid: bool, principal: str) -> None:
            if self._gone:
                return  # and every stream with the socket
            self._principals[asked.instance] = principal
            self._do(self._streams.validated(asked.stream, asked.instance, valid, self._loop.time()))
            self._principals.pop(asked.instance, None)

        self._ask(asked, answered)

    def _begin(self, begun: Begun) -> None:
        principal = self._principals.get(begun.instance) or fingerprint(begun.harness)
        one = StreamTransport(self._loop, self, begun, f"relay:{principal}")
        self._open[begun.instance] = one
        self._connected(one)

    def _ended(self, ended: Ended) -> None:
        one = self._open.pop(ended.instance, None)
        if one is not None:
            if ended.farewell is not None:
                one.close_code = ended.farewell[0]
            one.end("the relay ended the stream" if ended.farewell is None else "the harness has left")

    # For the streams

    @property
    def has_room(self) -> bool:
        return self._socket.buffered < _SOCKET_BYTES

    def wait(self, one: StreamTransport) -> None:
        self._waiting.append(one)

    def send(self, *parts: bytes) -> None:
        self._socket.send_frame(*parts)

    def end(self, one: StreamTransport) -> None:
        """We end a stream."""
        if self._open.pop(one.instance, None) is not None:
            self._do(self._streams.close(one.instance))
            one.end("the stream was ended")


class StreamTransport(Joining):
    """A server's end of one stream: see `transport.base.Serving`."""

    def __init__(self, loop: EpollLoop, carrier: Carrier, begun: Begun, principal: str) -> None:
        super().__init__(loop)
        self._carrier = carrier
        self.instance = begun.instance
        self.principal = principal
        self.address = f"relay stream {begun.stream[:36]}"
        self._sealer: Sealer = begun.sealer
        self._writer = DataWriter(begun.stream)
        self._queue: deque[bytes | memoryview] = deque()
        self._queued = 0  # bytes in it
        self._inbox: deque[bytes] = deque()
        self.unread = 0  # bytes in it
        self._hold = False
        self._delivering = False
        self._told = False
        self._ending: str | None = None  # once all that waits is sent

    # Receiving

    def take(self, messages: list[bytes]) -> bool:
        """Delivers messages in order; False when too many wait."""
        self._inbox.extend(messages)
        self.unread += sum(map(len, messages))
        if self._delivering:
            if self._loop.takes_turns and len(self._inbox) > _PATIENT:
                self._hand_over()
        elif self._loop.takes_turns:  # it is the turn of the socket, which is nobody's
            self._delivering = True
            self._loop.call_soon(self._deliver)
        else:
            self._deliver()
        return len(self._inbox) <= _QUEUED_MESSAGES

    def _deliver(self) -> None:
        self._delivering = False
        self._hand_over()
        if self._inbox and not self._hold and not self._told:
            self._delivering = True
            self._loop.call_soon(self._deliver)

    def _hand_over(self) -> None:
        inbox = self._inbox
        for _ in range(_BATCH):
            if not inbox or self._hold or self._told:
                return
            message = inbox.popleft()
            self.unread -= len(message)
            self.receiver.message(message)

    def pause_reading(self) -> None:
        self._hold = True

    def resume_reading(self) -> None:
        self._hold = False
        if self._inbox and not self._delivering:
            self._delivering = True
            self._loop.call_soon(self._deliver)

    # Sending

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        if self._told or self._ending is not None:
            return
        if not self._defers(messages):
            self._pass_on(cut(*messages))

    def _pass_on(self, pieces: list[bytes | memoryview]) -> None:
        if not self._queue and self._carrier.has_room and len(pieces) == 1:
            self._seal(pieces[0])
            return
        if not self._queue:
            self._carrier.wait(self)
        self._queue.extend(pieces)
        self._queued += sum(map(len, pieces))
        self._crowded = self._crowded or self.buffered > LOW
        self._carrier.drained()

    @property
    def buffered(self) -> int:
        return self._queued + self._kept

    @property
    def all_sent(self) -> bool:
        return not self._queue and self._fragments is None

    def send_next(self) -> bool:
        """Sends the next record; whether there is another one."""
        if self._told:
            return False
        piece = self._queue.popleft()
        self._queued -= len(piece)
        self._seal(piece)
        if self._ending is not None and not self._queue:
            self._loop.call_soon(self._carrier.end, self)
        elif self._crowded and self.buffered <= LOW:
            self._crowded = False
            self._loop.call_soon(self._drained)
        return bool(self._queue)

    def _drained(self) -> None:
        if not self._told:
            self.receiver.drained()

    def _seal(self, piece: bytes | memoryview) -> None:
        try:
            seq, record = self._sealer.seal(piece)
        except RemoteProtocolError:
            self._loop.call_soon(self._carrier.end, self)
            return
        self._carrier.send(self._writer.head(seq, len(record)), record)

    # Closing

    def close(self, code: int, reason: str) -> None:
        """Ends the stream after what is queued, and says why, which a relay cannot."""
        if self._ending is not None or self._told:
            return
        self._ending = reason or "closed"
        self._let_go()
        if code != _NORMAL:
            self._pass_on([farewell(code, reason)])
        if not self._queue:
            self._carrier.end(self)

    def end(self, reason: str) -> None:
        """The stream is over. What came before its end, and waits for its turn, is heard."""
        while self._inbox and not self._hold and not self._told and self._ending is None:
            self._hand_over()
        if not self._told:
            self._told = True
            self._queue.clear()
            self._inbox.clear()
            self._queued = self.unread = 0
            self._let_go()
            self.receiver.lost(self._ending or reason)

    def probe(self, seconds: float) -> None:
        """The service answers pings for everybody, so nothing shows whether the harness is alive: who wants
        its session gets it."""
        if not self._told:
            self._loop.call_soon(self._carrier.end, self)
