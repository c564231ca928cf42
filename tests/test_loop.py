"""Our loop and asyncio's, under the same tests: the server cannot tell which one it runs on."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outfitter.loop import EpollLoop


class AsyncioLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with our name for running it."""

    def run(self) -> None:
        self.run_forever()


@pytest.fixture(params=[EpollLoop, AsyncioLoop])
def loop(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param()
    # A test that never stops its loop fails by its own assertion instead of by the deadline of all tests.
    guard = made.call_later(20.0, made.stop)
    yield made
    guard.cancel()
    made.close()


@pytest.fixture
def epoll() -> Iterator[EpollLoop]:
    made = EpollLoop()
    made.call_later(20.0, made.stop)
    yield made
    made.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # the test closed it


# Callbacks


def test_callbacks_run_in_the_order_they_were_queued(loop: Any) -> None:
    seen: list[object] = []
    for number in range(5):
        loop.call_soon(seen.append, number)
    loop.call_soon(loop.stop)
    loop.run()
    assert seen == [0, 1, 2, 3, 4]


def test_callbacks_get_their_arguments(loop: Any) -> None:
    seen: list[tuple[object, ...]] = []
    loop.call_soon(lambda *args: seen.append(args))
    loop.call_soon(lambda *args: seen.append(args), 1, "two")
    loop.call_soon(loop.stop)
    loop.run()
    assert seen == [(), (1, "two")]


def test_a_callback_queued_by_a_callback_runs_after_those_before_it(loop: Any) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.call_soon(third)

    def third() -> None:
        seen.append("third")
        loop.stop()

    loop.call_soon(first)
    loop.call_soon(seen.append, "second")
    loop.run()
    assert seen == ["first", "second", "third"]


def test_a_cancelled_callback_never_runs(loop: Any) -> None:
    seen: list[str] = []
    handle = loop.call_soon(seen.append, "cancelled before")
    later = loop.call_soon(seen.append, "cancelled by the one before it")
    handle.cancel()
    handle.cancel()
    loop.call_soon(loop.stop)
    later.cancel()
    loop.run()
    assert seen == []


def test_what_was_queued_before_stop_still_runs(loop: Any) -> None:
    seen: list[str] = []
    loop.call_soon(loop.stop)
    loop.call_soon(seen.append, "due")
    loop.run()
    assert seen == ["due"]


# Time


def test_timers_run_in_the_order_of_their_time(loop: Any) -> None:
    seen: list[str] = []
    loop.call_later(0.03, loop.stop)
    loop.call_later(0.02, seen.append, "c")
    loop.call_later(0.01, seen.append, "b")
    loop.call_later(0.0, seen.append, "a")
    loop.run()
    assert seen == ["a", "b", "c"]


def test_timers_of_one_delay_run_in_the_order_they_were_set(loop: Any) -> None:
    seen: list[int] = []
    for number in range(50):
        loop.call_later(0.001, seen.append, number)
    loop.call_later(0.005, loop.stop)
    loop.run()
    assert seen == list(range(50))


def test_timers_of_the_very_same_time_run_in_the_order_they_were_set(epoll: EpollLoop) -> None:
    seen: list[int] = []
    for number in range(50):
        epoll.call_later(-1e18, seen.append, number)  # so far back that the clock's digits are lost
    epoll.call_later(0.0, epoll.stop)
    epoll.run()
    assert seen == list(range(50))


def test_no_timer_runs_early(loop: Any) -> None:
    began = loop.time()
    ended = []
    loop.call_later(0.02, lambda: (ended.append(loop.time()), loop.stop()))
    loop.run()
    assert ended[0] - began >= 0.02 - 0.001  # asyncio may round by the resolution of its clock


def test_time_is_monotonic(loop: Any) -> None:
    before, now, after = time.monotonic(), loop.time(), time.monotonic()
    assert before <= now <= after


def test_a_cancelled_timer_never_runs(loop: Any) -> None:
    seen: list[str] = []
    timer = loop.call_later(0.001, seen.append, "cancelled")
    loop.call_later(0.0, timer.cancel)
    loop.call_later(0.005, loop.stop)
    loop.run()
    timer.cancel()
    assert seen == []


def test_a_timer_may_set_the_next(loop: Any) -> None:
    seen: list[int] = []

    def beat(number: int) -> None:
        seen.append(number)
        if number == 3:
            loop.stop()
        else:
            loop.call_later(0.001, beat, number + 1)

    loop.call_later(0.0, beat, 0)
    loop.run()
    assert seen == [0, 1, 2, 3]


def count(kind: type) -> int:
    return sum(type(item) is kind for item in gc.get_objects())


def test_cancelled_timers_do_not_pile_up(loop: Any) -> None:
    kind = type(loop.call_later(3600, print))
    for _ in range(20_000):
        loop.call_later(3600, print).cancel()
    if isinstance(loop, AsyncioLoop):
        loop.call_soon(loop.stop)
        loop.run()  # asyncio sweeps when it runs
    assert count(kind) < 2_000


def test_live_timers_survive_the_sweep_of_cancelled_ones(epoll: EpollLoop) -> None:
    seen: list[int] = []
    for number in range(3_000):
        epoll.call_later(3600, print).cancel()
        epoll.call_later(0.001, seen.append, number)
    epoll.call_later(0.002, epoll.stop)
    epoll.run()
    assert seen == list(range(3_000))


# Descriptors


def test_a_reader_is_called_while_there_is_something_to_read(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[bytes] = []

    def read(fd: int) -> None:
        seen.append(os.read(fd, 2))
        if len(seen) == 3:
            assert loop.remove_reader(fd) is True
            loop.stop()

    loop.add_reader(source, read, source)
    os.write(sink, b"abcde")
    loop.run()
    assert seen == [b"ab", b"cd", b"e"]


def test_a_reader_sees_the_end_of_the_file(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[bytes] = []

    def read() -> None:
        seen.append(os.read(source, 10))
        loop.remove_reader(source)
        loop.stop()

    loop.add_reader(source, read)
    os.close(sink)
    loop.run()
    assert seen == [b""]


def test_a_writer_is_called_when_there_is_room(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    written = 0
    try:
        while True:
            written += os.write(sink, bytes(65536))
    except BlockingIOError:
        pass
    seen: list[str] = []

    def write() -> None:
        seen.append("room")
        loop.remove_writer(sink)
        loop.stop()

    def drain() -> None:
        seen.append("drained")
        assert len(os.read(source, written)) > 0

    loop.add_writer(sink, write)
    loop.call_later(0.005, drain)
    loop.run()
    assert seen == ["drained", "room"]


def test_a_writer_is_called_when_the_reader_is_gone(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[type] = []

    def write() -> None:
        try:
            os.write(sink, b"x")
        except BrokenPipeError as error:
            seen.append(type(error))
        loop.remove_writer(sink)
        loop.stop()

    os.close(source)
    loop.add_writer(sink, write)
    loop.run()
    assert seen == [BrokenPipeError]


def test_removing_what_is_not_watched_says_so(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    loop.add_reader(source, print)
    loop.add_writer(sink, print)
    assert [
        loop.remove_writer(source),
        loop.remove_reader(sink),
        loop.remove_reader(source),
        loop.remove_reader(source),
        loop.remove_writer(sink),
        loop.remove_writer(sink),
    ] == [False, False, True, False, True, False]


def test_a_new_reader_takes_the_place_of_the_old(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[str] = []

    def second() -> None:
        seen.append("second")
        loop.remove_reader(source)
        loop.stop()

    loop.add_reader(source, seen.append, "first")
    loop.add_reader(source, second)
    os.write(sink, b"x")
    loop.run()
    assert seen == ["second"]


def test_both_sides_of_one_descriptor_are_watched_apart(loop: Any) -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        seen: list[str] = []

        def write() -> None:
            seen.append("write")
            loop.remove_writer(ours.fileno())
            theirs.send(b"x")

        def read() -> None:
            seen.append("read")
            loop.remove_reader(ours.fileno())
            loop.stop()

        loop.add_reader(ours.fileno(), read)
        loop.add_writer(ours.fileno(), write)
        loop.run()
        assert seen == ["write", "read"]
        # Nothing is left behind: the number can be watched again.
        loop.add_reader(ours.fileno(), read)
        assert loop.remove_reader(ours.fileno()) is True


def test_a_callback_may_remove_a_descriptor_that_is_due_as_well(loop: Any) -> None:
    pipes = [os.pipe() for _ in range(2)]
    seen: list[int] = []

    def read(index: int) -> None:
        seen.append(index)
        for source, _ in pipes:
            loop.remove_reader(source)
        loop.call_soon(loop.stop)

    for index, (source, sink) in enumerate(pipes):
        os.write(sink, b"x")
        loop.add_reader(source, read, index)
    loop.run()
    for pair in pipes:
        for fd in pair:
            os.close(fd)
    if isinstance(loop, EpollLoop):
        assert len(seen) == 1
    else:
        assert len(seen) in (1, 2)  # asyncio has queued both by then


def test_a_descriptor_closed_and_reused_is_watched_afresh(loop: Any) -> None:
    for _ in range(3):
        source, sink = os.pipe()
        seen: list[str] = []
        loop.add_reader(source, seen.append, "read")
        assert loop.remove_reader(source) is True
        os.close(source)
        os.close(sink)


# Fairness


def endless(loop: Any, stop_when: Callable[[], bool]) -> None:
    """A callback that queues itself again until something else has had its turn."""
    if stop_when():
        loop.stop()
    else:
        loop.call_soon(endless, loop, stop_when)


def test_callbacks_that_queue_callbacks_starve_no_descriptor(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[bytes] = []

    def read() -> None:
        seen.append(os.read(source, 10))
        loop.remove_reader(source)

    loop.add_reader(source, read)
    os.write(sink, b"x")
    loop.call_soon(endless, loop, lambda: bool(seen))
    loop.run()
    assert seen == [b"x"]


def test_callbacks_that_queue_callbacks_starve_no_timer(loop: Any) -> None:
    seen: list[str] = []
    loop.call_later(0.002, seen.append, "timer")
    loop.call_soon(endless, loop, lambda: bool(seen))
    loop.run()
    assert seen == ["timer"]


def test_a_busy_descriptor_starves_no_timer(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[str] = []
    os.write(sink, b"x")
    loop.add_reader(source, lambda: None)  # never read: always due
    loop.call_later(0.002, lambda: (seen.append("timer"), loop.remove_reader(source), loop.stop()))
    loop.run()
    assert seen == ["timer"]


# Faults


def fail() -> None:
    raise ValueError("a fault of a callback")


def test_a_timer_that_fails_leaves_the_others(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    loop.call_later(0.0, fail)
    loop.call_later(0.001, seen.append, "later")
    loop.call_later(0.002, loop.stop)
    loop.run()
    assert seen == ["later"]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


def test_a_reader_that_fails_leaves_the_others(loop: Any, pipe: tuple[int, int]) -> None:
    source, sink = pipe
    seen: list[str] = []

    def read() -> None:
        loop.remove_reader(source)
        loop.call_later(0.001, lambda: (seen.append("later"), loop.stop()))
        raise ValueError("a fault of a reader")

    loop.add_reader(source, read)
    os.write(sink, b"x")
    loop.run()
    assert seen == ["later"]


def test_a_callback_that_fails_leaves_those_queued_behind_it(loop: Any) -> None:
    seen: list[str] = []
    loop.call_soon(fail)
    loop.call_soon(seen.append, "behind it")
    loop.call_later(0.002, loop.stop)
    loop.run()
    assert seen == ["behind it"]
