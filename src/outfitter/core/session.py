"""Who holds a session: attach, detach, resume, expire, as one table. Time is an argument.

    created ──attach──▶ attached ──detach(now)──▶ detached ──resume──▶ attached
                                                     │
                                                     └─ now ≥ deadline ─▶ expired (forgotten)

A session belongs to one principal: for another one it does not exist, whoever holds it. It is attached to at
most one connection; nobody but its holder learns that it exists, except by knowing its id, which is
unguessable.
"""

from __future__ import annotations

from ..refusals import Refused, SessionAttached

FOREVER = float("inf")  # the deadline of a session that something still runs in


class SessionBook:
    """All sessions of a server by id, with their principal, and their holder or their deadline."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owners: dict[str, str] = {}
        self._holders: dict[str, object] = {}
        self._deadlines: dict[str, float] = {}  # the one that was detached last comes last

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def held(self) -> int:
        """How many have a holder."""
        return len(self._holders)

    def create(self, session_id: str, holder: object, owner: str) -> None:
        """A new session of `owner`, held by `holder`. Raises Refused at the limit."""
        if len(self._owners) >= self._limit:
            raise Refused(
                f"this exec-server already keeps {self._limit} sessions; close one, or start it with a "
                "larger --max-sessions"
            )
        self._owners[session_id] = owner
        self._holders[session_id] = holder

    def check(self, session_id: str, owner: str, now: float) -> None:
        """Raises Refused when this principal has no such session (any more)."""
        if self._owners.get(session_id) != owner or self._deadlines.get(session_id, FOREVER) <= now:
            raise Refused(f"unknown session id {session_id}")

    def resume(self, session_id: str, holder: object, owner: str, now: float) -> None:
        """Gives a detached session to `holder`.

        Raises Refused as `check` does, SessionAttached while somebody holds it.
        """
        self.check(session_id, owner, now)
        if session_id in self._holders:
            raise SessionAttached(session_id)
        del self._deadlines[session_id]
        self._holders[session_id] = holder

    def holder(self, session_id: str) -> object | None:
        return self._holders.get(session_id)

    def detach(self, session_id: str, holder: object, deadline: float) -> bool:
        """`holder` lost its connection: the session expires at `deadline`.

        False when `holder` does not hold it (any more), which changes nothing.
        """
        if session_id not in self._holders or self._holders[session_id] != holder:
            return False
        del self._holders[session_id]
        self._deadlines[session_id] = deadline
        return True

    def postpone(self, session_id: str, deadline: float) -> None:
        """Another deadline, for a session that is detached."""
        if session_id in self._deadlines:
            self._deadlines[session_id] = deadline

    def detached(self) -> list[str]:
        """The sessions that nobody holds, in the order in which they were left."""
        return list(self._deadlines)

    def deadline(self, session_id: str) -> float | None:
        """When a session without a holder will expire."""
        return self._deadlines.get(session_id)

    def adopt(self, session_id: str, owner: str, deadline: float) -> None:
        """A session without a holder, until then; one that is known is kept at least so long."""
        self._owners[session_id] = owner
        self._deadlines[session_id] = max(deadline, self._deadlines.get(session_id, deadline))

    def expire(self, now: float) -> list[str]:
        """Forgets and returns the sessions whose time is up."""
        over = [ident for ident, deadline in self._deadlines.items() if deadline <= now]
        for ident in over:
            self.forget(ident)
        return over

    def next_deadline(self) -> float | None:
        """When the next one expires; None when none will."""
        first = min(self._deadlines.values(), default=FOREVER)
        return None if first == FOREVER else first

    def forget(self, session_id: str) -> None:
        self._owners.pop(session_id, None)
        self._holders.pop(session_id, None)
        self._deadlines.pop(session_id, None)
