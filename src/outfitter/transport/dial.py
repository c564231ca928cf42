"""Dials a WebSocket server: address, TLS and HTTP upgrade, then messages. Lives on an asyncio loop.

The framing is `protocol.websocket`, as for the listener; asyncio has the socket, so that names, TLS and
any event loop of the caller's work.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, cast

from ..errors import DialFailed, RemoteProtocolError, SettingInvalid
from ..protocol import websocket as ws
from ..protocol.upgrade import MAX_HEAD, accept_key, new_key, parse_response
from .address import Address, upgrade_lines
from .base import HIGH, LOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Timer
    from ..protocol.websocket import Payload
    from .base import Receiver

MAX_MESSAGE = 64 << 20  # as the listener's
_PING_SECONDS = 30.0  # of silence, after which we ask
_DEAD_SECONDS = 60.0  # without an answer: the connection is half open
_DEAD_BEATS = 3  # the same with a `keepalive` of the caller's: so many pings may get lost
_CLOSE_SECONDS = 2.0  # how long a closing handshake may take
_TCP_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux
_SMALL_READ = 16 << 10  # above this more is under way, and ACKs are not delayed


async def dial(
    address: Address,
    *,
    token: str | None = None,
    limit: float = 10.0,
    tls: ssl.SSLContext | None = None,
    largest: int = MAX_MESSAGE,
    keepalive: float | None = None,
) -> DialledTransport:
    """A connection, upgraded and ready; set its receiver, then call `begin`.

    With `keepalive` it pings every so many seconds, and gives up a server that is silent for three of them.
    Raises DialFailed, and SettingInvalid when the token would travel in the clear.
    """
    if token is not None and not (address.secure or address.loopback):
        raise SettingInvalid("exec-server WebSocket headers require wss:// or a loopback destination")
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise SettingInvalid("the token must be printable ASCII, without line breaks")
    loop = asyncio.get_running_loop()
    context = None
    if address.secure:
        from .certificates import client_context

        context = tls if tls is not None else client_context()
    transport: DialledTransport | None = None
    upgraded = False
    try:
        async with asyncio.timeout(limit):
            if address.socket_path is not None:
                _, transport = await loop.create_unix_connection(
                    lambda: DialledTransport(loop, address, largest, keepalive), address.socket_path
                )
            else:
                _, transport = await loop.create_connection(
                    lambda: DialledTransport(loop, address, largest, keepalive),
                    address.host,
                    address.port,
                    ssl=context,
                    ssl_shutdown_timeout=None if context is None else _CLOSE_SECONDS,
                )
            await transport.upgrade(token)
        upgraded = True
    except TimeoutError:
        raise DialFailed(f"{address.text} did not answer within {limit:g} s", retryable=True) from None
    except ssl.SSLError as error:
        from .certificates import explain

        text, retryable = explain(error, address.host)
        raise DialFailed(f"cannot connect to {address.text}: {text}", retryable=retryable) from None
    except DialFailed:
        raise
    except OSError as error:
        reason = _reason(error)
        if address.secure and transport is None and isinstance(error, ConnectionResetError):
            reason = "it ended the TLS handshake; for a server without TLS, write ws://"
        refused = isinstance(error, ConnectionRefusedError)
        failure = f"cannot connect to {address.text}: {reason}"
        raise DialFailed(failure, retryable=True, refused=refused) from None
    finally:
        if transport is not None and not upgraded:
            transport.abort()
    return transport


def _reason(error: OSError) -> str:
    # asyncio joins the failures of several addresses into one text without an errno.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


class DialledTransport(asyncio.Protocol):
    """The client's end of a connection. Made by `dial`."""

    receiver: Receiver
    takes_texts = True  # else a text message ends the connection

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        largest: int = MAX_MESSAGE,
        keepalive: float | None = None,
    ) -> None:
        self.close_code: int | None = None
        self._loop = loop
        self._address = address
        self._key = new_key(os.urandom(16))
        self._head: bytes | None = b""  # of the answer to the upgrade; None when that is done
        self._upgraded: asyncio.Future[None] = loop.create_future()
        # Whoever dialled may have given up before it looked; that is no fault to be logged.
        self._upgraded.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._frames = ws.FrameReader(masked=False, limit=largest, raw_above=-1)
        self._inbox: deque[Payload] = deque()
        self._begun = False
        self._hold = False
        self._closing = False
        self._told = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._reason = ""
        self._heard = loop.time()
        self._pinged = 0.0
        self._always = keepalive is not None
        self._ping = _PING_SECONDS if keepalive is None else keepalive
        self._dead = _DEAD_SECONDS if keepalive is None else _DEAD_BEATS * keepalive
        self._keepalive: Timer | None = None
        self.answered: Callable[[float], None] | None = None  # told how many seconds a ping took
        self._socket: asyncio.Transport
        self._raw_socket: socket.socket | None = None

    # Upgrade

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)  # uvloop's is one without being of that class
        self._socket.set_write_buffer_limits(high=HIGH, low=LOW)
        sock = transport.get_extra_info("socket")
        if _TCP_QUICKACK is not None and sock is not None and sock.family != socket.AF_UNIX:
            self._raw_socket = sock

    async def upgrade(self, token: str | None) -> None:
        """Asks for the upgrade and waits for it. Raises DialFailed, OSError."""
        lines = upgrade_lines(self._address, self._key)
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        self._socket.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        await self._upgraded

    def _answered(self, data: bytes) -> bytes:
        """Reads the head of the answer; returns what follows it."""
        assert self._head is not None
        self._head += data
        head, blank, rest = self._head.partition(b"\r\n\r\n")
        if not blank:
            if len(self._head) > MAX_HEAD:
                return self._turned_away("its answer is not that of a WebSocket server")
            return b""
        self._head = None
        response = parse_response(head)
        if response is None:
            return self._turned_away("its answer is not HTTP")
        status, phrase, headers = response
        if status != 101:
            text = rest.decode("utf-8", "replace").strip()[:200]
            detail = f"{status} {phrase}".strip() + (f": {text}" if text and text.isprintable() else "")
            if status == 401:
                detail += "; pass its token with `token=` or --token-file FILE"
            # Overload passes; a token, a path or an Origin that is refused stays so.
            return self._turned_away(detail, retryable=status in (429, 502, 503, 504), status=status)
        if headers.get("sec-websocket-accept") != accept_key(self._key):
            return self._turned_away("its answer does not match the request")
        if not self._upgraded.done():
            self._upgraded.set_result(None)
        return rest

    def _turned_away(self, why: str, *, retryable: bool = False, status: int | None = None) -> bytes:
        """Gives the connection up: nothing follows such an answer."""
        if not self._upgraded.done():
            text = f"{self._address.text} refused the connection: {why}"
            self._upgraded.set_exception(DialFailed(text, retryable=retryable, status=status))
        self._let_go()
        return b""

    # Receiving

    def begin(self) -> None:
        """Starts delivering; the receiver must be set."""
        self._begun = True
        self._keepalive = self._loop.call_later(self._ping, self._beat)
        self._deliver()
        self._tell()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._raw_socket is not None and len(data) < _SMALL_READ:
            # A server without TCP_NODELAY (the reference) waits for our ACK before it sends the next small
            # message, and the kernel delays it by 40 ms unless told not to, again after every read.
            try:
                self._raw_socket.setsockopt(socket.IPPROTO_TCP, _TCP_QUICKACK, 1)  # type: ignore[arg-type]
            except OSError:
                self._raw_socket = None
        if self._head is not None:
            data = self._answered(data)
            if not data:
                return
        for opcode, payload in self._frames.feed(data):
            if opcode == ws.BINARY or (opcode == ws.TEXT and self.takes_texts):
                self._inbox.append(payload)
            elif opcode == ws.TEXT:
                self._frames.fault = RemoteProtocolError("messages of this connection are binary", 1003)
                break
            else:
                assert isinstance(payload, bytes)
                self._control(opcode, payload)
        if self._begun and self._inbox:
            self._deliver()
        if self._frames.fault is not None and not self._closing:
            self.close(self._frames.fault.close_code, self._frames.fault.reason)

    def _deliver(self) -> None:
        inbox = self._inbox
        while inbox and not self._hold and not self._told:
            self.receiver.message(inbox.popleft())

    def pause_reading(self) -> None:
        if not self._hold:
            self._hold = True
            if not self._socket.is_closing():
                self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._hold:
            self._hold = False
            if not self._socket.is_closing():
                self._socket.resume_reading()
            if self._inbox:
                self._loop.call_soon(self._deliver)
            self._loop.call_soon(self._tell)

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == ws.PING:
            if not self._closing and self.buffered < LOW:
                self._write(payload, ws.PONG)
        elif opcode == ws.PONG:
            if self.answered is not None:
                self.answered(self._heard - self._pinged)
        elif opcode == ws.CLOSE:
            try:
                code, reason = ws.parse_close(payload)
            except RemoteProtocolError as error:
                code, reason = error.close_code, error.reason
            self.close_code = code
            self._reason = f"the server closed the connection: {reason or f'code {code}'}"
            if not self._closing:
                self._closing = True
                answer = ws.close_payload(1000 if code == 1005 else code, "")
                self._write(answer, ws.CLOSE)
            # The answer goes after what waits to be sent; a server that does not take it is left.
            self._socket.close()
            self._loop.call_later(_CLOSE_SECONDS, self._let_go)

    # Sending

    @property
    def buffered(self) -> int:
        return self._socket.get_write_buffer_size()

    def send(self, *messages: bytes) -> None:
        # A socket that failed is told a tick later; until then asyncio would log every write to it.
        if self._closing or self._socket.is_closing():
            return
        for message in messages:
            if len(message) <= ws.MAX_FRAME_OUT:
                self._socket.write(ws.masked(message, os.urandom(4)))
                continue
            for part, opcode, final in ws.frames(message):
                self._write(part, opcode, final=final)

    def _write(self, payload: bytes | memoryview, opcode: int, *, final: bool = True) -> None:
        self._socket.write(ws.masked(payload, os.urandom(4), opcode, final=final))

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        self.send(*map(b"".join, messages))

    def send_sealed(self, *parts: bytes) -> None:
        """One binary message of ciphertext, given in parts: see `ws.sealed`."""
        if not self._closing and not self._socket.is_closing():
            self._socket.write(b"".join(ws.sealed(*parts)))

    def resume_writing(self) -> None:
        if self._begun and not self._told:
            self.receiver.drained()

    # Keep-alive

    def _beat(self) -> None:
        """Asks a silent server for a sign of life; a network that is gone tells nobody.

        With a `keepalive` it also gives one, whatever the server says: that may count the seconds, too.
        """
        now = self._loop.time()
        silent = self._pinged > self._heard
        if silent and now - self._pinged >= self._dead and not self._hold:
            self._lose("the server stopped responding")
            return
        asks = not silent and (self._always or now - self._heard >= self._ping / 2)
        if asks:
            self._pinged = now
        if (asks or self._always) and not self._closing:
            self._write(b"", ws.PING)
            if self._dead < self._ping:
                self._loop.call_later(self._dead, self._probed, now)
        self._keepalive = self._loop.call_later(self._ping, self._beat)

    def pace(self, seconds: float, dead: float) -> None:
        """Pings every so many seconds from now on; a ping may take `dead` seconds."""
        self._always, self._ping, self._dead = True, seconds, dead
        if self._keepalive is not None:
            self._stop_beating()
            self._beat()

    def probe(self, seconds: float) -> None:
        since = self._loop.time()
        if not self._closing:
            self._write(b"", ws.PING)
        self._loop.call_later(seconds, self._probed, since)

    def _probed(self, since: float) -> None:
        if self._heard < since and not self._hold:
            self._lose("the server did not answer a ping")

    # Closing

    def close(self, code: int, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        self._write(ws.close_payload(code, reason), ws.CLOSE)
        # The server answers with its own close frame and ends the connection; one that does not is left.
        self._loop.call_later(_CLOSE_SECONDS, self._let_go)
        if self._hold and not self._socket.is_closing():
            self._socket.resume_reading()
        self._inbox.clear()
        self._reason = reason or "closed"
        self._tell()

    def abort(self) -> None:
        """Lets go at once; nobody is told."""
        self._told = True
        self._closing = True
        self._stop_beating()
        self._let_go()

    def eof_received(self) -> bool:
        # A WebSocket has no half that goes on alone. asyncio would first send what waits, which a server
        # that has left need never take; and in the middle of a TLS record it cannot be told to let go.
        self._loop.call_soon(self._let_go)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._stop_beating()
        self._ended.set_result(None)
        if not self._upgraded.done():
            self._upgraded.set_exception(error or ConnectionResetError("the server closed the connection"))
            return
        if not self._reason:
            detail = f": {_reason(error)}" if isinstance(error, OSError) else ""
            self._reason = f"the connection was lost{detail}"
        self._tell()

    async def wait_ended(self) -> None:
        if self._closing:
            await asyncio.shield(self._ended)

    def _let_go(self) -> None:
        """At once, if it has not ended: one that was closed and has sent its rest, asyncio cannot abort."""
        if not self._ended.done():
            self._socket.abort()

    def _lose(self, reason: str) -> None:
        self._reason = reason
        self._closing = True
        self._let_go()

    def _stop_beating(self) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None

    def _tell(self) -> None:
        """Tells the receiver of the end, if there is one and it may know."""
        # Before `begin` there is nobody to tell; that is made up for there. And what came before the end is
        # taken first, however long a slow caller lets it wait.
        if self._reason and self._begun and not self._told and not (self._hold and self._inbox):
            self._told = True
            self._stop_beating()
            self.receiver.lost(self._reason)
