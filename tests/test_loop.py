"""The loop of `outfitter serve`: timers of any length, failures that stay with whoever failed."""

from __future__ import annotations

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
    loop.call_soon_threadsafe(fail)
    loop.call_soon_threadsafe(loop.stop)
    loop.run()
    assert caplog.text.count("! a callback failed") == 1


def test_callback_for_a_loop_that_is_closed_goes_nowhere() -> None:
    loop = EpollLoop()
    loop.close()
    loop.call_soon_threadsafe(fail)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_turn_that_takes_too_long_is_logged_with_what_was_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    loop = EpollLoop()

    def asked(seconds: float, *methods: str) -> None:
        loop.turn.extend(methods)
        clock.now += seconds

    steps = [
        (0.25, "not/long"),
        (0.375, "process/start"),
        (0.5,),
        (1.0, "a/a", "b/b", "b/b", "c/c", "d/d\x1b[31m\nfake"),
    ]

    def step() -> None:
        asked(*steps.pop(0))  # type: ignore[arg-type]
        if steps:
            loop.call_soon(step)
        else:
            loop.call_soon(loop.stop)

    loop.call_soon(step)
    loop.run()
    loop.close()
    said = "! nothing else was served for"
    assert [record.getMessage() for record in caplog.records] == [
        f"{said} 375 ms: process/start",
        f"{said} 500 ms: no request",
        f"{said} 1000 ms: b/b, c/c, d/d\\x1b[31m\\nfake and 1 more",
    ]
