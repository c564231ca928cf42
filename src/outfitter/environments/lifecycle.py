"""Where one environment stands on the way from declared to done for, and what a use of it does there.

Pure: it says what to do. All transitions are here.

                         ┌── may pass ──▶ UNREACHED ──┐
    IDLE ── begin ──▶ OPENING ◀───────── begin ───────┤
                         │ └─ is final ─▶ ENDED       │
                         ▼                  ▲         │
                       READY ──── lost ─────┴──────▶ LOST
"""

from __future__ import annotations

from ..errors import ConnectionLost, DialFailed, OutfitterError

IDLE = "idle"  # nobody has asked for it
OPENING = "opening"  # one attempt is under way, for everybody
READY = "ready"  # connected, as far as is known
UNREACHED = "unreached"  # the last attempt failed; another may not
LOST = "lost"  # was connected, and its session is gone
ENDED = "ended"  # no use will change it: refused, or a program that is gone

OPEN = "open"
JOIN = "join"
TAKE = "take"
FAIL = "fail"

#: What a use does. Nothing is tried again unless somebody wants it.
ON_USE = {IDLE: OPEN, OPENING: JOIN, READY: TAKE, UNREACHED: OPEN, LOST: OPEN, ENDED: FAIL}


class Lifecycle:
    """`reopens` says whether a lost connection is followed by a new one, with a new session.

    `error` is why the last attempt failed or the last connection ended; None until one has.
    """

    __slots__ = ("_reopens", "error", "state")

    def __init__(self, *, reopens: bool) -> None:
        self._reopens = reopens
        self.state = IDLE
        self.error: Exception | None = None

    def on_use(self) -> str:
        return ON_USE[self.state]

    def begin(self) -> None:
        assert self.on_use() == OPEN
        self.state = OPENING

    def opened(self) -> None:
        assert self.state == OPENING
        self.state = READY

    def failed(self, error: Exception) -> None:
        assert self.state == OPENING
        self.state = UNREACHED if may_pass(error) else ENDED
        self.error = error

    def lost(self, error: Exception) -> None:
        assert self.state == READY
        self.state = LOST if self._reopens else ENDED
        self.error = error


def may_pass(error: Exception) -> bool:
    """Whether another attempt may fare better. What is not ours is a fault, not an answer to remember."""
    if isinstance(error, DialFailed):
        return error.retryable
    return isinstance(error, ConnectionLost) or not isinstance(error, OutfitterError)
