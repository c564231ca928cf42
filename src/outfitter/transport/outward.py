"""A WebSocket that we dial from our own loop.

Names, TLS and the upgrade are waited for in a thread (`dial_outward`); then the loop has the socket.
"""

from __future__ import annotations

import os
import time

from ..errors import DialFailed
from ..protocol import websocket as ws
from ..protocol.upgrade import MAX_HEAD, accept_key, new_key, parse_response
from ..refusals import RemoteProtocolError
from ..stdlib import getaddrinfo, socket
from .address import upgrade_lines
from .base import LOW, Outgoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..loop import Loop, Timer
    from .address import Address
    from .sockets import Stream

    class FrameReceiver(Protocol):
        def frame(self, data: bytes) -> None:
            """A message: binary, or of either kind where texts are wanted."""

        def drained(self) -> None:
            """The kernel has taken some of what waited."""

        def lost(self, reason: str) -> None:
            """Once, last."""


_READ_SIZE = 256 << 10
_PING_SECONDS = 30.0  # the reference's interval
_DEAD_SECONDS = 60.0  # without a byte from the peer after a ping
_CLOSE_SECONDS = 2.0
_IOV = 64
_AF_UNIX, _SOCK_STREAM, _IPPROTO_TCP, _TCP_NODELAY, _TCP_QUICKACK = 1, 1, 6, 1, 12


class _Socket(socket):
    """A connection on which our ACKs are not delayed.

    A server without TCP_NODELAY (the reference) waits for them before it sends the next small message, and
    the kernel delays them by 40 ms unless told not to, again after every read. It is told when what came is
    handled: who waits for the answer does not wait for the ACK, which takes 15 us, and often goes with the
    answer.
    """

    def acknowledge(self) -> None:
        if self.family != _AF_UNIX:
            try:
                self.setsockopt(_IPPROTO_TCP, _TCP_QUICKACK, 1)
            except OSError:
                pass  # it was closed meanwhile


def _connected(address: Address, seconds: float) -> _Socket:
    """Raises OSError."""
    places: list[tuple[int, str | tuple[Any, ...]]]
    if address.socket_path is not None:
        places = [(_AF_UNIX, address.socket_path)]
    else:
        # As bytes, since it is IDNA already: a text would bring the codec, and that `re`.
        found = getaddrinfo(address.host.encode(), address.port, 0, _SOCK_STREAM)
        places = [(family, place) for family, _, _, _, place in found]
    failure: OSError = ConnectionError("its name has no address")
    for family, place in places:
        sock = _Socket(family, _SOCK_STREAM)
        try:
            sock.settimeout(seconds)
            sock.connect(place)
            if family != _AF_UNIX:
                sock.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


def reachable(address: Address, seconds: float) -> None:
    """Whether somebody accepts connections there. Blocks. Raises DialFailed."""
    try:
        _connected(address, seconds).close()
    except OSError as error:
        raise DialFailed(error.strerror or str(error), retryable=True) from None


def dial_outward(
    loop: Loop, address: Address, headers: list[str], seconds: float, tls: ssl.SSLContext | None
) -> tuple[Stream, bytes]:
    """A connection that was upgraded, and what came behind the answer. Blocks: call it in a thread.

    Raises DialFailed.
    """
    end = time.monotonic() + seconds
    raw: _Socket | None = None
    try:
        raw = _connected(address, seconds)
        stream: Stream = raw
        if address.secure:
            from .certificates import client_context
            from .tls import TlsSocket

            secured = TlsSocket(loop, raw, tls or client_context(), None, dials=address.host)
            secured.dial()
            stream = secured
        key = new_key(os.urandom(16))
        stream.send("\r\n".join([*upgrade_lines(address, key), *headers, "", ""]).encode("ascii"))
        head, rest = _read_head(stream, raw, end)
        _check_answer(head, rest, key, address)
        raw.setblocking(False)
        raw = None
        return stream, rest
    except DialFailed:
        raise  # it is a ConnectionError, too
    except TimeoutError:
        raise DialFailed(f"{address.text} did not answer within {seconds:g} s", retryable=True) from None
    except OSError as error:
        why, retryable = error.strerror or str(error), True
        if address.secure:
            import ssl

            if isinstance(error, ssl.SSLError):
                from .certificates import explain

                why, retryable = explain(error, address.host)
        raise DialFailed(f"cannot connect to {address.text}: {why}", retryable=retryable) from None
    finally:
        if raw is not None:
            raw.close()


def _read_head(stream: Stream, raw: object, end: float) -> tuple[bytes, bytes]:
    said = b""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        raw.settimeout(left)  # type: ignore[attr-defined]
        try:
            data = stream.recv(MAX_HEAD)
        except BlockingIOError:
            continue  # half a record of TLS
        said += data
        _acknowledging(stream)()
        head, blank, rest = said.partition(b"\r\n\r\n")
        if blank:
            return head, rest
        if not data or len(said) > MAX_HEAD:
            raise DialFailed("the answer is not that of a WebSocket server", retryable=True)


def _check_answer(head: bytes, rest: bytes, key: str, address: Address) -> None:
    response = parse_response(head)
    if response is None:
        raise DialFailed(f"{address.text} does not answer in HTTP", retryable=False)
    status, phrase, headers = response
    if status != 101:
        text = rest.decode("utf-8", "replace").strip()[:200]
        detail = f"{status} {phrase}".strip() + (f": {text}" if text and text.isprintable() else "")
        text = f"{address.text} refused the connection: {detail}"
        raise DialFailed(text, retryable=status >= 500 or status == 429, status=status)
    if headers.get("sec-websocket-accept") != accept_key(key):
        raise DialFailed(f"the answer of {address.text} does not match the request", retryable=False)


