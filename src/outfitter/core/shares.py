"""Who may begin: so many at a time in all, so many of one owner, and owners in turn.

One who asks for much waits for itself; whoever asks for little waits for one piece of each other owner at
most. Where what begins may take long, a principal with many owners has its share alone (`core.quotas`).
Nothing is thrown away here: what was added begins, sooner or later, unless it is taken back.
"""

from __future__ import annotations

from ..stdlib import deque
from .quotas import Quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .quotas import Sharing

    Begin = Callable[[], None]


class Shares:
    """`total` at a time, `each` of one owner. An owner that has nothing left is forgotten.

    With `sharing`, an owner is a tuple that begins with its principal, and one principal has its share.
    """

    __slots__ = ("_each", "_quota", "_running", "_total", "_waiting", "running")

    def __init__(self, total: int, each: int, sharing: Sharing | None = None) -> None:
        self._total = total
        self._each = each
        self._quota = None if sharing is None else Quota(total, sharing)
        self.running = 0
        self._running: dict[Any, int] = {}
        self._waiting: dict[Any, deque[Begin]] = {}  # the owner whose turn it is first

    def waiting(self, owner: Any) -> int:
        """How much of this owner has not begun."""
        return len(self._waiting.get(owner, ()))

    def add(self, owner: Any, begin: Begin) -> None:
        """Calls `begin` when its turn has come, which may be now. `done` must follow it."""
        self._waiting.setdefault(owner, deque()).append(begin)
        self._start()

    def drop(self, owner: Any, begin: Begin) -> None:
        """Takes back what was added and has not begun."""
        mine = self._waiting[owner]
        mine.remove(begin)
        if not mine:
            del self._waiting[owner]

    def done(self, owner: Any) -> None:
        """Something of this owner has ended; others may begin."""
        self.running -= 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        if self._quota is not None:
            self._quota.give(owner[0])
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
            if self._quota is not None:
                self._quota.take(owner[0])
            begin()

    def _next(self) -> Any:
        quota = self._quota
        for owner in self._waiting:
            if self._running.get(owner, 0) < self._each and (quota is None or quota.allows(owner[0])):
                return owner
        return None
