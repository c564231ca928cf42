"""What a server does now and what can wait: all that looks ahead or stands aside.

`Pace` is the plain version, for any loop: nothing is delayed. `EpollPace` knows our own loop, and serves
whoever waits for something short before output that nobody waits for piece by piece. A rule is here because
it gains 15 % or more for somebody; what it gains stands beside it, measured on two cores.
"""

from __future__ import annotations

import os
import time

from .system import LINUX, processors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from .loop import EpollLoop, Timer

    class Turn(Protocol):
        def append(self, method: str, /) -> None: ...


# What is read of a command's output at a time.
READ_SIZE = 64 << 10  # a pipe's capacity; 8 KiB reads are a third as fast
# For one that fills its pipe while nobody else wants anything; the widest pipe. 840 instead of 510 MB/s.
WIDE_READ_SIZE = 1 << 20
# Reads since a peer wanted something, after which the one process that runs counts as a stream that nobody
# disturbs: 2 MB, or some ms,
_ALONE = 32
# and after which all that run do: 30 MB.
_UNDISTURBED = 512
# A read where other clients are connected, whose next request waits for it: a command now and then takes 1.6
# instead of 1.9 ms.
_ATTENTIVE = WIDE_READ_SIZE // 2


class _Nobody:
    """An application's own loop, which watches itself."""

    def append(self, method: str, /) -> None:
        pass


_NOBODY = _Nobody()


class Pace:
    """The plain version. `running` counts commands whose leader has not ended, `clients` who is connected."""

    def __init__(self) -> None:
        self.turn: Turn = _NOBODY  # gets what is handled, where the loop says which turn takes too long
        self.running = 0
        self.clients = 0
        self._quiet = 0  # reads of output since a peer wanted something

    def asked(self) -> None:
        """A peer wants something."""
        self._quiet = 0

    def answered(self) -> None:
        """A peer has its answer, and may ask again at once."""

    def fetched(self) -> None:
        """A peer has what another server answered, and may ask for the next at once."""

    def wrote(self) -> None:
        """Somebody wrote to a command, which may answer at once."""

    def started(self) -> None:
        """A command was started, which may end at once."""
        self.running += 1

    def ended(self) -> None:
        """A command has ended."""
        self.running -= 1

    def appetite(self) -> int:
        """How much output to read at a time: more while nothing but output goes on.

        Much more is far quicker for one stream, but far slower for a command beside it.
        """
        self._quiet += 1
        if self._quiet > (_ALONE if self.running < 2 else _UNDISTURBED):
            return WIDE_READ_SIZE if self.clients < 2 else _ATTENTIVE
        return READ_SIZE

    def much(self, fd: int) -> None:
        """What this descriptor brings is much, and nobody waits for each piece of it."""


# Between two answers to a peer that asks again at once: several times what a round trip takes.
_AT_ONCE_SECONDS = 0.0003
# How long its next request is looked for: 0.069 instead of 0.083 ms for a file's metadata,
_LOOK_SECONDS = 0.00005
# and the echo of what was written: 0.091 instead of 0.117 ms.
_ECHO_SECONDS = 0.00015
# How long the next request to another server is looked for, and then its answer, where both come at once. A
# small one takes 0.17 instead of 0.28 ms. A processor that sleeps takes up to 0.05 ms to wake, and a client
# as long to ask again; so with 0.1 ms for both together, every second wait ended in vain. A server that takes
# longer than a series may is never looked for.
_FETCH_SECONDS = 0.00015
_FETCH_WAITS = 2
# Between these looks the processor is lent to whoever waits for it. That may be the other server, which could
# not answer else: without lending, looking gains nothing. Where others keep the processor for longer than so,
# nobody looks for as many times that long: what is lost is a fiftieth at most.
_LENT_SECONDS, _CROWDED_TIMES = 0.0003, 50
# A client that starts a command less than so long after the last one runs a series of short ones, one at a
# time: the end of the next is looked for, for so long. `true` takes 0.67 instead of 0.79 ms, with a client
# that acknowledges at once 0.65. Through a relay, where a round takes 1.1 to 1.4 ms, it takes 1.15 instead of
# 1.35; with 1.2 ms here a slow round ended the series, and so made the next one slow.
_SERIES_SECONDS = 0.0025
_COMMAND_SECONDS = 0.0005
_LOOKS_PER_SECOND = 1_600_000
# How long streams wait for the end of a command that was started: twice what a short one takes. They go on
# beside one that takes longer. p95 of a command beside a stream: 1.29 instead of 1.60 ms.
_SHORT_SECONDS = 0.0015
_FEW = 16  # descriptors that can wait; to set more of them aside would take as long as it gains
# What all streams together may read beside a command that was just started, before they wait for its end. As
# much as there is time for while a short command runs on another processor: 155 MB/s beside one every 0.8 ms.
# With 64 KiB its p95 is a tenth less, and the stream half as fast.
_TURN = 144 << 10


