"""One connection over a pair of descriptors, one message per line: our stdin and stdout, or a child's."""

from __future__ import annotations

import os
import select

from ..errors import RemoteProtocolError
from ..protocol.lines import LineReader
from ..stdlib import deque
from .base import LOW, Outgoing, own_principal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

MAX_LINE = 64 << 20  # the reference's limit
_READ_SIZE = 64 << 10
_BATCH = 8  # messages handled in one go
_LAST_WORDS_SECONDS = 1.0


class StdioTransport(Outgoing):
    """Messages as lines. There is no way to say why it closes, so reasons go to the receiver only."""

    def __init__(
        self, loop: Loop, reading: int, writing: int, names: tuple[str, str] = ("input", "output")
    ) -> None:
        super().__init__(loop)
        self.principal = own_principal()
        self.address = "stdio"
        self.expires: float | None = None
        self._names = names  # what the two are called when they fail
        self._in = reading
        self._out = writing
        self._lines = LineReader(MAX_LINE)
        self._inbox: deque[bytes] = deque()
        self._watched = False
        self._pollable = True
        self._hold = False
        self._at_end = False  # of the input
        self.heard = loop.time()
        os.set_blocking(writing, False)

    def begin(self) -> None:
        self._watch()

    # Receiving

    def _watch(self) -> None:
        wanted = not (self._closing or self._hold or self._inbox or self._at_end)
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
        self.heard = self._loop.time()
        try:
            self._inbox.extend(self._lines.feed(data) if data else self._lines.end())
        except RemoteProtocolError as error:
            self._lose(error.reason)
            return
        if not data:
            self._at_end = True
        if not self._pollable:
            self._watched = False
        self._deliver()

    def _deliver(self) -> None:
        for _ in range(_BATCH):
            if not self._inbox or self._hold or self._closing:
                break
            self.receiver.message(self._inbox.popleft())
        if self._inbox and not self._hold and not self._closing:
            self._loop.call_soon(self._deliver)
        elif self._at_end and not self._inbox:
            self._lose(f"standard {self._names[0]} ended")
            return
        self._watch()

    # Sending

    def send(self, *messages: bytes) -> None:
        pieces: list[bytes | memoryview] = []
        for message in messages:
            pieces += (message, b"\n")
        self._push_message(pieces)

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        pieces: list[bytes | memoryview] = []
        for parts in messages:
            pieces += (*parts, b"\n")
        self._push_message(pieces)

    def begin_message(self, *parts: bytes, wake: Callable[[], None]) -> None:
        self._push(list(parts))
        self._begun(wake)

    def send_fragment(self, *parts: bytes) -> None:
        self._push(list(parts))

    def end_message(self, *parts: bytes) -> None:
        self._push([*parts, b"\n"])
        self._ended()

    def _push(self, pieces: list[bytes | memoryview]) -> None:
        if self._closing:
            return
        idle = not self._outbox
        self._outbox.extend(pieces)
        self.buffered += sum(map(len, pieces))
        if idle:
            self._writable()
            if self._outbox and not self._closing:
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
        self._sent(sent)
        if not outbox:
            self._loop.remove_writer(self._out)
        self._drained()

    def probe(self, seconds: float) -> None:
        """A pipe's other end is there or it is not: nothing to ask."""

    # Closing

    def close(self, code: int, reason: str) -> None:
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        self._watch()
        if self._outbox:
            self._loop.remove_writer(self._out)
            self._last_words()
        self._tell(reason)

    def _tell(self, reason: str) -> None:
        self.receiver.lost(reason)

    def _last_words(self) -> None:
        """What was answered already should arrive: a peer that still reads gets it, one that does not
        holds nobody up for long."""
        taken = select.poll()
        taken.register(self._out, select.POLLOUT)
        end = self._loop.time() + _LAST_WORDS_SECONDS
        try:
            while self._outbox and taken.poll(max(0.0, end - self._loop.time()) * 1000):
                self._sent(os.write(self._out, self._outbox[0]))
        except OSError:
            pass
        self._outbox.clear()
        self.buffered = 0
