"""Ends a server that nobody holds: after so many seconds without a byte from a client, the server and all its
commands end. Who has started it elsewhere can then rely on that time, without reaching it.

The seconds are counted by CLOCK_BOOTTIME, which goes on while a machine sleeps. The clock is looked at
whenever the loop wakes, before it does anything else, and before each start of a command: what a server was
asked before it froze is not done when it thaws.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import EpollLoop

# A fence is at least so many pings long, so that a client is not given up for one that got lost.
BEATS = 4
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class FenceReached(Exception):
    """Nobody has held the server for long enough."""


class Fence:
    """`heard` says when the last byte came from a client, by the loop's clock."""

    def __init__(
        self,
        loop: EpollLoop,
        seconds: float,
        heard: Callable[[], float],
        now: Callable[[], float] = lambda: time.clock_gettime(_CLOCK),
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._heard = heard
        self._now = now
        self._ahead = now() - loop.time()  # of the loop's clock, which stands still while the machine sleeps
        self._deadline = 0.0  # not before
        self._often = min(1.0, seconds / BEATS)  # the machine may sleep meanwhile
        loop.call_later(self._often, self._wake)

    def watch(self) -> None:
        """Looks at the clock after every wait of the loop, which then raises FenceReached."""
        wait = self._loop.poll

        def poll(timeout: float) -> list[tuple[int, int]]:
            events = wait(timeout)
            self.check()
            return events

        self._loop.poll = poll

    def check(self) -> None:
        """Raises FenceReached."""
        now = self._now()
        if now >= self._deadline:
            # What was heard was heard before this wait: a machine that slept since has not heard it later.
            self._deadline = self._heard() + self._ahead + self._seconds
            if now >= self._deadline:
                raise FenceReached
        self._ahead = now - self._loop.time()

    def holds(self) -> bool:
        """Whether a command may be started: this server may have been frozen since it read that it is to."""
        try:
            self.check()
        except FenceReached:
            return False
        return True

    def _wake(self) -> None:
        """Has the loop wake now and then, and when the time is over."""
        left = self._heard() + self._seconds - self._loop.time()
        self._loop.call_later(min(self._often, max(left, 0.01)), self._wake)