def _acknowledging(stream: Stream) -> Callable[[], object]:
    """What has the kernel acknowledge what came; of a connection that was not dialled here, nothing does."""
    return getattr(stream, "acknowledge", bool)


class OutwardSocket(Outgoing):
    """The client's end of one connection, on our loop."""

    def __init__(
        self,
        loop: Loop,
        sock: Stream,
        limit: int,
        receiver: FrameReceiver,
        *,
        texts: bool = False,
        unread: bool = False,
        peer: str = "the service",
    ) -> None:
        """`unread`: the receiver looks itself whether a text is UTF-8. `peer`: what people call it."""
        super().__init__(loop)
        self._texts = texts
        self._peer = peer
        self._paused = False
        self._sock = sock
        self._fd = sock.fileno()
        self._frames = ws.FrameReader(masked=False, limit=limit, raw_above=-1 if unread else limit)
        self._to = receiver
        self._acknowledge = _acknowledging(sock)
        self._heard = loop.time()
        self._pinged = 0.0
        self._over = False
        self._keepalive: Timer = loop.call_later(_PING_SECONDS, self._beat)

    def begin(self, rest: bytes) -> None:
        """Starts reading; `rest` came with the answer to the upgrade."""
        self._loop.add_reader(self._fd, self._readable)
        if rest:
            self._received(rest)

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"the connection failed: {error.strerror}")
            return
        if data:
            self._received(data)
            self._acknowledge()
        else:
            self._lose(f"{self._peer} closed the connection")

    def _received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        for opcode, payload in self._frames.feed(data):
            if self._over:
                return
            if opcode == ws.BINARY:
                assert isinstance(payload, bytes)
                self._to.frame(payload)
            elif opcode == ws.TEXT and self._texts:
                whole = b"".join(payload) if isinstance(payload, tuple) else payload
                self._to.frame(whole.encode() if isinstance(whole, str) else whole)
            elif opcode == ws.PING:
                assert isinstance(payload, bytes)
                if self.buffered < LOW:  # who pings without reading gets none (RFC 6455 5.5.3)
                    self._write(ws.PONG, payload)
            elif opcode == ws.CLOSE:
                assert isinstance(payload, bytes)
                self._said_goodbye(payload)
                return
        if self._frames.fault is not None:
            self.close(self._frames.fault.close_code, self._frames.fault.reason)

    def _said_goodbye(self, payload: bytes) -> None:
        try:
            code, reason = ws.parse_close(payload)
        except RemoteProtocolError as error:
            code, reason = error.close_code, error.reason
        self.close_code = code
        self._write(ws.CLOSE, ws.close_payload(1000 if code == 1005 else code, ""))
        self._lose(f"{self._peer} closed the connection: {reason or f'code {code}'}")

    # Sending

    def send_frame(self, *parts: bytes) -> None:
        """Queues one binary message of ciphertext given in parts, and passes on at once what can be."""
        if not self._closing:
            self._push(list(ws.sealed(*parts)))

    def send_message(self, message: bytes, opcode: int) -> None:
        """Queues one message that anybody may have chosen: masked, and in frames that every peer takes."""
        if self._closing:
            return
        size, largest = len(message), ws.MAX_FRAME_OUT
        for start in range(0, size or 1, largest):
            kind = opcode if start == 0 else ws.CONTINUATION
            part = message[start : start + largest]
            self._push([ws.masked(part, os.urandom(4), kind, final=start + largest >= size)])

    def pause_reading(self) -> None:
        self._paused = True
        self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        self._paused = False
        if not self._over:
            self._loop.add_reader(self._fd, self._readable)

    def _write(self, opcode: int, payload: bytes) -> None:
        if not self._closing:
            self._push([ws.masked(payload, os.urandom(4), opcode)])

    def _push(self, pieces: list[bytes | memoryview]) -> None:
        idle = not self._outbox
        self._outbox.extend(pieces)
        self.buffered += sum(map(len, pieces))
        if idle:
            self._flush()
            if self._outbox:
                self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        self._flush()
        if not self._outbox:
            self._loop.remove_writer(self._fd)
        if not self._closing:
            self._to.drained()

    def _flush(self) -> None:
        outbox = self._outbox
        try:
            sent = self._sock.sendmsg([outbox[place] for place in range(min(_IOV, len(outbox)))])
        except BlockingIOError:
            return
        except OSError as error:
            # Told apart from inside a callback, so that a sender never finds its connection gone.
            self._closing = True
            outbox.clear()
            self.buffered = 0
            self._loop.call_soon(self._lose, f"the connection failed: {error.strerror}")
            return
        self._sent(sent)

    # Life

    def _beat(self) -> None:
        now = self._loop.time()
        if self._pinged > self._heard:
            if now - self._pinged >= _DEAD_SECONDS and not self._paused:
                self._lose(f"{self._peer} stopped responding")
                return
        else:
            self._pinged = now
            self._write(ws.PING, b"")
        self._keepalive = self._loop.call_later(_PING_SECONDS, self._beat)

    def close(self, code: int, reason: str) -> None:
        """Says why and ends."""
        if self._over:
            return
        self._write(ws.CLOSE, ws.close_payload(code, reason))
        self._lose(reason or "closed")

    def leave(self, code: int) -> None:
        """Says goodbye and sends nothing more; `lost` follows when the peer has answered or let it be."""
        self._write(ws.CLOSE, ws.close_payload(code, ""))
        self._closing = True
        self._loop.call_later(_CLOSE_SECONDS, self._lose, "closed")

    def _lose(self, reason: str) -> None:
        if self._over:
            return
        self._over = self._closing = True
        self._keepalive.cancel()
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._outbox.clear()
        self.buffered = 0
        try:
            self._sock.close()
        except OSError:
            pass  # it is closed all the same
        self._to.lost(reason)