class EpollPace(Pace):
    """For our own loop, whose `poll` it takes over."""

    def __init__(self, loop: EpollLoop) -> None:
        super().__init__()
        self.turn = loop.turn
        self._loop = loop
        self._epoll = loop.epoll
        self._bulk = loop.can_wait
        self._last: list[tuple[int, int]] = []
        self._answered = 0.0
        self._looks = 0
        self._loans = 0  # waits during which it is looked and lent
        self._crowded_until = 0.0
        self._hurrying = False  # what can wait is set aside after its next turn
        self._aside: Timer | None = None  # brings it back, while it is
        self._turns = self._turn = 0  # reads that are left to others beside a new command, and their size
        # With one processor the peer could not ask again while we look; elsewhere, a look takes too long.
        self._may_look = LINUX and processors() > 1
        loop.poll = self.poll

    # Looking ahead: to be woken takes as long as to answer.

    def answered(self) -> None:
        self._look(_LOOK_SECONDS)

    def fetched(self) -> None:
        now = time.monotonic()
        again = self._may_look and now - self._answered < _SERIES_SECONDS
        self._loans = _FETCH_WAITS if again and now >= self._crowded_until else 0
        self._answered = now

    def wrote(self) -> None:
        self._look(_ECHO_SECONDS)

    def _look(self, seconds: float, within: float = _AT_ONCE_SECONDS) -> None:
        """What comes is looked for before we sleep, for so long in all.

        But only if the last answer was a moment ago: somebody who asks now and then gains nothing, and what
        he has started would rather have our processor.
        """
        now = time.monotonic()
        again = self._may_look and now - self._answered < within
        self._looks = int(seconds * _LOOKS_PER_SECOND) if again else 0
        self._answered = now

    def _lend(self) -> list[tuple[int, int]]:
        """Looks for a while, and lends the processor after each look in vain."""
        self._loans -= 1
        poll, clock = self._epoll.poll, time.monotonic
        now = clock()
        end = now + _FETCH_SECONDS
        while now < end:
            events = poll(0)
            if events:
                return events
            os.sched_yield()
            before, now = now, clock()
            if now - before > _LENT_SECONDS:
                self._crowded_until = now + _CROWDED_TIMES * (now - before)
        self._loans = 0  # who has not come may take long
        return []

    # Standing aside

    def started(self) -> None:
        if self.running:
            turns = self._turns = len(self._bulk)
            if turns:
                self._turn = max(READ_SIZE, _TURN // turns)
            self._hurrying = 0 < turns <= _FEW
        else:
            self._look(_COMMAND_SECONDS, _SERIES_SECONDS)
        self.running += 1

    def ended(self) -> None:
        self.running -= 1
        self._hurrying = False
        if self._aside is not None:
            self._bring_back()

    def appetite(self) -> int:
        if self._turns:
            self._quiet += 1
            self._turns -= 1
            return self._turn
        if self._quiet < _ALONE:  # as most often: said here, a call less
            self._quiet += 1
            return READ_SIZE
        return super().appetite()

    def much(self, fd: int) -> None:
        self._loop.set_back(fd)

    # In place of the loop's own

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """What is ready. What can wait comes last: a command now and then beside a stream takes 1.6 instead
        of 2.2 ms."""
        if self._hurrying and any(map(self._waits, self._last)):
            self._set_aside()
            # What brings it back was not there when this was measured.
            timeout = _SHORT_SECONDS if timeout < 0 else min(timeout, _SHORT_SECONDS)
        events: list[tuple[int, int]] = []
        poll, looks = self._epoll.poll, self._looks
        if looks:
            while looks and not events:
                looks -= 1
                events = poll(0)
            self._looks = looks
        elif self._loans:
            events = self._lend()
        events = events or poll(timeout)
        if self._bulk and len(events) > 1:
            events.sort(key=self._waits)
        self._last = events
        return events

    def _waits(self, event: tuple[int, int]) -> bool:
        return event[0] in self._bulk

    def _set_aside(self) -> None:
        self._hurrying = False
        if self._aside is None:
            self._aside = self._loop.call_later(_SHORT_SECONDS, self._bring_back)
            self._loop.listen(self._bulk, False)

    def _bring_back(self) -> None:
        if self._aside is not None:
            self._aside.cancel()
            self._aside = None
            self._loop.listen(self._bulk, True)
