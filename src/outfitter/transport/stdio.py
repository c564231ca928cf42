"""One connection over a pair of descriptors, one message per line: our stdin and stdout, or a child's."""

from __future__ import annotations

import os
import select
from collections import deque

from ..errors import RemoteProtocolError
from ..protocol.lines import LineReader
from .base import HIGH, LOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from .base import Receiver

MAX_LINE = 64 << 20  # the reference's limit
_READ_SIZE = 64 << 10
_BATCH = 8  # messages handled in one go
_LAST_WORDS_SECONDS = 1.0


class StdioTransport:
    """Messages as lines. There is no way to say why it closes, so reasons go to the receiver only."""

    receiver: Receiver

    def __init__(
        self, loop: Loop, reading: int, writing: int, names: tuple[str, str] = ("input", "output")
    ) -> None:
        self.peer = "stdio"
        self._names = names  # what the two are called when they fail
        self._loop = loop
        self._in = reading
        self._out = writing
        self._lines = LineReader(MAX_LINE)
        self._inbox: deque[bytes] = deque()
        self._watched = False
        self._pollable = True
        self._hold = False
        self._ended = False
        self._outbox: deque[bytes | memoryview] = deque()
        self.buffered = 0
        self._crowded = False
        self._deferred: list[bytes] | None = None  # what waits for a message in pieces to end
        self._deferred_bytes = 0
        self._wake: Callable[[], None] | None = None  # who sends that message
        self._lost = False
        os.set_blocking(writing, False)

    def begin(self) -> None:
        self._watch()

    # Receiving

    def _watch(self) -> None:
        wanted = not (self._lost or self._hold or self._inbox or self._ended)
        if wanted == self._watched:
            return
        self._watched = wanted
        if not self._pollable:
            if wanted:
                self._loop.call_soon(self._readable)
        elif wanted:
            try:
                self._loop.add_reader(self._in, self._readable)
            except PermissionError:  # a plain file is always readable, and epoll will not watch it
                self._pollable = False
                self._loop.call_soon(self._readable)
        else:
            self._loop.remove_reader(self._in)

    def pause_reading(self) -> None:
        self._hold = True
        self._watch()

    def resume_reading(self) -> None:
        self._hold = False
        if self._inbox:
            self._loop.call_soon(self._deliver)
        self._watch()

    def _readable(self) -> None:
        if not self._watched:
            return
        try:
            data = os.read(self._in, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            self._inbox.extend(self._lines.feed(data) if data else self._lines.end())
        except RemoteProtocolError as error:
            self._lose(error.reason)
            return
        if not data:
            self._ended = True
        if not self._pollable:
            self._watched = False
        self._deliver()

    def _deliver(self) -> None:
        for _ in range(_BATCH):
            if not self._inbox or self._hold or self._lost:
                break
            self.receiver.message(self._inbox.popleft())
        if self._inbox and not self._hold and not self._lost:
            self._loop.call_soon(self._deliver)
        elif self._ended and not self._inbox:
            self._lose(f"standard {self._names[0]} ended")
            return
        self._watch()

    # Sending

    def send(self, *messages: bytes) -> None:
        pieces: list[bytes] = []
        for message in messages:
            pieces += (message, b"\n")
        self._push_message(pieces)

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        pieces: list[bytes] = []
        for parts in messages:
            pieces += (*parts, b"\n")
        self._push_message(pieces)

    def _push_message(self, pieces: list[bytes]) -> None:
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

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        self._push(list(parts))
        self._deferred, self._wake = [], wake

    def send_fragment(self, *parts: bytes) -> None:
        self._push(list(parts))

    def end_message(self, *parts: bytes) -> None:
        self._push([*parts, b"\n"])
        deferred, self._deferred, self._wake = self._deferred, None, None
        self.buffered -= self._deferred_bytes
        self._deferred_bytes = 0
        if deferred:
            self._push(deferred)
        if self._crowded and self.buffered <= LOW:  # all of it went at once: nothing else would say so
            self._loop.call_soon(self._drained)

    def _push(self, pieces: list[bytes]) -> None:
        if self._lost:
            return
        idle = not self._outbox
        self._outbox.extend(pieces)
        self.buffered += sum(map(len, pieces))
        if idle:
            self._writable()
            if self._outbox and not self._lost:
                self._loop.add_writer(self._out, self._writable)
        self._crowded = self._crowded or self.buffered > LOW

    def _writable(self) -> None:
        outbox = self._outbox
        try:
            sent = os.writev(self._out, [outbox[place] for place in range(min(64, len(outbox)))])
        except BlockingIOError:
            return
        except OSError as error:
            outbox.clear()
            self.buffered = 0
            self._loop.remove_writer(self._out)
            self._loop.call_soon(self._lose, f"standard {self._names[1]} failed: {error.strerror}")
            return
        self.buffered -= sent
        while outbox and sent >= len(outbox[0]):
            sent -= len(outbox.popleft())
        if sent:
            outbox[0] = memoryview(outbox[0])[sent:]
        if not outbox:
            self._loop.remove_writer(self._out)
        self._drained()

    def _drained(self) -> None:
        if self._wake is not None and self.buffered - self._deferred_bytes <= LOW:
            self._wake()
        if self._crowded and self.buffered <= LOW and not self._lost:
            self._crowded = False
            self.receiver.drained()

    def probe(self, seconds: float) -> None:
        """A pipe's other end is there or it is not: nothing to ask."""

    # Closing

    def close(self, code: int, reason: str) -> None:
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._lost:
            return
        self._lost = True
        self._watch()
        if self._outbox:
            self._loop.remove_writer(self._out)
            self._last_words()
        self.receiver.lost(reason)

    def _last_words(self) -> None:
        """What was answered already should arrive: a peer that still reads gets it, one that does not
        holds nobody up for long."""
        taken = select.poll()
        taken.register(self._out, select.POLLOUT)
        end = self._loop.time() + _LAST_WORDS_SECONDS
        try:
            while self._outbox and taken.poll(max(0.0, end - self._loop.time()) * 1000):
                sent = os.write(self._out, self._outbox[0])
                self._outbox[0] = memoryview(self._outbox[0])[sent:]
                if not self._outbox[0]:
                    self._outbox.popleft()
        except OSError:
            pass
        self._outbox.clear()
        self.buffered = 0
