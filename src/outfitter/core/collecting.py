"""What is kept of a command's output when there may be more of it than anybody wants. Pure."""

from __future__ import annotations

from collections import deque

OVERFLOWS = ("raise", "head", "tail", "ends")


class Kept:
    """The bytes of one stream, at most `limit`: the first ones, the last ones, or half of each.

    >>> kept = Kept(4, "ends")
    >>> kept.add(b"abcdef")
    >>> kept.bytes(), kept.dropped
    (b'abef', 2)
    """

    def __init__(self, limit: int, overflow: str = "raise") -> None:
        self._tail_limit = {"tail": limit, "ends": limit // 2}.get(overflow, 0)
        self._room = limit - self._tail_limit  # of the head, that is left
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        if self._room:
            if len(data) <= self._room:
                self._head.append(data)
                self._room -= len(data)
                return
            self._head.append(data[: self._room])
            data = data[self._room :]
            self._room = 0
        self._tail.append(data)
        self._tail_size += len(data)
        while (over := self._tail_size - self._tail_limit) > 0:
            oldest = self._tail.popleft()
            if len(oldest) > over:
                self._tail.appendleft(oldest[over:])
            cut = min(over, len(oldest))
            self._tail_size -= cut
            self.dropped += cut

    def bytes(self) -> bytes:
        return b"".join([*self._head, *self._tail])


class Collected:
    """What a command has printed: each stream apart, or `merged` as it came."""

    def __init__(self, limit: int, overflow: str = "raise", *, merged: bool = False) -> None:
        self._stdout = Kept(limit, overflow)
        self._stderr = self._stdout if merged else Kept(limit, overflow)
        self._merged = merged

    def add(self, stream: str, data: bytes) -> None:
        (self._stderr if stream == "stderr" else self._stdout).add(data)

    @property
    def dropped(self) -> int:
        """How many bytes did not fit."""
        return self._stdout.dropped + (0 if self._merged else self._stderr.dropped)

    @property
    def stdout(self) -> bytes:
        return self._stdout.bytes()

    @property
    def stderr(self) -> bytes:
        return b"" if self._merged else self._stderr.bytes()
