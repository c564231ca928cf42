"""Reaches an executor through a rendezvous: asks the registry, opens a socket and a stream, then messages.

Every connection has an invitation, a stream and a handshake of its own; sessions are resumed inside of it, as
over any other connection. Lives on an asyncio loop.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import TYPE_CHECKING

from ..core.calling import Calling, Invitation
from ..core.noise import PublicKey
from ..core.records import cut, farewell
from ..errors import DialFailed, Disconnected, RemoteProtocolError, SettingInvalid
from ..protocol.registry import KeyObject
from ..protocol.relay import MAX_FRAME, DataWriter, reset
from ..transport.address import parse_address
from ..transport.dial import dial
from .keys import Keys, encapsulate

if TYPE_CHECKING:
    import ssl

    from ..protocol.registry import ConnectAnswer
    from ..protocol.websocket import Payload
    from ..transport.base import Receiver
    from ..transport.dial import DialledTransport
    from .pinned import Pin
    from .registry import Registry

_NORMAL = 1000  # the close code that says nothing
_QUEUED = 128  # messages that came before anybody takes them


class Harness:
    """One end's keys, and the way to one environment. `pin` may refuse the executor's key."""

    def __init__(
        self,
        registry: Registry,
        *,
        tls: ssl.SSLContext | None = None,
        pin: Pin | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._registry = registry
        self._tls = tls
        self._pin = pin
        self._keys = keys or Keys()

    async def dial(self, seconds: float) -> RelayTransport:
        """A stream, open and ready: set its receiver, then call `begin`. Raises DialFailed."""
        try:
            async with asyncio.timeout(seconds):
                try:
                    return await self._open(await self._invitation(), seconds)
                except DialFailed as error:
                    if error.status != 401:
                        raise
                # The invitation was for a registration that is not current any more.
                return await self._open(await self._invitation(), seconds)
        except TimeoutError:
            text = f"no stream to {self._registry.environment_id} within {seconds:g} s"
            raise DialFailed(text, retryable=True) from None

    async def _invitation(self) -> Invitation:
        public = self._keys.public
        key = KeyObject(public.x25519, public.mlkem)
        told: ConnectAnswer = await asyncio.to_thread(self._registry.connect, key)
        executor = PublicKey(told.executor.x25519, told.executor.mlkem)
        if self._pin is not None:
            self._pin.check(executor)
        return Invitation(
            told.environment_id, told.registration_id, executor, told.url, told.authorization, told.kept
        )

    async def _open(self, invitation: Invitation, seconds: float) -> RelayTransport:
        address = parse_address(invitation.url)
        if not (address.secure or address.loopback):
            raise SettingInvalid("the rendezvous of another machine must be reached with wss://")
        try:
            calling = Calling(invitation, str(uuid.uuid4()), self._keys, Keys(), encapsulate)
        except RemoteProtocolError as error:
            raise DialFailed(
                f"the registry gave a key that cannot be used: {error}", retryable=False
            ) from None
        socket = await dial(address, limit=seconds, tls=self._tls, largest=MAX_FRAME)
        transport = RelayTransport(socket, calling)
        try:
            await transport.open()
            if self._pin is not None:
                self._pin.remember(invitation.executor, invitation.kept)
        except BaseException:
            socket.abort()
            raise
        return transport


class RelayTransport:
    """A client's end of one stream: see `transport.base.Dialled`."""

    receiver: Receiver
    close_code: int | None = None

    def __init__(self, socket: DialledTransport, calling: Calling) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        socket.takes_texts = False
        self._calling = calling
        self._writer = DataWriter(calling.stream)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._inbox: deque[bytes] = deque()
        self._begun = False
        self._hold = False
        self._over = False
        self._reason = ""
        self._told = False

    async def open(self) -> None:
        """The handshake. Raises DialFailed."""
        self._socket.receiver = self
        self._socket.begin()
        for frame in self._calling.opening:
            self._socket.send_sealed(frame)
        await self._opened

    def begin(self) -> None:
        self._begun = True
        self._deliver()
        self._tell()

    # From the socket

    def message(self, data: Payload) -> None:
        if self._over:
            return
        try:
            if isinstance(data, tuple):
                data = b"".join(data)
            assert isinstance(data, bytes)
            self._inbox.extend(self._calling.receive(data))
        except (Disconnected, RemoteProtocolError) as error:
            self._fail(str(error))
            return
        if self._calling.is_open and not self._opened.done():
            self._opened.set_result(None)
        self._deliver()
        if self._calling.farewell is not None:
            self.close_code, reason = self._calling.farewell
            self._fail(f"the executor closed the connection: {reason or f'code {self.close_code}'}")

    def drained(self) -> None:
        if self._begun and not self._told:
            self.receiver.drained()

    def lost(self, reason: str) -> None:
        if not self._over:
            self.close_code = self._socket.close_code
        self._end(reason)

    def _fail(self, reason: str) -> None:
        self._over, self._reason = True, self._reason or reason  # before the socket says that it is closed
        self._socket.close(1000, "")
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._over = True
        self._reason = self._reason or reason
        if not self._opened.done():
            text = f"the executor did not answer through the relay: {reason}"
            self._opened.set_exception(DialFailed(text, retryable=True))
        self._tell()

    def _tell(self) -> None:
        if self._over and self._begun and not self._told and not (self._hold and self._inbox):
            self._told = True
            self.receiver.lost(self._reason)

    def _deliver(self) -> None:
        inbox = self._inbox
        while self._begun and inbox and not self._hold and not self._told:
            self.receiver.message(inbox.popleft())
        if len(inbox) > _QUEUED and not self._hold:
            self._fail("more came than anybody takes")

    # For the connection

    @property
    def buffered(self) -> int:
        return self._socket.buffered

    def send(self, *messages: bytes) -> None:
        self.send_parts(*((message,) for message in messages))

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        if not self._over:
            self._seal(cut(*messages))

    def _seal(self, pieces: list[bytes | memoryview]) -> None:
        sealer = self._calling.sealer
        if sealer is None:
            return
        try:
            for piece in pieces:
                seq, record = sealer.seal(piece)
                self._socket.send_sealed(self._writer.head(seq, len(record)), record)
        except RemoteProtocolError as error:
            self._loop.call_soon(self._fail, str(error))

    def pause_reading(self) -> None:
        self._hold = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._hold = False
        self._socket.resume_reading()
        if self._inbox:
            self._loop.call_soon(self._deliver)
        self._loop.call_soon(self._tell)

    def probe(self, seconds: float) -> None:
        self._socket.probe(seconds)

    def close(self, code: int, reason: str) -> None:
        """Ends the stream: the executor is told by the relay, and by us where there is something to say."""
        if not self._over:
            if code != _NORMAL:
                self._seal([farewell(code, reason)])
            self._socket.send_sealed(reset(self._calling.stream))
            self._socket.close(code, reason)
            self._end(reason or "closed")

    def abort(self) -> None:
        if not self._over:
            self._socket.abort()
            self._end("given up")

    async def wait_ended(self) -> None:
        await self._socket.wait_ended()
