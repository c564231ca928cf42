"""The output log of one process: sequence numbers, retention, replay.

Sequence numbers are dense and start at 1; output, exit and close share them. A reader that has seen
`closed` has seen everything still retained. `closed` comes once, last, when the leader has exited and
every stream has ended.
"""

from __future__ import annotations

from ..record import record
from ..stdlib import deque

RETAINED_BYTES = 1 << 20  # the reference's window; a client that reconnects in time needs no more
RETAINED_CHUNKS = 50_000  # the reference's; bounds what one-byte writes cost
OUT_OF_MEMORY = "out-of-memory"  # a reason for the machine to end a command
CROWDED_BYTES = 64 << 10  # the window while the server as a whole holds too much (Budget)


class Budget:
    """Bytes of output retained by all logs together; above `limit` every log keeps a small window."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class Share(Budget):
    """What the logs of one principal retain, where there are several: it counts for the `whole` as well.
    Above what the whole has free they keep a small window, and nobody else does.
    """

    __slots__ = ("_used", "whole")

    def __init__(self, whole: Budget) -> None:
        self._used = 0
        self.whole = whole

    @property
    def used(self) -> int:
        return self._used

    @used.setter
    def used(self, used: int) -> None:
        self.whole.used += used - self._used
        self._used = used

    @property
    def limit(self) -> int:  # type: ignore[override]
        return self.whole.limit - self.whole.used


@record
class Chunk:
    seq: int
    stream: bytes
    data: bytes | memoryview


@record
class Page:
    """What one read gives: chunks after the cursor, and the state of the process now."""

    chunks: list[Chunk]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    dropped_bytes: int
    denied: bool = False


class OutputLog:
    """Numbered events of one process; keeps the newest `retained` bytes of output."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_dropped_through",
        "_retained",
        "_size",
        "_streams_open",
        "closed_seq",
        "denied",
        "dropped_bytes",
        "exit_code",
        "exited_seq",
        "next_seq",
        "reason",
    )

    def __init__(self, streams: int, budget: Budget, retained: int = RETAINED_BYTES) -> None:
        self._streams_open = streams
        self._budget = budget
        self._retained = retained
        self._chunks: deque[Chunk] | None = None  # most processes of a busy server print nothing
        self._size = 0
        self.next_seq = 1
        self.exited_seq: int | None = None
        self.exit_code: int | None = None
        self.closed_seq: int | None = None
        self.denied = False  # whether it probably failed because of its sandbox
        self.reason: str | None = None  # why the machine has ended it: OUT_OF_MEMORY
        self.dropped_bytes = 0
        self._dropped_through = 0  # the highest number whose output is gone

    # Writing

    def append(self, stream: bytes, data: bytes | memoryview) -> Chunk:
        """Records a piece of output and gives it its number.

        One that is a view keeps all alive that was read with it, at most as much again as is retained.
        """
        assert self.closed_seq is None, "output after closed"
        seq = self.next_seq
        self.next_seq = seq + 1
        chunks = self._chunks
        if chunks is None:
            chunks = self._chunks = deque()
        limit = self._retained
        budget = self._budget
        budget.used += len(data)
        if self.crowded:
            limit = min(limit, CROWDED_BYTES)
            data = bytes(data)
        chunk = Chunk(seq, stream, data)
        chunks.append(chunk)
        self._size += len(data)
        while self._size > limit or len(chunks) > RETAINED_CHUNKS:
            oldest = chunks.popleft()
            self._size -= len(oldest.data)
            budget.used -= len(oldest.data)
            self.dropped_bytes += len(oldest.data)
            self._dropped_through = oldest.seq
        return chunk

    def exit(self, exit_code: int, *, denied: bool = False, reason: str | None = None) -> int:
        """Records that the leader was reaped, whether that was probably its sandbox's doing, or why the
        machine did it; returns the number."""
        self.denied = denied
        self.reason = reason
        assert self.exited_seq is None, "exited twice"
        self.exit_code = exit_code
        self.exited_seq = self.next_seq
        self.next_seq += 1
        return self.exited_seq

    def end_stream(self) -> None:
        """Records that one output stream reached its end."""
        assert self._streams_open > 0, "a stream ended twice"
        self._streams_open -= 1

    def close(self) -> int | None:
        """The number of `closed` if it is due now, else None."""
        if self.exited_seq is None or self._streams_open or self.closed_seq is not None:
            return None
        self.closed_seq = self.next_seq
        self.next_seq += 1
        return self.closed_seq

    def release(self) -> None:
        """Gives the retained bytes back; the log is read no more."""
        self._budget.used -= self._size
        self._size = 0
        self._chunks = None

    @property
    def total_bytes(self) -> int:
        """Bytes of output, all in all, until `release`."""
        return self._size + self.dropped_bytes

    @property
    def crowded(self) -> bool:
        """Whether only a small window is kept, and no large chunk."""
        return self._budget.used > self._budget.limit

    # Reading

    @property
    def exited(self) -> bool:
        return self.exited_seq is not None

    @property
    def closed(self) -> bool:
        return self.closed_seq is not None

    def first_seq(self) -> int:
        """The smallest number whose output is still retained, or the next number."""
        return self._chunks[0].seq if self._chunks else self.next_seq

    def after(self, seq: int) -> list[Chunk]:
        """Retained chunks numbered above `seq`."""
        if not self._chunks or self._chunks[-1].seq <= seq:
            return []
        if self._chunks[0].seq > seq:
            return list(self._chunks)
        newer: list[Chunk] = []
        for chunk in reversed(self._chunks):
            if chunk.seq <= seq:
                break
            newer.append(chunk)
        newer.reverse()
        return newer

    def read(self, after: int, max_bytes: int | None) -> Page:
        """Chunks after the cursor within the budget; the first one always, chunks never split."""
        chunks = self.after(after)
        next_seq = self.next_seq
        if max_bytes is not None and chunks:
            taken = 0
            for count, chunk in enumerate(chunks):
                if count and taken + len(chunk.data) > max_bytes:
                    del chunks[count:]
                    break
                taken += len(chunk.data)
                if taken >= max_bytes:
                    del chunks[count + 1 :]
                    break
            next_seq = chunks[-1].seq + 1
        # Bytes lost matter only to a reader whose cursor lies before the gap.
        dropped = self.dropped_bytes if after < self._dropped_through else 0
        return Page(chunks, next_seq, self.exited, self.exit_code, self.closed, dropped, self.denied)

    def ready(self, after: int) -> bool:
        """Whether a waiting read should return: news past the cursor, or nothing more can come."""
        if self._chunks and self._chunks[-1].seq > after:
            return True
        return self.closed or (self.exited and after < self.next_seq - 1)
