"""The loop of `outfitter serve`: timers of any length, failures that stay with whoever failed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from outfitter import loop as module
from outfitter.loop import EpollLoop
from tests.support.machine import SECOND


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


def fail() -> None:
    raise ValueError("a mistake in a callback")


FAR_AWAY = """
import os, sys, threading
from outfitter.loop import EpollLoop
reading, writing = os.pipe()
loop = EpollLoop()
loop.call_later(float(sys.argv[1]), print, "too early")
loop.add_reader(reading, loop.stop)
threading.Timer(0.1, os.write, (writing, b"x")).start()  # nothing else shortens the wait
loop.run()
"""


@pytest.mark.parametrize("seconds", ["3000000", "1e12", "inf"])
def test_timer_may_be_further_away_than_the_kernel_can_wait(seconds: str) -> None:
    # In a process of its own: a loop that spins would take the tests with it.
    done = subprocess.run(
        [sys.executable, "-c", FAR_AWAY, seconds], capture_output=True, timeout=5 * SECOND, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_timers_run_in_order_and_cancelled_ones_never(loop: EpollLoop) -> None:
    seen: list[str] = []
    loop.call_later(0.02 * SECOND, seen.append, "second")
    loop.call_later(0.01 * SECOND, seen.append, "first")
    loop.call_later(0.01 * SECOND, seen.append, "never").cancel()
    loop.call_later(0.03 * SECOND, loop.stop)
    loop.run()
    assert seen == ["first", "second"]


def test_failed_callback_takes_no_other_with_it(loop: EpollLoop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    loop.call_soon(seen.append, "before")
    loop.call_soon(fail)
    loop.call_soon(seen.append, "after")
    loop.call_later(0, fail)
    loop.call_later(0, seen.append, "timer")
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.run()
    assert sorted(seen) == ["after", "before", "timer"]
    assert caplog.text.count("! a callback failed") == 2


# From other threads


def test_callback_from_a_thread_wakes_a_loop_that_sleeps(loop: EpollLoop) -> None:
    loop.allow_threads()
    ran_on: list[int] = []

    def called() -> None:
        ran_on.append(threading.get_ident())
        loop.stop()

    loop.call_later(20 * SECOND, loop.stop)  # nothing else would end it
    began = loop.time()
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(called,))
    loop.call_soon(thread.start)
    loop.run()
    thread.join()
    assert ran_on == [threading.get_ident()]
    assert loop.time() - began < 10 * SECOND


def test_callbacks_of_many_threads_all_run_each_threads_in_order(loop: EpollLoop) -> None:
    loop.allow_threads()
    seen: dict[int, list[int]] = {}
    threads, each = 8, 500

    def called(thread: int, number: int) -> None:
        seen.setdefault(thread, []).append(number)
        if sum(map(len, seen.values())) == threads * each:
            loop.stop()

    def call(thread: int) -> None:
        for number in range(each):
            loop.call_soon_threadsafe(called, thread, number)

    callers = [threading.Thread(target=call, args=(thread,)) for thread in range(threads)]
    for caller in callers:
        caller.start()
    loop.call_later(20 * SECOND, loop.stop)
    loop.run()
    for caller in callers:
        caller.join()
    assert seen == {thread: list(range(each)) for thread in range(threads)}


def test_callback_that_comes_while_the_loop_takes_the_others_is_not_lost(
    loop: EpollLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.allow_threads()
    seen: list[str] = []

    class Interrupted(module._Handle):
        """Lets the loop have its turn just where a thread may be held up."""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            loop._woken()

    with monkeypatch.context() as patched:
        patched.setattr(module, "_Handle", Interrupted)
        loop.call_soon_threadsafe(seen.append, "came")
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.run()
    assert seen == ["came"]


def test_failed_callback_from_a_thread_takes_no_other_with_it(
    loop: EpollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.allow_threads()
    loop.call_soon_threadsafe(fail)
    loop.call_soon_threadsafe(loop.stop)
    loop.run()
    assert caplog.text.count("! a callback failed") == 1


def test_callback_for_a_loop_that_is_closed_goes_nowhere() -> None:
    loop = EpollLoop()
    loop.allow_threads()
    loop.allow_threads()  # again is as once
    loop.close()
    loop.call_soon_threadsafe(fail)


# A peer that asks again at once


class Counted:
    """An epoll whose questions are counted: those that do not wait, and those that do."""

    def __init__(self, loop: EpollLoop) -> None:
        self._epoll = loop._epoll
        self.looks: list[float] = []

    def poll(self, timeout: float) -> Any:
        self.looks.append(timeout)
        return self._epoll.poll(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


@pytest.fixture
def counted(loop: EpollLoop, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(loop)
    monkeypatch.setattr(loop, "_epoll", counted)
    monkeypatch.setattr(loop, "_may_look", True)
    monkeypatch.setattr(module, "_LOOKS_PER_SECOND", 7 / module._LOOK_SECONDS + 1)
    return counted


def test_a_peer_that_asked_again_at_once_is_looked_for_before_the_loop_sleeps(
    loop: EpollLoop, counted: Counted
) -> None:
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.answered()
    loop.answered()
    loop.run()
    assert counted.looks[:7] == [0] * 7
    assert counted.looks[7] > 0  # and then it sleeps, and does not look again
    assert counted.looks.count(0) == 7


def test_one_that_takes_its_time_is_not_looked_for(
    loop: EpollLoop, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.answered()
    monkeypatch.setattr(loop, "_answered", loop._answered - 1)
    loop.answered()
    loop.call_later(0.01 * SECOND, loop.stop)
    loop.run()
    assert 0 not in counted.looks


def test_what_comes_while_it_looks_is_served(loop: EpollLoop, counted: Counted) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        loop.add_reader(reading, loop.stop)
        loop.answered()
        loop.answered()
        loop.run()
        assert counted.looks == [0]
    finally:
        os.close(reading)
        os.close(writing)


def test_it_goes_on_looking_after_something_came_but_not_for_longer(
    loop: EpollLoop, counted: Counted
) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"xx")
        loop.add_reader(reading, lambda: os.read(reading, 1))
        loop.call_later(0.02 * SECOND, loop.stop)
        loop.answered()
        loop.answered()
        loop.run()
        assert counted.looks[:7] == [0] * 7
        assert counted.looks.count(0) == 7
    finally:
        os.close(reading)
        os.close(writing)


def test_how_soon_and_how_long_is_the_callers_to_say(
    loop: EpollLoop, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.answered()
    monkeypatch.setattr(loop, "_answered", loop._answered - 1)
    loop.answered(within=2, look=2 * module._LOOK_SECONDS)
    loop.call_later(0.01 * SECOND, loop.stop)
    loop.run()
    assert counted.looks.count(0) == 14


def test_with_one_processor_it_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    loop = EpollLoop()
    loop.answered()
    loop.answered()
    assert loop._looks == 0
    loop.close()


# What can wait


class Pipe:
    """A pipe whose reader notes a name each time it is called, and takes one byte."""

    def __init__(self, loop: EpollLoop, name: str, seen: list[str]) -> None:
        self.reading, self.writing = os.pipe()
        self._name = name
        self._seen = seen
        loop.add_reader(self.reading, self._called)

    def _called(self) -> None:
        os.read(self.reading, 1)
        self._seen.append(self._name)

    def put(self, count: int = 1) -> None:
        os.write(self.writing, bytes(count))

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def much(loop: EpollLoop, seen: list[str]) -> Iterator[Pipe]:
    """More than is ever taken of it, and it can wait."""
    pipe = Pipe(loop, "much", seen)
    pipe.put(10_000)
    loop.can_wait(pipe.reading)
    yield pipe
    pipe.close()


@pytest.fixture
def little(loop: EpollLoop, seen: list[str]) -> Iterator[Pipe]:
    pipe = Pipe(loop, "little", seen)
    yield pipe
    pipe.close()


def turns(loop: EpollLoop, count: int) -> None:
    """Runs the loop so many times; nothing may keep it waiting."""
    for _ in range(count):
        loop.call_soon(loop.stop)
        loop._stopping = False
        loop.run()


def test_what_can_wait_comes_after_what_is_ready_with_it(
    loop: EpollLoop, seen: list[str], much: Pipe, little: Pipe
) -> None:
    turns(loop, 1)  # the kernel tells of what was ready first, first
    little.put(2)
    turns(loop, 2)
    assert seen == ["much", "little", "much", "little", "much"]


def test_it_gets_one_turn_while_somebody_is_in_a_hurry(
    loop: EpollLoop, seen: list[str], much: Pipe, little: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    assert loop.hurry() == 1
    little.put(3)
    turns(loop, 6)
    assert seen == ["little", "much", "little", "little"]
    loop.hurry()  # another one, while it is set aside
    turns(loop, 2)
    assert seen.count("much") == 1


def test_it_is_back_when_the_short_thing_has_ended(
    loop: EpollLoop, seen: list[str], much: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    loop.hurry()
    turns(loop, 3)
    loop.expect()
    turns(loop, 1)  # which does not wait, because something else is to be done
    assert seen == ["much"]
    loop.call_later(0.02 * SECOND, loop.stop)
    loop._stopping = False
    loop.run()
    assert len(seen) > 2


def test_it_is_back_at_once_where_the_loop_cannot_wait_a_moment(
    loop: EpollLoop, seen: list[str], much: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    monkeypatch.setattr(loop, "_selectable", False)  # as in a process with a thousand descriptors
    loop.hurry()
    turns(loop, 3)
    assert seen == ["much"]
    loop.expect()
    turns(loop, 2)
    assert seen == ["much"] * 3


def test_it_is_back_when_the_short_thing_was_not_short(loop: EpollLoop, seen: list[str], much: Pipe) -> None:
    loop.hurry()
    loop.call_later(0.05 * SECOND, loop.stop)
    loop.run()
    assert len(seen) > 2


def test_whoever_was_told_something_is_waited_for_a_moment(
    loop: EpollLoop, seen: list[str], much: Pipe, little: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXPECT_SECONDS", 5 * SECOND)
    threading.Timer(0.05, little.put).start()
    loop.call_later(0.2 * SECOND, loop.stop)
    loop.expect()
    loop.run()
    assert seen[:2] == ["little", "much"]  # nothing of what can wait before
    assert len(seen) > 2  # and no more waiting after


def test_but_not_for_longer_if_he_says_nothing(loop: EpollLoop, seen: list[str], much: Pipe) -> None:
    loop.expect()
    loop.call_later(0.05 * SECOND, loop.stop)
    loop.run()
    assert len(seen) > 2


def test_one_that_brings_little_rests_but_not_beside_another(
    loop: EpollLoop, seen: list[str], much: Pipe, little: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXPECT_SECONDS", 5 * SECOND)
    threading.Timer(0.05, little.put).start()
    loop.call_later(0.2 * SECOND, loop.stop)
    loop.rest()
    loop.run()
    assert seen[:2] == ["little", "much"]
    loop.hurry()
    loop.rest()
    assert not loop._expecting  # somebody else says when it is over
    loop._hurrying = False
    other = Pipe(loop, "other", seen)
    loop.can_wait(other.reading)
    loop.rest()
    assert not loop._expecting
    loop.remove_reader(other.reading)
    other.close()


def test_end_of_one_that_is_set_aside_is_seen(loop: EpollLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    reading, writing = os.pipe()
    taken: list[bytes] = []

    def read() -> None:
        data = os.read(reading, 4)
        taken.append(data)
        if not data:
            loop.remove_reader(reading)

    loop.add_reader(reading, read)
    loop.can_wait(reading)
    os.write(writing, b"onlythis")
    loop.hurry()
    turns(loop, 2)
    assert taken == [b"only"]
    os.close(writing)
    turns(loop, 3)
    assert taken == [b"only", b"this", b""]
    os.close(reading)
    assert loop.hurry() == 0


def test_a_descriptor_whose_reader_is_removed_is_like_any_other(
    loop: EpollLoop, seen: list[str], much: Pipe, little: Pipe
) -> None:
    loop.hurry()
    turns(loop, 2)
    loop.remove_reader(much.reading)
    loop.add_reader(much.reading, seen.append, "again")
    assert loop.hurry() == 0
    turns(loop, 2)
    assert seen == ["much", "again", "again"]
    loop.remove_reader(much.reading)


def test_of_many_none_is_set_aside(loop: EpollLoop, seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    monkeypatch.setattr(module, "_EXPECT_SECONDS", 60.0)
    monkeypatch.setattr(module, "_FEW", 2)
    pipes = [Pipe(loop, "much", seen) for _ in range(3)]
    for pipe in pipes:
        pipe.put(100)
        loop.can_wait(pipe.reading)
    assert loop.hurry() == 3
    turns(loop, 2)
    loop.expect()
    turns(loop, 2)
    assert len(seen) == 12
    for pipe in pipes:
        pipe.close()


def test_a_descriptor_that_is_not_watched_cannot_wait(loop: EpollLoop) -> None:
    loop.can_wait(1000)
    assert loop.hurry() == 0
    loop.expect()
    turns(loop, 1)
