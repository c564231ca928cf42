"""What a server does now and what can wait: all that looks ahead or stands aside.

`Pace` is the plain version, for any loop: nothing is delayed. `EpollPace` knows our own loop, and serves
whoever waits for something short before output that nobody waits for piece by piece.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import EpollLoop, Timer

# What is read of a command's output at a time.
READ_SIZE = 64 << 10  # a pipe's capacity; 8 KiB reads are a third as fast
SHARED_READ_SIZE = 32 << 10  # a quarter slower, and a quarter less to wait for a peer beside it
WIDE_READ_SIZE = 1 << 20  # for one that fills its pipe while nobody else wants anything; the widest pipe
# Reads since a peer wanted something, after which what it wanted is probably over,
_QUIET = 32
# after which the one process that runs counts as a stream that nobody disturbs: 3 MB, or some ms,
_ALONE = 64
# and after which all that run do: 30 MB.
_UNDISTURBED = 512
# A read where other clients are connected, whose next request waits for it: 1.5 instead of 1.9 ms for a
# command now and then, and the stream 6 % slower.
_ATTENTIVE = WIDE_READ_SIZE // 2


class Pace:
    """The plain version. `running` counts commands whose leader has not ended."""

    def __init__(self) -> None:
        self.running = 0
        self.clients = 0
        self._quiet = 0  # reads of output since a peer wanted something

    def asked(self) -> None:
        """A peer wants something."""
        self._quiet = 0

    def answered(self) -> None:
        """A peer has its answer, and may ask again at once."""

    def wrote(self) -> None:
        """Somebody wrote to a command, which may answer at once."""

    def started(self) -> None:
        """A command was started, which may end at once."""
        self.running += 1

    def ended(self) -> None:
        """A command has ended, and its client may start another."""
        self.running -= 1

    def appetite(self) -> int:
        """How much output to read at a time: more while nothing but output goes on.

        Much more is half as fast again for one stream, but far slower for a command beside it.
        """
        self._quiet += 1
        if self._quiet > (_ALONE if self.running < 2 else _UNDISTURBED):
            return WIDE_READ_SIZE if self.clients < 2 else _ATTENTIVE
        return READ_SIZE if self._quiet > _QUIET else SHARED_READ_SIZE

    def much(self, fd: int) -> None:
        """What this descriptor brings is much, and nobody waits for each piece of it."""

    def little(self) -> None:
        """A stream has brought little."""


# Between two answers to a peer that asks again at once: several times what a round trip takes.
_AT_ONCE_SECONDS = 0.0003
_LOOK_SECONDS = 0.00005  # lost when it does not
_LOOKS_PER_SECOND = 1_600_000
# A client that starts a command less than so long after the last one runs a series of short ones: the end of
# the next is looked for, for so long, before the loop sleeps. And so is the echo of what is written.
_SERIES_SECONDS = 0.0012
_COMMAND_SECONDS = 0.0005
_ECHO_SECONDS = 0.00015
# How long what can wait is set aside for somebody who was told the end of a command to ask for the next: a
# client in Python takes 60 to 120 µs where the processors are busy.
_EXPECT_SECONDS = 0.0001
# How long it waits for the end of a command that was started: twice what a short one takes. It goes on beside
# one that takes longer.
_SHORT_SECONDS = 0.0015
_FEW = 16  # descriptors that can wait; to set more of them aside would take as long as it gains
_SELECTABLE = 1024  # select takes no descriptor from here on
# What all streams together may read beside a command that was just started, before they wait for its end. As
# much as there is time for while a short command runs on another processor: 170 MB/s beside one every 0.8 ms.
# With 64 KiB its p95 is a tenth less, and the stream half as fast.
_TURN = 144 << 10


class EpollPace(Pace):
    """For our own loop, whose `poll` it takes over."""

    def __init__(self, loop: EpollLoop) -> None:
        super().__init__()
        self._loop = loop
        self._epoll = loop.epoll
        self._bulk = loop.can_wait
        self._last: list[tuple[int, int]] = []
        self._answered = 0.0
        self._looks = 0
        self._hurrying = False  # what can wait is set aside after its next turn
        self._expecting = False  # it is set aside for a moment
        self._aside: Timer | None = None  # brings it back, while it is
        self._turns = self._turn = 0  # reads that are left to others beside a new command, and their size
        self._selectable = self._epoll.fileno() < _SELECTABLE
        # With one processor the peer could not ask again while we look.
        self._may_look = len(os.sched_getaffinity(0)) > 1
        loop.poll = self.poll

    # Looking ahead: to be woken takes as long as to answer.

    def answered(self) -> None:
        self._look(_AT_ONCE_SECONDS, _LOOK_SECONDS)

    def wrote(self) -> None:
        self._look(_AT_ONCE_SECONDS, _ECHO_SECONDS)

    def _look(self, within: float, seconds: float) -> None:
        """What comes is looked for before we sleep, for so long in all.

        But only if the last answer was `within` so many seconds: somebody who asks now and then gains
        nothing, and what he has started would rather have our processor.
        """
        now = time.monotonic()
        if self._may_look and now - self._answered < within:
            self._looks = int(seconds * _LOOKS_PER_SECOND)
        else:
            self._looks = 0
        self._answered = now

    # Standing aside

    def started(self) -> None:
        if self.running:
            count = len(self._bulk)
            self._hurrying = 0 < count <= _FEW
            self._turns = count
            self._turn = max(SHARED_READ_SIZE, _TURN // count) if count else 0
        self.running += 1
        if self.running == 1:
            self._look(_SERIES_SECONDS, _COMMAND_SECONDS)

    def ended(self) -> None:
        self.running -= 1
        if self.running:
            # Its client may start another, before the output of others goes on.
            self._hurrying = False
            self._expecting = 0 < len(self._bulk) <= _FEW and self._selectable
            if not self._expecting:
                self._bring_back()

    def appetite(self) -> int:
        if self._turns:
            self._quiet += 1
            self._turns -= 1
            return self._turn
        return super().appetite()

    def much(self, fd: int) -> None:
        self._loop.set_back(fd)

    def little(self) -> None:
        # It is left alone for a moment, and brings more at a time. Only while there is one: another would
        # have to wait as well.
        if len(self._bulk) == 1 and not self._hurrying:
            self._expecting = self._selectable

    # In place of the loop's own

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """What is ready; what can wait comes last."""
        if self._hurrying and any(map(self._waits, self._last)):
            self._set_aside()
            # What brings it back was not there when this was measured.
            timeout = _SHORT_SECONDS if timeout < 0 else min(timeout, _SHORT_SECONDS)
        events: list[tuple[int, int]] = []
        if self._looks:
            looks = self._looks
            poll = self._epoll.poll
            while looks:
                looks -= 1
                events = poll(0)
                if events:
                    break
            self._looks = looks
        elif self._expecting and timeout:
            events = self._expected()
        events = events or self._epoll.poll(timeout)
        if self._bulk and len(events) > 1:
            events.sort(key=self._waits)
        self._last = events
        return events

    def _waits(self, event: tuple[int, int]) -> bool:
        return event[0] in self._bulk

    def _expected(self) -> list[tuple[int, int]]:
        """What is ready, as soon as there is more than what can wait, or when that has waited long enough."""
        self._set_aside()
        # Its time is in microseconds, unlike epoll's.
        select.select((self._epoll,), (), (), _EXPECT_SECONDS)
        self._bring_back()
        return self._epoll.poll(0)

    def _set_aside(self) -> None:
        self._hurrying = False
        if self._aside is None:
            self._aside = self._loop.call_later(_SHORT_SECONDS, self._bring_back)
            self._loop.listen(self._bulk, False)

    def _bring_back(self) -> None:
        self._expecting = False
        if self._aside is not None:
            self._aside.cancel()
            self._aside = None
            self._loop.listen(self._bulk, True)
