"""A connected pair inside one process: what one end sends, the other receives, in order, a tick later."""

from __future__ import annotations

from ..stdlib import deque
from .base import LOW, own_principal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from .base import Receiver


class MemoryTransport:
    """One end of the pair. Made by `pair`."""

    receiver: Receiver

    def __init__(self, loop: Loop) -> None:
        self.close_code: int | None = None
        self.principal = own_principal()
        self.address = "memory"
        self.expires: float | None = None
        self._loop = loop
        self._other: MemoryTransport | None = None
        self._queue: deque[bytes] = deque()  # what the other end has not taken yet
        self.buffered = 0
        self._crowded = False
        self._hold = False
        self._moving = False
        self._ending: str | None = None
        self._ending_code = 1000
        self._fragments: list[bytes] = []
        self._deferred: list[bytes] | None = None  # what waits for a message in pieces to end

    def begin(self) -> None:
        """Nothing to begin: the other end's messages come by themselves."""

    def send(self, *messages: bytes) -> None:
        if self._other is None or self._ending is not None:
            return
        if self._deferred is not None:
            self._deferred += messages
            return
        self._queue.extend(messages)
        self.buffered += sum(map(len, messages))
        self._crowded = self._crowded or self.buffered > LOW
        self._move_soon()

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        self.send(*map(b"".join, messages))

    has_room = True  # the pieces are kept until the last one comes, so why wait

    @property
    def all_sent(self) -> bool:
        return not self.buffered and self._deferred is None

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        """Messages are whole here: its pieces are joined at the end."""
        self._fragments = list(parts)
        self._deferred = []

    def send_fragment(self, *parts: bytes) -> None:
        self._fragments += parts

    def end_message(self, *parts: bytes) -> None:
        message = b"".join((*self._fragments, *parts))
        deferred, self._deferred, self._fragments = self._deferred or [], None, []
        self.send(message, *deferred)

    def _move_soon(self) -> None:
        if not self._moving:
            self._moving = True
            self._loop.call_soon(self._move)

    def _move(self) -> None:
        """Hands everything queued to the other end, unless it asked to wait."""
        self._moving = False
        while self._queue and self._other is not None and not self._other._hold:
            message = self._queue.popleft()
            self.buffered -= len(message)
            self._other.receiver.message(message)
        if self._ending is not None:
            if not self._queue and self._other is not None:
                other, self._other = self._other, None
                other._end(self._ending, self._ending_code)
        elif self._crowded and self.buffered <= LOW and self._other is not None:
            self._crowded = False
            self.receiver.drained()

    def pause_reading(self) -> None:
        self._hold = True

    def resume_reading(self) -> None:
        self._hold = False
        if self._other is not None:
            self._other._move_soon()

    def probe(self, seconds: float) -> None:
        """The other end shares our process: it is alive."""

    def close(self, code: int, reason: str) -> None:
        """Ends both ends; the other one after it has taken what is queued."""
        if self._other is None or self._ending is not None:
            return
        self._ending, self._ending_code = reason, code
        self._move()
        self.receiver.lost(reason)

    def abort(self) -> None:
        self.close(1006, "given up")

    async def wait_ended(self) -> None:
        """Nothing is left when it is closed."""

    def _end(self, reason: str, code: int) -> None:
        self._other = None
        self.close_code = code
        self._queue.clear()
        self.buffered = 0
        if self._ending is None:
            self._loop.call_soon(self.receiver.lost, reason)


def pair(loop: Loop) -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends of one connection. Set `receiver` on both before anything is sent."""
    one, two = MemoryTransport(loop), MemoryTransport(loop)
    one._other, two._other = two, one
    return one, two
