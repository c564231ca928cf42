"""Who holds a session: attach, detach, resume, expire, as one table. Time is an argument.

    created ──attach──▶ attached ──detach(now)──▶ detached ──resume──▶ attached
                                                     │
                                                     └─ now ≥ deadline ─▶ expired (forgotten)

A session is attached to at most one connection; nobody but its holder learns that it exists, except by
knowing its id, which is unguessable.
"""

from __future__ import annotations

from ..errors import Refused, SessionAttached


class SessionBook:
    """All sessions of a server by id, with their holder or their deadline."""

    def __init__(self, retention: float, limit: int) -> None:
        self._retention = retention
        self._limit = limit
        self._holders: dict[str, object] = {}
        self._deadlines: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._holders) + len(self._deadlines)

    @property
    def held(self) -> int:
        """How many have a holder."""
        return len(self._holders)

    def create(self, session_id: str, holder: object) -> None:
        """A new session held by `holder`. Raises Refused at the limit."""
        if len(self) >= self._limit:
            raise Refused(
                f"this exec-server already keeps {self._limit} sessions; close one, or start it with a "
                "larger --max-sessions"
            )
        self._holders[session_id] = holder

    def resume(self, session_id: str, holder: object, now: float) -> None:
        """Gives a detached session to `holder`.

        Raises SessionAttached while somebody holds it, Refused when there is none (any more).
        """
        if session_id in self._holders:
            raise SessionAttached(session_id)
        deadline = self._deadlines.get(session_id)
        if deadline is None or deadline <= now:
            raise Refused(f"unknown session id {session_id}")
        del self._deadlines[session_id]
        self._holders[session_id] = holder

    def holder(self, session_id: str) -> object | None:
        return self._holders.get(session_id)

    def detach(self, session_id: str, holder: object, now: float) -> float | None:
        """`holder` lost its connection: returns when the session will expire.

        None when `holder` does not hold it (any more), which changes nothing.
        """
        if session_id not in self._holders or self._holders[session_id] != holder:
            return None
        del self._holders[session_id]
        self._deadlines[session_id] = now + self._retention
        return self._deadlines[session_id]

    def expire(self, now: float) -> list[str]:
        """Forgets and returns the sessions whose time is up."""
        over = [ident for ident, deadline in self._deadlines.items() if deadline <= now]
        for ident in over:
            del self._deadlines[ident]
        return over

    def next_deadline(self) -> float | None:
        return min(self._deadlines.values(), default=None)

    def forget(self, session_id: str) -> None:
        self._holders.pop(session_id, None)
        self._deadlines.pop(session_id, None)
