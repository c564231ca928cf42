"""How many of something run at a time on the whole server, and how many of each principal; others wait."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..core.quotas import Quota
    from ..loop import Loop

    class Entrant(Protocol):
        """Who wants to begin something, one connection's of a kind."""

        @property
        def principal(self) -> str: ...
        def start(self) -> None:
            """There may be room now: `enter` again."""


class Room:
    """Whoever finds no room is told when there may be some; all are, in the order they came."""

    def __init__(self, loop: Loop, quota: Quota) -> None:
        self._loop = loop
        self._quota = quota
        self._waiting: dict[Entrant, None] = {}

    def enter(self, one: Entrant) -> bool:
        """Whether one more may begin now."""
        if not self._quota.allows(one.principal):
            self._waiting[one] = None
            return False
        self._quota.take(one.principal)
        return True

    def leave(self, principal: str) -> None:
        """Something has ended."""
        self._quota.give(principal)
        waiting, self._waiting = self._waiting, {}
        for one in waiting:
            self._loop.call_soon(one.start)

    def forget(self, one: Entrant) -> None:
        """It does not want to any more."""
        self._waiting.pop(one, None)
