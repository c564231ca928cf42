"""Streams of a relay to a WebSocket server somewhere else: what is in them is passed on and not looked at.

Each stream has a connection of its own, dialled when the stream begins. Messages go out as binary ones, as
the reference sends them; both kinds come back.
"""

from __future__ import annotations

from ..core.records import MAX_MESSAGE
from ..errors import DialFailed, OutfitterError
from ..log import warn
from ..protocol import websocket as ws
from ..stdlib import start_new_thread
from ..transport.base import HIGH, LOW
from ..transport.outward import OutwardSocket, dial_outward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..loop import EpollLoop
    from ..protocol.websocket import Payload
    from ..transport.address import Address
    from ..transport.sockets import Stream
    from .carrier import StreamTransport

_DIAL_SECONDS = 10.0  # the reference's


class Forwarding:
    """One stream, and its connection to the destination: the receiver of what the stream brings."""

    def __init__(self, loop: EpollLoop, stream: StreamTransport, destination: Address) -> None:
        self._loop = loop
        self._stream = stream
        self._destination = destination
        self._socket: OutwardSocket | None = None
        self._over = False
        self._held = False  # the stream waits for the destination to take something
        stream.receiver = self
        stream.pause_reading()
        try:
            start_new_thread(self._dial, ())
        except RuntimeError:
            loop.call_soon(self._dialled, None, DialFailed("no thread could be started", retryable=True))

    def _dial(self) -> None:
        made: tuple[Stream, bytes] | None = None
        failed: OutfitterError | None = None
        try:
            made = dial_outward(self._loop, self._destination, [], _DIAL_SECONDS, None)
        except OutfitterError as error:
            failed = error
        except Exception as error:  # a fault of ours is not to leave the stream without an end
            failed = DialFailed(type(error).__name__, retryable=True)
        self._loop.call_soon_threadsafe(self._dialled, made, failed)

    def _dialled(self, made: tuple[Stream, bytes] | None, error: OutfitterError | None) -> None:
        if made is None:
            warn("relay", "a stream was not forwarded: %s", error)
            self._stream.close(1011, "the destination cannot be reached")
            return
        sock, rest = made
        if self._over:
            sock.close()
            return
        self._socket = OutwardSocket(self._loop, sock, MAX_MESSAGE, _Back(self), texts=True)
        self._socket.begin(rest)
        self._stream.resume_reading()

    # From the stream

    def message(self, data: Payload) -> None:
        socket = self._socket
        assert socket is not None and isinstance(data, bytes)
        socket.send_message(data, ws.BINARY)
        if socket.buffered > HIGH and not self._held:
            self._held = True
            self._stream.pause_reading()

    def drained(self) -> None:
        if self._socket is not None:
            self._socket.resume_reading()

    def lost(self, reason: str) -> None:
        self._over = True
        if self._socket is not None:
            self._socket.close(self._stream.close_code or 1001, "the stream has ended")

    # From the destination

    def back(self, data: bytes) -> None:
        self._stream.send(data)
        if self._stream.buffered > HIGH and self._socket is not None:
            self._socket.pause_reading()

    def taken(self) -> None:
        if self._held and self._socket is not None and self._socket.buffered <= LOW:
            self._held = False
            self._stream.resume_reading()

    def gone(self, reason: str) -> None:
        if not self._over and self._socket is not None:
            code = self._socket.close_code
            self._stream.close(1000 if code in (None, 1005) else code, reason)  # 1005: it gave none


class _Back:
    """The receiver of what the destination brings."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding

    def frame(self, data: bytes) -> None:
        self._forwarding.back(data)

    def drained(self) -> None:
        self._forwarding.taken()

    def lost(self, reason: str) -> None:
        self._forwarding.gone(reason)
