"""A loop that is moved by hand: time passes when a test says so, and only then."""

from __future__ import annotations

import heapq
import itertools
import select
from collections.abc import Callable
from typing import Any


class Timer:
    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None


class HandLoop:
    """Offers what `outfitter.loop.Loop` asks for."""

    def __init__(self) -> None:
        self.takes_turns = False
        self.now = 1000.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []
        self._readers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._writers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}

    @property
    def waiting(self) -> int:
        """How many timers have not been called yet."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    @property
    def next(self) -> float:
        """When the next timer is due."""
        return min(when for when, _, timer in self._timers if timer.callback is not None)

    @property
    def readers(self) -> list[int]:
        """The descriptors that somebody reads."""
        return list(self._readers)

    @property
    def writers(self) -> list[int]:
        """The descriptors that somebody waits to write to."""
        return list(self._writers)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        heapq.heappush(self._timers, (self.now + delay, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_later(0.0, callback, *args)

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        self._readers[fd] = callback, args

    def remove_reader(self, fd: int) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        self._writers[fd] = callback, args

    def remove_writer(self, fd: int) -> bool:
        return self._writers.pop(fd, None) is not None

    def serve(self, wanted: Callable[[], bool]) -> None:
        """Serves descriptors, and timers that are due now, until `wanted` holds."""
        while not wanted():
            ready, writable, _ = select.select(list(self._readers), list(self._writers), [], 5.0)
            assert ready or writable, "nothing happens that would make it so"
            self._call(ready, writable)
            self.advance(0.0)

    def tick(self) -> None:
        """Serves what is ready now."""
        self._call(*select.select(list(self._readers), list(self._writers), [], 0)[:2])

    def _call(self, ready: list[int], writable: list[int]) -> None:
        for fd in ready:
            if fd in self._readers:
                callback, args = self._readers[fd]
                callback(*args)
        for fd in writable:
            if fd in self._writers:
                callback, args = self._writers[fd]
                callback(*args)

    def advance(self, seconds: float) -> None:
        """Lets so much time pass; before each timer, serves what is ready."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.tick()
            if not self._timers or self._timers[0][0] > end:
                break
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if timer.callback is not None:
                timer.callback(*timer.args)
        self.now = end
