"""So many in a minute for each name, and a few at once: who may go on now, and who comes again when."""

from __future__ import annotations

from ..record import record

# Remembered; each takes some 200 bytes. The one that was silent for longest is forgotten first.
NAMES = 10_000


@record
class Rate:
    """`minute` is how many there may be in the long run, `burst` how many at once."""

    minute: float
    burst: int


class Rates:
    """One rate, for each name of its own. `now` is any clock that does not go back."""

    def __init__(self, rate: Rate, names: int = NAMES) -> None:
        self._rate = rate
        self._names = names
        self._left: dict[str, tuple[float, float]] = {}  # how many at once, and at which time

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, now: float) -> float:
        """0.0 if there may be one more now, else the seconds until there may be."""
        burst, second = self._rate.burst, self._rate.minute / 60
        left, then = self._left.pop(name, (float(burst), now))
        left = min(burst, left + max(0.0, now - then) * second)
        wait = 0.0 if left >= 1 else (1 - left) / second
        # At the end: the first of all is to be forgotten.
        self._left[name] = (left if wait else left - 1, now)
        if len(self._left) > self._names:
            del self._left[next(iter(self._left))]
        return wait
