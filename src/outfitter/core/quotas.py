"""How much of a server one principal may hold, so that none can keep the others out.

Where a server has one principal, that one may hold everything. Where it has several, a principal may hold no
more than is still free: alone half of everything, two that want all they can get a third each, and n of them
an n+1th, while as much stays free for whoever comes next. What is held is never taken away again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def allows(limit: int, held: int, mine: int, amount: int, *, several: bool) -> bool:
    """Whether a principal that holds `mine` of all that is `held` may have so much more."""
    free = limit - held
    return amount <= free and (not several or mine + amount <= free)


class Sharing:
    """Whether a server has several principals: it is told, or the second one shows it."""

    __slots__ = ("_begin", "_first", "several")

    def __init__(self, several: bool = False) -> None:
        self.several = several
        self._first: str | None = None
        self._begin: list[Callable[[], None]] = []

    def seen(self, principal: str) -> None:
        if self._first is None:
            self._first = principal
        elif principal != self._first:
            self.begin()

    def begin(self) -> None:
        """There are several, or may be."""
        if not self.several:
            self.several = True
            for one in self._begin:
                one()

    def when_several(self, begin: Callable[[], None]) -> None:
        """Calls it once, as soon as there are several."""
        if self.several:
            begin()
        else:
            self._begin.append(begin)

    def allows(self, limit: int, held: int, mine: int, amount: int = 1) -> bool:
        """Whether a principal that holds `mine` of all that is `held` may have so much more."""
        return allows(limit, held, mine, amount, several=self.several)


class Quota:
    """One thing of which a server has so much: who holds how much of it."""

    __slots__ = ("_mine", "_sharing", "held", "limit")

    def __init__(self, limit: int, sharing: Sharing) -> None:
        self.limit = limit
        self.held = 0  # by all together
        self._sharing = sharing
        self._mine: dict[str, int] = {}

    def of(self, principal: str) -> int:
        """How much it holds."""
        return self._mine.get(principal, 0)

    def allows(self, principal: str, amount: int = 1) -> bool:
        """Whether it may have so much more."""
        mine = self._mine.get(principal, 0)
        return allows(self.limit, self.held, mine, amount, several=self._sharing.several)

    def take(self, principal: str, amount: int = 1) -> None:
        self.held += amount
        self._mine[principal] = self._mine.get(principal, 0) + amount

    def give(self, principal: str, amount: int = 1) -> None:
        """Takes back what was taken."""
        self.held -= amount
        left = self._mine[principal] - amount
        if left:
            self._mine[principal] = left
        else:
            del self._mine[principal]  # principals come and go; who holds nothing is not remembered
