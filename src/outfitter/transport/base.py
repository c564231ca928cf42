"""What a carrier of messages is. It moves them and understands none.

Callback style: bytes in, calls out. A transport calls its receiver's `message` for each whole message,
`drained` when what waits to be sent has fallen below `LOW`, and `lost` exactly once, last.
"""

from __future__ import annotations

import os

from ..stdlib import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..loop import Loop
    from ..protocol.websocket import Payload

    class Receiver(Protocol):
        def message(self, data: Payload) -> None: ...
        def drained(self) -> None: ...
        def lost(self, reason: str) -> None: ...

    class Transport(Protocol):
        receiver: Receiver

        @property
        def buffered(self) -> int:
            """Bytes accepted by `send` that the other side has not been given yet."""

        def send(self, *messages: bytes) -> None:
            """Queues messages, and passes on at once what can be. Never blocks, never refuses."""

        def send_parts(self, *messages: tuple[bytes, ...]) -> None:
            """Queues messages given in parts, which need not be joined first."""

        def close(self, code: int, reason: str) -> None:
            """Ends the connection after what is queued, telling the peer why where it can be told."""

        def pause_reading(self) -> None: ...
        def resume_reading(self) -> None: ...
        def probe(self, seconds: float) -> None:
            """Ends the connection unless the peer shows life within `seconds`."""

    class Serving(Transport, Protocol):
        """A server's end: it can also send one message in pieces, as they come.

        Messages that are sent meanwhile follow it. They count as `buffered`, but not against its own pieces:
        it has to end before they can go.
        """

        principal: str  # whose connection it is: see `protocol.upgrade.Admitted`
        address: str  # where it comes from, for people
        expires: float | None  # when it has to end, as the wall clock shows it
        close_code: int | None  # with which the client has ended it, where it could say

        @property
        def has_room(self) -> bool:
            """Whether the next piece should be sent now; else `wake` tells when."""

        @property
        def all_sent(self) -> bool:
            """Whether nothing waits to be sent, and no message is under way."""

        def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None: ...
        def send_fragment(self, *parts: bytes) -> None: ...
        def end_message(self, *parts: bytes) -> None: ...

    class Dialled(Transport, Protocol):
        """A client's end: it delivers nothing before its receiver is set and `begin` called."""

        close_code: int | None  # with which the server ended it, where it could say

        def begin(self) -> None: ...
        def abort(self) -> None:
            """Lets go at once: what waits to be sent is not sent."""

        async def wait_ended(self) -> None:
            """Returns when nothing is left of a connection that was closed or lost."""


HIGH = 1 << 20  # output waits above this: a megabyte in flight hides any round trip
LOW = 256 << 10  # and goes on below this, so that the pipe to the peer never runs dry


def principal_of(uid: int) -> str:
    """The key of a user of this machine."""
    return f"uid:{uid}"


def own_principal() -> str:
    """The key of our user, who is at both ends of a pipe or of memory: whoever commands run as."""
    return principal_of(os.getuid())


class Outgoing:
    """What a server's end sends: a message in pieces, those that wait behind it, what is not sent yet."""

    receiver: Receiver
    close_code: int | None = None

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._outbox: deque[bytes | memoryview] = deque()
        self.buffered = 0
        self._crowded = False
        self._closing = False  # nothing more is sent or delivered
        self._deferred: list[bytes | memoryview] | None = None  # what waits for a message in pieces to end
        self._deferred_bytes = 0
        self._wake: Callable[[], None] | None = None  # who sends that message

    def _push(self, pieces: list[bytes | memoryview]) -> None:
        """Sends what can be sent now, and queues the rest."""
        raise NotImplementedError

    def _push_message(self, pieces: list[bytes | memoryview]) -> None:
        if self._deferred is None:
            self._push(pieces)
        else:
            size = sum(map(len, pieces))
            self._deferred += pieces
            self._deferred_bytes += size
            self.buffered += size
            self._crowded = self._crowded or self.buffered > LOW

    @property
    def has_room(self) -> bool:
        return self.buffered - self._deferred_bytes < HIGH

    @property
    def all_sent(self) -> bool:
        return not self.buffered and self._deferred is None

    def _begun(self, wake: Callable[[], None]) -> None:
        """The first piece of a message was sent."""
        self._deferred, self._wake = [], wake

    def _ended(self) -> None:
        """The last piece of it was sent."""
        deferred, self._deferred, self._wake = self._deferred, None, None
        self.buffered -= self._deferred_bytes
        self._deferred_bytes = 0
        if deferred:
            self._push(deferred)
        if self._crowded and self.buffered <= LOW:  # all of it went at once: nothing else would say so
            self._loop.call_soon(self._drained)

    def _sent(self, size: int) -> None:
        """The peer's kernel, or ours for it, has taken so much of the queue."""
        outbox = self._outbox
        self.buffered -= size
        while outbox and size >= len(outbox[0]):
            size -= len(outbox.popleft())
        if size:
            outbox[0] = memoryview(outbox[0])[size:]

    def _drained(self) -> None:
        if self._closing:
            return
        if self._wake is not None and self.buffered - self._deferred_bytes <= LOW:
            self._wake()
        if self._crowded and self.buffered <= LOW and not self._closing:
            self._crowded = False
            self.receiver.drained()
