"""A server's end that sends messages whole: one in pieces is joined first, and others wait behind it."""

from __future__ import annotations

from ..core.records import MAX_MESSAGE
from ..transport.base import LOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import EpollLoop
    from ..transport.base import Receiver


class Joining:
    """Part of `transport.base.Serving`. What is kept here counts as `buffered`, so that output and answers
    wait for it; a message that grows larger than any peer takes ends the connection at once."""

    receiver: Receiver
    close_code: int | None = None
    expires: float | None = None
    has_room = True  # for the next piece: nothing of the message has been sent
    _crowded = False  # more than LOW waits, so `drained` is owed

    def __init__(self, loop: EpollLoop) -> None:
        self._loop = loop
        self._fragments: list[bytes] | None = None
        self._joined = 0  # their bytes
        self._deferred: list[tuple[bytes, ...]] = []
        self._kept = 0  # bytes of both

    @property
    def buffered(self) -> int:
        raise NotImplementedError

    def send(self, *messages: bytes) -> None:
        self.send_parts(*((message,) for message in messages))

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        raise NotImplementedError

    def close(self, code: int, reason: str) -> None:
        raise NotImplementedError

    def _drained(self) -> None:
        raise NotImplementedError

    def _defers(self, messages: tuple[tuple[bytes, ...], ...]) -> bool:
        """Whether messages have to wait for the end of one in pieces; they are kept."""
        if self._fragments is None:
            return False
        self._deferred += messages
        self._keep(sum(sum(map(len, parts)) for parts in messages))
        return True

    def _keep(self, size: int) -> None:
        self._kept += size
        self._crowded = self._crowded or self.buffered > LOW

    def _let_go(self) -> None:
        """Nothing is kept any more."""
        self._fragments, self._deferred = None, []
        self._joined = self._kept = 0

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        self._fragments = []
        self.send_fragment(*parts)

    def send_fragment(self, *parts: bytes) -> None:
        if self._fragments is None:
            return  # the message was given up
        size = sum(map(len, parts))
        self._fragments += parts
        self._joined += size
        self._keep(size)
        if self._joined > MAX_MESSAGE:
            self._let_go()
            self.close(1009, "a message is larger than a stream can carry")

    def end_message(self, *parts: bytes) -> None:
        self.send_fragment(*parts)
        if self._fragments is None:
            return
        whole, deferred = tuple(self._fragments), self._deferred
        self._let_go()
        self.send_parts(whole, *deferred)
        if self._crowded and self.buffered <= LOW:  # all of it went at once: nothing else would say so
            self._crowded = False
            self._loop.call_soon(self._drained)
