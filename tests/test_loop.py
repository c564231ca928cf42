"""The loop of `outfitter serve`: timers of any length, failures that stay with whoever failed."""

from __future__ import annotations

import errno
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
    stalls: list[float] = []
    loop.on_stall = stalls.append

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
    assert stalls == [0.375, 0.5, 1.0]


# A kernel that has nothing left


class Poor:
    """An epoll without memory for its next changes."""

    def __init__(self, real: Any, failures: int) -> None:
        self._real = real
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _changed(self, name: str, *args: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENOMEM, "no memory")
        getattr(self._real, name)(*args)

    def register(self, fd: int, mask: int) -> None:
        self._changed("register", fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._changed("modify", fd, mask)

    def unregister(self, fd: int) -> None:
        self._changed("unregister", fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_watch_without_memory_begins_when_there_is_some(
    failures: int, loop: EpollLoop, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_epoll", Poor(loop.epoll, failures))
    seen: list[bytes] = []

    def read() -> None:
        seen.append(os.read(pipe[0], 10))
        loop.stop()

    loop.add_reader(pipe[0], read)
    os.write(pipe[1], b"x")
    loop.call_later(20 * SECOND, loop.stop)
    loop.run()
    assert seen == [b"x"]


def test_watch_that_could_not_be_ended_calls_nobody_and_ends(
    loop: EpollLoop, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = Poor(loop.epoll, 0)
    monkeypatch.setattr(loop, "_epoll", poor)
    loop.add_reader(pipe[0], fail)
    poor.failures = 1
    assert loop.remove_reader(pipe[0])
    os.write(pipe[1], b"x")
    loop.call_later(0.1 * SECOND, loop.stop)  # after it was mended
    loop.run()
    with pytest.raises(FileNotFoundError):
        loop.epoll.modify(pipe[0], 1)


def test_watch_that_could_not_be_ended_can_begin_again(
    loop: EpollLoop, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = Poor(loop.epoll, 0)
    monkeypatch.setattr(loop, "_epoll", poor)
    loop.add_reader(pipe[0], fail)
    poor.failures = 1
    loop.remove_reader(pipe[0])
    loop.add_reader(pipe[0], loop.stop)
    os.write(pipe[1], b"x")
    loop.run()


def test_descriptor_that_was_closed_can_be_let_go(loop: EpollLoop) -> None:
    reading, writing = os.pipe()
    loop.add_reader(reading, fail)
    os.close(reading)
    os.close(writing)
    assert loop.remove_reader(reading)


def test_wait_that_fails_is_tried_again(loop: EpollLoop, caplog: pytest.LogCaptureFixture) -> None:
    real, failures = loop.poll, [OSError(errno.ENOMEM, "no memory"), MemoryError()]

    def poll(timeout: float) -> list[tuple[int, int]]:
        if failures:
            raise failures.pop()
        return real(timeout)

    loop.poll = poll
    loop.call_later(0, loop.stop)
    loop.run()
    assert caplog.text.count("cannot wait for events now") >= 1


def test_stopped_loop_can_be_run_again(loop: EpollLoop) -> None:
    seen: list[str] = []
    for name in ("first", "second"):
        loop.call_soon(seen.append, name)
        loop.call_soon(loop.stop)
        loop.run()
    assert seen == ["first", "second"]
