"""Connections that nobody has vouched for yet: how many there may be, how fast they fail, what the log says.

They have a budget of their own, so that they never take the place of a client. When it is spent, the oldest
of whoever has most gives way. A refusal is answered at once, the next ones of the same source later and
later; who is admitted never waits.
"""

from __future__ import annotations

from ..log import warn
from ..protocol.upgrade import CAUSES, OTHER_CAUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..loop import Loop, Timer

    class Attempt(Protocol):
        source: str
        since: float

        def abort(self) -> None:
            """Ends the connection, and leaves."""


# Connections that have not been admitted, in all and from one source. A client says what it wants within
# milliseconds, so a few dozen at a time are a storm; each costs a descriptor.
PENDING = 256
PENDING_PER_SOURCE = 128
# Younger ones are not dropped: a thousand clients that start at once wait in the kernel's queue instead.
# Where somebody fills the budget again and again, a client waits for its turn as long as on a slow network.
# With a smaller budget they wait less: else the queue of a flood would take minutes.
_GRACE_SECONDS = 1.0
# Refusals of one source that are answered at once: a person who takes the wrong token, twice.
_FREE_REFUSALS = 3
_FIRST_DELAY_SECONDS = 0.05  # then this, and twice as much each time
_LONGEST_DELAY_SECONDS = 2.0  # a client waits 10 s for its answer
_FORGET_SECONDS = 60.0  # after which a source without a refusal is as good as new
_SOURCES = 1024  # remembered; the one that was silent for longest is forgotten first
# Refusals in the log, per window: enough to see who and why, too few to fill a disk.
_LINES = 10
_WINDOW_SECONDS = 10.0


class Attempts:
    """The connections to one listener that are not admitted yet."""

    def __init__(self, loop: Loop, limit: int = PENDING, per_source: int = PENDING_PER_SOURCE) -> None:
        self._loop = loop
        self._limit = limit
        self._per_source = per_source
        self._grace = _GRACE_SECONDS
        self._pending = 0
        self._sources: dict[str, dict[Attempt, None]] = {}  # each in the order in which they came
        self._failed: dict[str, tuple[int, float]] = {}  # refusals of a source, and when the last one was
        self.refused: dict[str, int] = {}  # connections that were turned away or given up, by cause
        self._lines = 0
        self._last = ""
        self._window: Timer | None = None

    def __len__(self) -> int:
        return self._pending

    def narrow(self, limit: int) -> None:
        """There may be no more than this: a process has only so many descriptors."""
        self._limit = min(self._limit, limit)
        self._per_source = min(self._per_source, max(1, limit // 2))
        self._grace = _GRACE_SECONDS * min(self._limit, PENDING) / PENDING

    def make_room(self) -> float:
        """Ends what has waited for too long if the budget is spent; how long the next one has to wait."""
        if self._pending < self._limit:
            return 0.0
        source = max(self._sources, key=lambda name: len(self._sources[name]))
        return self._drop_oldest(source)

    def enter(self, attempt: Attempt) -> None:
        one = self._sources.get(attempt.source)
        if one is None:
            one = self._sources[attempt.source] = {}
        elif len(one) >= self._per_source:
            self._drop_oldest(attempt.source)
            one = self._sources.setdefault(attempt.source, {})
        one[attempt] = None
        self._pending += 1

    def leave(self, attempt: Attempt) -> None:
        one = self._sources.get(attempt.source)
        if one is None or attempt not in one:
            return
        del one[attempt]
        self._pending -= 1
        if not one:
            del self._sources[attempt.source]

    def _drop_oldest(self, source: str) -> float:
        oldest = next(iter(self._sources[source]))
        wait = oldest.since + self._grace - self._loop.time()
        if wait > 0:
            return wait
        count = len(self._sources[source])
        oldest.abort()
        self.count("silent")
        self._say(f"dropped a connection of {source} that asked for nothing: it had {count}")
        return 0.0

    def failed(self, source: str) -> float:
        """A source was refused; how long it should wait for its answer."""
        now = self._loop.time()
        count, last = self._failed.pop(source, (0, now))
        if now - last > _FORGET_SECONDS:
            count = 0
        self._failed[source] = (count + 1, now)  # at the end: the first of all is the one to forget
        if len(self._failed) > _SOURCES:
            del self._failed[next(iter(self._failed))]
        late = count - _FREE_REFUSALS
        return 0.0 if late < 0 else min(_FIRST_DELAY_SECONDS * 2 ** min(late, 16), _LONGEST_DELAY_SECONDS)

    # The log

    def count(self, cause: str) -> None:
        """One more for those who count refusals; `cause` is one of `protocol.upgrade.CAUSES`."""
        cause = cause if cause in CAUSES else OTHER_CAUSE
        self.refused[cause] = self.refused.get(cause, 0) + 1

    def log_refusal(self, address: str, reason: str, cause: str = "") -> None:
        self.count(cause)
        self._say(f"refused {address}: {reason}")

    def _say(self, text: str) -> None:
        if self._window is None:
            self._window = self._loop.call_later(_WINDOW_SECONDS, self._next_window)
        self._lines += 1
        self._last = text
        if self._lines <= _LINES:
            warn("server", "%s", text)

    def _next_window(self) -> None:
        more, self._lines, self._window = self._lines - _LINES, 0, None
        if more > 0:
            text = f"and {more} more within {_WINDOW_SECONDS:g} s, the last one: {self._last}"
            warn("server", "%s", text)
