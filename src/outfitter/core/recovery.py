"""One logical client over many connections: connected, recovering or failed, as one table.

              ┌──────────────── resumed ────────────────┐
              ▼                                         │
          connected ──────────── lost ───────────▶ recovering ─┐ attempt failed
              │                                         │  ▲───┘
              │ lost for good, closed                   │ refused, timed out, closed
              ▼                                         ▼
              └──────────────▶ failed (for ever) ◀──────┘

Time is an argument. Each connection has a number, its generation; what an older one still says is not
heard.
"""

from __future__ import annotations

from ..errors import OutfitterError, SessionExpired
from . import retry

CONNECTED, RECOVERING, FAILED = "connected", "recovering", "failed"

LOST, LOST_FOR_GOOD, CLOSED = "lost", "lost for good", "closed"
RESUMED, ATTEMPT_FAILED, REFUSED, TIMED_OUT = "resumed", "attempt failed", "refused", "timed out"

TABLE: dict[tuple[str, str], str] = {
    (CONNECTED, LOST): RECOVERING,
    # A transport that cannot be dialled again (stdio, memory), or a session that is another client's now.
    (CONNECTED, LOST_FOR_GOOD): FAILED,
    (CONNECTED, CLOSED): FAILED,
    (RECOVERING, ATTEMPT_FAILED): RECOVERING,
    (RECOVERING, RESUMED): CONNECTED,
    (RECOVERING, REFUSED): FAILED,
    (RECOVERING, TIMED_OUT): FAILED,
    (RECOVERING, CLOSED): FAILED,
}


CLIENT_CLOSED = "the client is closed"  # to whoever waits, or asks later


class Recovery:
    """Where one client is in the table, and what it does next."""

    __slots__ = (
        "_attempts",
        "_deadline",
        "_last_error",
        "_resumable",
        "failure",
        "generation",
        "limit",
        "reason",
        "state",
    )

    def __init__(self, *, limit: float, resumable: bool) -> None:
        self.limit = limit  # seconds that coming back may take
        self.state = CONNECTED
        self.generation = 1  # of the connection that counts
        self.reason = ""  # why the last connection ended
        self.failure: SessionExpired | None = None
        self._resumable = resumable
        self._attempts = 0
        self._deadline = 0.0
        self._last_error = ""

    def lost(self, generation: int, reason: str, now: float, *, for_good: bool = False) -> bool:
        """A connection ended. False when it is not the one that counts, which changes nothing."""
        if self.state is not CONNECTED or generation != self.generation:
            return False
        self.reason = reason
        if for_good or not self._resumable:
            self._move(LOST_FOR_GOOD)
            self._fail(reason)
            return True
        self._move(LOST)
        self._attempts = 0
        self._last_error = ""
        self._deadline = now + self.limit
        return True

    def next_attempt(self, now: float) -> float | None:
        """Seconds until the next attempt to come back; None when its time would be after the deadline."""
        assert self.state is RECOVERING
        wait = retry.delay(self._attempts)
        if now + wait >= self._deadline:
            self._move(TIMED_OUT)
            last = f" (last attempt: {self._last_error})" if self._last_error else ""
            self._fail(
                f"{self.reason}; failed to resume exec-server session: "
                f"recovery timed out after {self.limit:g}s{last}"
            )
            return None
        return wait

    def left(self, now: float) -> float:
        """Seconds that an attempt may take."""
        return max(0.0, self._deadline - now)

    def begin_attempt(self) -> int:
        """A new connection is dialled; returns its generation."""
        self._attempts += 1
        self.generation += 1
        return self.generation

    def attempt_failed(self, error: OutfitterError) -> bool:
        """Whether another attempt is made."""
        if self.state is not RECOVERING:
            return False
        self._last_error = str(error)
        if retry.retryable(error):
            self._move(ATTEMPT_FAILED)
            return True
        self._move(REFUSED)
        self._fail(f"{self.reason}; failed to resume exec-server session: {error}")
        return False

    def resumed(self) -> None:
        self._move(RESUMED)

    def close(self, error: SessionExpired | None = None) -> None:
        """The caller is done with it, or knows by other means that there is nothing to come back to."""
        if self.state is FAILED:
            self.failure = error or self.failure
        else:
            self._move(CLOSED)
            self.failure = error or SessionExpired(CLIENT_CLOSED)

    def _move(self, event: str) -> None:
        self.state = TABLE[self.state, event]

    def _fail(self, text: str) -> None:
        self.failure = SessionExpired(text)
