"""Whose turn it is when several principals want something: each gets the same time, whatever it asks for.

Start-time fair queueing: a principal's next turn begins where its last one ended, on a clock that counts time
served. The earliest goes first. One that was idle begins now: it is served next, and saves nothing up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# How long a turn should take: long against what it costs to look who waits, short against what a person or a
# command of another principal would notice.
TURN_SECONDS = 0.002
_MOST = 64  # things done in one turn, before it is known what they take
_MEMORY = 0.25  # how much the newest turn counts for what a thing takes


class Turns:
    """Time is an argument: what a turn took is told after it."""

    __slots__ = ("_clock", "_ends", "_takes")

    def __init__(self) -> None:
        self._clock = 0.0  # where the turn began that was given last
        self._ends: dict[str, float] = {}  # where those of the principals ended
        self._takes: dict[str, float] = {}  # how long one thing takes that a principal wants

    def next(self, waiting: Iterable[str]) -> str:
        """Who of those that wait is served."""
        clock, ends = self._clock, self._ends
        chosen, start = "", float("inf")
        for principal in waiting:
            begins = max(ends.get(principal, clock), clock)
            if begins < start:
                chosen, start = principal, begins
        self._clock = start
        return chosen

    def size(self, principal: str) -> int:
        """How many things it may have done in its turn."""
        takes = self._takes.get(principal, 0.0)
        return max(1, min(_MOST, int(TURN_SECONDS / takes))) if takes else _MOST

    def took(self, principal: str, seconds: float, count: int) -> None:
        """How long the turn of the one chosen last was, and how many things were done."""
        self._ends[principal] = self._clock + seconds
        known = self._takes.get(principal)
        each = seconds / count
        self._takes[principal] = each if known is None else known + (each - known) * _MEMORY
        if len(self._ends) > _MOST:
            # Who has been idle for so long would begin now anyway.
            for one in [one for one, end in self._ends.items() if end <= self._clock]:
                del self._ends[one], self._takes[one]
