"""When an executor that lost its rendezvous tries again, and whether it registers first: a table.

The URL of a registration is dialled again and again; only a service that refuses it (4xx) has the executor
register anew. Time and chance are arguments.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Next: TypeAlias = "tuple[str, float]"  # what to do, and after how many seconds

REGISTER, DIAL, GIVE_UP = "register", "dial", "give up"
_FIRST, _LONGEST = 1.0, 30.0  # seconds; the reference's
_LASTED = 60.0  # a connection that held for so long was a good one: the next failure is a new story


class Redialling:
    """The waits between attempts, twice as long each time, between half and all of that by chance."""

    def __init__(self, *, first: float = _FIRST, registers: bool = True) -> None:
        """Without `registers`, who is refused gives up: the direct transport's way."""
        self._first = self._wait = first
        self._registers = registers

    def _delay(self, chance: float) -> float:
        wait, self._wait = self._wait, min(2 * self._wait, _LONGEST)
        return wait * (0.5 + chance / 2)

    def lost(self, lasted: float, chance: float) -> Next:
        """A connection has ended after so many seconds."""
        if lasted >= _LASTED:
            self._wait = self._first
        return DIAL, self._delay(chance)

    def unreachable(self, status: int | None, chance: float) -> Next:
        """The URL could not be dialled, or was answered with a status."""
        if status is not None and 400 <= status < 500 and (self._registers or status != 429):
            return (REGISTER, 0.0) if self._registers else (GIVE_UP, 0.0)
        return DIAL, self._delay(chance)

    def registered(self, again: bool, chance: float) -> Next:
        """The registry has given a URL; after a refusal, the new one is not tried at once."""
        return DIAL, self._delay(chance) if again else 0.0

    def unregistered(self, status: int | None, chance: float) -> Next:
        """The registry has not: what will pass is waited for, and what a person has to mend is not."""
        if status is None or status >= 500 or status in (408, 429):
            return REGISTER, self._delay(chance)
        return GIVE_UP, 0.0
