"""What was written to a process: each write once, in order, within bounds.

Write ids make a replay after a lost answer harmless; the newest `REMEMBERED` are known.
"""

from __future__ import annotations

from ..stdlib import OrderedDict, deque

REMEMBERED = 4096  # the reference's window
QUEUED_WRITES = 128  # the reference's queue
QUEUED_BYTES = 8 << 20  # the reference sets none; a child that never reads must not cost more
WAITING_WRITES = 1024  # calls that may wait for room in the queue
WAITING_BYTES = 64 << 20  # one largest message, so that a lone huge write always fits


class WriteIds:
    """The write ids accepted for one process, oldest forgotten first."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, write_id: str) -> bool:
        return write_id in self._ids

    def add(self, write_id: str) -> None:
        self._ids[write_id] = None
        if len(self._ids) > REMEMBERED:
            self._ids.popitem(last=False)


class StdinQueue:
    """Bytes accepted but not yet taken by the child."""

    __slots__ = ("_chunks", "eof", "size")

    def __init__(self) -> None:
        self._chunks: deque[bytes | memoryview] = deque()
        self.size = 0
        self.eof = False  # nothing may follow; the descriptor closes when the queue is empty

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def has_room(self) -> bool:
        """Whether one more write is taken now. A single write of any size fits an empty queue."""
        return len(self._chunks) < QUEUED_WRITES and self.size < QUEUED_BYTES

    def push(self, data: bytes | memoryview) -> None:
        if data:
            self._chunks.append(data)
            self.size += len(data)

    def head(self) -> bytes | memoryview:
        return self._chunks[0]

    def advance(self, written: int) -> None:
        """Forgets `written` bytes of the head."""
        head = self._chunks[0]
        self.size -= written
        if written == len(head):
            self._chunks.popleft()
        else:
            self._chunks[0] = memoryview(head)[written:]

    def clear(self) -> None:
        self._chunks.clear()
        self.size = 0
