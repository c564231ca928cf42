"""A server's end that sends messages whole: one in pieces is joined first, and others wait behind it."""

from __future__ import annotations

from ..core.records import MAX_MESSAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..transport.base import Receiver


class Joining:
    """Part of `transport.base.Serving`."""

    receiver: Receiver
    close_code: int | None = None
    expires: float | None = None
    has_room = True  # for the next piece: nothing of the message has been sent

    def __init__(self) -> None:
        self._fragments: list[bytes] | None = None
        self._deferred: list[tuple[bytes, ...]] = []

    def send(self, *messages: bytes) -> None:
        self.send_parts(*((message,) for message in messages))

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        raise NotImplementedError

    def close(self, code: int, reason: str) -> None:
        raise NotImplementedError

    def _defers(self, messages: tuple[tuple[bytes, ...], ...]) -> bool:
        """Whether messages have to wait for the end of one in pieces; they are kept."""
        if self._fragments is None:
            return False
        self._deferred += messages
        return True

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        self._fragments = list(parts)

    def send_fragment(self, *parts: bytes) -> None:
        if self._fragments is not None:
            self._fragments += parts

    def end_message(self, *parts: bytes) -> None:
        whole = (*(self._fragments or ()), *parts)
        deferred, self._deferred, self._fragments = self._deferred, [], None
        if sum(map(len, whole)) > MAX_MESSAGE:
            self.close(1009, "a message is larger than a stream can carry")
            return
        self.send_parts(whole, *deferred)
