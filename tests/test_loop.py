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
