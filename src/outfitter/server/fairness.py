"""Fair turns on our own loop: with several principals, each turn of the loop serves one of them.

Whose a descriptor or a callback is, the object says whose method is called: its `principal`. What is nobody's
(the listener, signals, threads, timers) is served in every turn. Made when a second principal is there;
before that the loop does not know about it.
"""

from __future__ import annotations

import time

from ..core.turns import Turns
from ..loop import principal_of, run_handle
from ..stdlib import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import EpollLoop, _Handle

    Event = tuple[int, int]


class FairTurns:
    """Takes over what waits for events, and what runs callbacks that are due."""

    def __init__(self, loop: EpollLoop, clock: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._clock = clock
        self._poll = loop.poll
        self._turns = Turns()
        self._callbacks: dict[str, deque[_Handle]] = {}  # which wait for their principal's turn
        self._due: list[_Handle] = []
        self._serves = ""  # whose turn it is
        self._since = 0.0
        self._count = 0
        loop.takes_turns = True
        loop.poll = self.poll
        loop.run_ready = self.run_ready

    def poll(self, timeout: float) -> list[Event]:
        """What is ready of the principal whose turn it is, and of nobody's."""
        if self._serves:
            self._turns.took(self._serves, self._clock() - self._since, self._count)
        waiting = self._loop.by_principal(self._poll(0.0 if self._callbacks else timeout))
        chosen = waiting.pop("", [])
        if not waiting and not self._callbacks:
            self._serves = ""
            return chosen
        serves = self._serves = self._turns.next({**self._callbacks, **waiting})
        most = self._turns.size(serves)
        self._take_callbacks(serves, most)
        # At least one: nobody keeps its own connections from being heard.
        chosen += waiting.get(serves, ())[: max(1, most - len(self._due))]
        self._count = max(1, len(chosen) + len(self._due))
        self._since = self._clock()
        return chosen

    def _take_callbacks(self, principal: str, most: int) -> None:
        """They came first, and run in this turn: after the events, as always."""
        callbacks = self._callbacks.get(principal)
        if callbacks is None:
            return
        due = self._due = [callbacks.popleft() for _ in range(min(most, len(callbacks)))]
        if not callbacks:
            del self._callbacks[principal]
        self._loop.put_first(due)

    def run_ready(self) -> None:
        """Runs callbacks that are due, or nobody's; others wait for the turn of their principal."""
        due, self._due = len(self._due), []
        for place, handle in enumerate(self._loop.take_ready()):
            principal = "" if place < due else principal_of(handle.callback)
            if not principal:
                run_handle(handle)
            elif principal in self._callbacks:
                self._callbacks[principal].append(handle)
            else:
                self._callbacks[principal] = deque((handle,))
