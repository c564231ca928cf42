"""Who may begin: so many at a time in all, so many of one owner, and owners in turn.

One who asks for much waits for itself; whoever asks for little waits for one piece of each other owner at
most. Nothing is thrown away here: what was added begins, sooner or later.
"""

from __future__ import annotations

from ..stdlib import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Begin = Callable[[], None]


class Shares:
    """`total` at a time, `each` of one owner. An owner that has nothing left is forgotten."""

    __slots__ = ("_each", "_running", "_total", "_waiting", "running")

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self.running = 0
        self._running: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[Begin]] = {}  # the owner whose turn it is first

    def waiting(self, owner: Hashable) -> int:
        """How much of this owner has not begun."""
        return len(self._waiting.get(owner, ()))

    def add(self, owner: Hashable, begin: Begin) -> None:
        """Calls `begin` when its turn has come, which may be now. `done` must follow it."""
        self._waiting.setdefault(owner, deque()).append(begin)
        self._start()

    def done(self, owner: Hashable) -> None:
        """Something of this owner has ended; others may begin."""
        self.running -= 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._start()

    def _start(self) -> None:
        while self.running < self._total:
            owner = self._next()
            if owner is None:
                return
            mine = self._waiting.pop(owner)
            begin = mine.popleft()
            if mine:
                self._waiting[owner] = mine  # behind all others
            self.running += 1
            self._running[owner] = self._running.get(owner, 0) + 1
            begin()

    def _next(self) -> Hashable | None:
        for owner in self._waiting:
            if self._running.get(owner, 0) < self._each:
                return owner
        return None
