"""What is done now and what can wait: reads that grow, looking ahead, standing aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from outfitter import pace as module
from outfitter.loop import EpollLoop
from outfitter.pace import READ_SIZE, WIDE_READ_SIZE, EpollPace, Pace
from tests.support.machine import SECOND


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


@pytest.fixture
def pace(loop: EpollLoop) -> EpollPace:
    return EpollPace(loop)


def hurry(pace: EpollPace) -> int:
    """A command is started beside another; how many descriptors can wait for it."""
    pace.running = 1
    pace.started()
    return pace._turns


def expect(pace: EpollPace) -> None:
    """A command has ended beside another."""
    pace.running = 2
    pace.ended()


# How much is read at a time


def sizes(pace: Pace, reads: int) -> list[int]:
    """The sizes of so many reads, without repetitions."""
    found: list[int] = []
    for _ in range(reads):
        size = pace.appetite()
        if not found or found[-1] != size:
            found.append(size)
    return found


def test_reads_grow_while_nobody_wants_anything(pace: EpollPace) -> None:
    for one in (pace, Pace()):
        assert sizes(one, 100) == [READ_SIZE, WIDE_READ_SIZE]
        one.asked()
        assert sizes(one, 100) == [READ_SIZE, WIDE_READ_SIZE]


def test_a_command_that_prints_some_megabytes_is_a_stream_for_most_of_them(pace: EpollPace) -> None:
    for one in (pace, Pace()):
        narrow = [size for size in (one.appetite() for _ in range(100)) if size == READ_SIZE]
        assert sum(narrow) == 2 << 20


def test_but_less_where_another_client_is_connected() -> None:
    pace = Pace()
    pace.clients = 2
    assert sizes(pace, 100)[-1] == WIDE_READ_SIZE // 2


@pytest.mark.parametrize(("streams", "size"), [(1, 144 << 10), (2, 72 << 10), (16, READ_SIZE)])
def test_streams_share_one_turn_beside_a_new_command(loop: EpollLoop, streams: int, size: int) -> None:
    pace = EpollPace(loop)
    pace.started()
    assert sizes(pace, streams) == [READ_SIZE]  # nobody else runs
    pace.asked()
    loop.can_wait.update(range(1000, 1000 + streams))
    pace.started()
    assert [pace.appetite() for _ in range(streams + 1)] == [size] * streams + [READ_SIZE]


def test_the_plain_one_counts_and_delays_nothing() -> None:
    pace = Pace()
    pace.started()
    pace.started()
    for call in (pace.answered, pace.fetched, pace.wrote, lambda: pace.much(0)):
        call()
    pace.ended()
    assert pace.running == 1


# A peer that asks again at once


class Counted:
    """An epoll whose questions are counted: those that do not wait, and those that do."""

    def __init__(self, loop: EpollLoop) -> None:
        self._epoll = loop.epoll
        self.looks: list[float] = []

    def poll(self, timeout: float) -> Any:
        self.looks.append(timeout)
        return self._epoll.poll(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


@pytest.fixture
def counted(loop: EpollLoop, pace: EpollPace, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(loop)
    monkeypatch.setattr(pace, "_epoll", counted)
    monkeypatch.setattr(pace, "_may_look", True)
    monkeypatch.setattr(module, "_LOOKS_PER_SECOND", 7 / module._LOOK_SECONDS + 1)
    return counted


def test_a_peer_that_asked_again_at_once_is_looked_for_before_the_loop_sleeps(
    loop: EpollLoop, pace: EpollPace, counted: Counted
) -> None:
    loop.call_later(0.02 * SECOND, loop.stop)
    pace.answered()
    pace.answered()
    loop.run()
    assert counted.looks[:7] == [0] * 7
    assert counted.looks[7] > 0  # and then it sleeps, and does not look again
    assert counted.looks.count(0) == 7


def test_one_that_takes_its_time_is_not_looked_for(
    loop: EpollLoop, pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace.answered()
    monkeypatch.setattr(pace, "_answered", pace._answered - 1)
    pace.answered()
    loop.call_later(0.01 * SECOND, loop.stop)
    loop.run()
    assert 0 not in counted.looks


def test_a_peer_that_fetches_is_looked_for_while_the_other_server_is_quick(
    pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    found = []
    for apart in (0.0, 0.0024, 0.0026):  # less than a series, and more
        now += apart
        pace.fetched()
        found.append(pace._loans)
    assert found == [0, 2, 0]  # waits: for the next request, and for its answer


class Clock:
    """A clock that moves while the processor is lent, and not else."""

    def __init__(self) -> None:
        self.now = 100.0
        self.loan = module._FETCH_SECONDS / 7
        self.lent = 0

    def monotonic(self) -> float:
        return self.now

    def sched_yield(self) -> None:
        self.lent += 1
        self.now += self.loan


@pytest.fixture
def clock(pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of a pace whose client fetches again and again."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(os, "sched_yield", clock.sched_yield)
    pace.fetched()
    pace.fetched()
    return clock


def test_each_of_these_looks_lends_the_processor(pace: EpollPace, counted: Counted, clock: Clock) -> None:
    assert pace.poll(0.001) == []
    assert counted.looks == [0] * clock.lent + [0.001]
    assert clock.lent in (7, 8)  # as the sevenths add up


def test_the_next_request_and_its_answer_are_looked_for_each_for_so_long(
    loop: EpollLoop, pace: EpollPace, counted: Counted, clock: Clock
) -> None:
    loop.call_soon_threadsafe(lambda: None)  # a descriptor can be read
    assert pace.poll(60) and pace.poll(60)
    assert (counted.looks, clock.lent) == ([0, 0], 0)
    assert pace.poll(60)
    assert counted.looks == [0, 0, 60]  # neither is looked for twice


def test_nothing_is_looked_for_after_a_wait_in_vain(pace: EpollPace, counted: Counted, clock: Clock) -> None:
    pace.poll(0.001)
    counted.looks.clear()
    pace.poll(0.002)
    assert counted.looks == [0.002]


def test_it_is_not_lent_for_a_while_where_others_keep_it(
    pace: EpollPace, counted: Counted, clock: Clock
) -> None:
    clock.loan = 0.002
    pace.poll(0.001)
    assert clock.lent == 1
    found = []
    for until in (49, 51):  # times as long as the loan was
        clock.now = 100.002 + until * 0.002
        pace.fetched()
        pace.fetched()
        found.append(pace._loans)
    assert found == [0, 2]


@pytest.mark.parametrize(("apart", "looks"), [(0.0024, True), (0.0026, False)])
def test_commands_through_a_relay_are_a_series_too(
    pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch, apart: float, looks: bool
) -> None:
    """A round through a relay takes 1.1 to 1.4 ms, and one slow round must not end the series."""
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    pace.started()
    pace.ended()
    now += apart
    pace.started()
    assert bool(pace._looks) is looks


def test_what_comes_while_it_looks_is_served(loop: EpollLoop, pace: EpollPace, counted: Counted) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        loop.add_reader(reading, loop.stop)
        pace.answered()
        pace.answered()
        loop.run()
        assert counted.looks == [0]
    finally:
        os.close(reading)
        os.close(writing)


def test_it_goes_on_looking_after_something_came_but_not_for_longer(
    loop: EpollLoop, pace: EpollPace, counted: Counted
) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"xx")
        loop.add_reader(reading, lambda: os.read(reading, 1))
        loop.call_later(0.02 * SECOND, loop.stop)
        pace.answered()
        pace.answered()
        loop.run()
        assert counted.looks[:7] == [0] * 7
        assert counted.looks.count(0) == 7
    finally:
        os.close(reading)
        os.close(writing)


def test_with_one_processor_it_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 1)
    loop = EpollLoop()
    pace = EpollPace(loop)
    pace.answered()
    pace.answered()
    assert pace._looks == 0
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
def much(loop: EpollLoop, pace: EpollPace, seen: list[str]) -> Iterator[Pipe]:
    """More than is ever taken of it, and it can wait."""
    pipe = Pipe(loop, "much", seen)
    pipe.put(10_000)
    pace.much(pipe.reading)
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
    loop: EpollLoop,
    pace: EpollPace,
    seen: list[str],
    much: Pipe,
    little: Pipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    assert hurry(pace) == 1
    little.put(3)
    turns(loop, 6)
    assert seen == ["little", "much", "little", "little"]
    hurry(pace)  # another one, while it is set aside
    turns(loop, 2)
    assert seen.count("much") == 1


def test_it_is_back_when_the_short_thing_has_ended(
    loop: EpollLoop, pace: EpollPace, seen: list[str], much: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    hurry(pace)
    turns(loop, 3)
    assert seen == ["much"]
    expect(pace)
    turns(loop, 2)
    assert seen == ["much"] * 3


def test_the_end_of_a_command_in_a_series_is_looked_for(
    loop: EpollLoop, pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SERIES_SECONDS", 60.0)
    pace.started()
    pace.ended()
    pace.started()
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.run()
    assert counted.looks.count(0) == 70  # ten times as long as for a request
    counted.looks.clear()
    pace.started()  # beside another
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.run()
    assert counted.looks.count(0) == 0


def test_an_echo_is_looked_for_longer(
    loop: EpollLoop, pace: EpollPace, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.call_later(0.02 * SECOND, loop.stop)
    pace.wrote()
    pace.wrote()
    loop.run()
    assert counted.looks.count(0) == int(module._ECHO_SECONDS * module._LOOKS_PER_SECOND) > 7


def test_it_is_back_when_the_short_thing_was_not_short(
    loop: EpollLoop, pace: EpollPace, seen: list[str], much: Pipe
) -> None:
    hurry(pace)
    loop.call_later(0.05 * SECOND, loop.stop)
    loop.run()
    assert len(seen) > 2


def test_end_of_one_that_is_set_aside_is_seen(
    loop: EpollLoop, pace: EpollPace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    reading, writing = os.pipe()
    taken: list[bytes] = []

    def read() -> None:
        data = os.read(reading, 4)
        taken.append(data)
        if not data:
            loop.remove_reader(reading)

    loop.add_reader(reading, read)
    pace.much(reading)
    os.write(writing, b"onlythis")
    hurry(pace)
    turns(loop, 2)
    assert taken == [b"only"]
    os.close(writing)
    turns(loop, 3)
    assert taken == [b"only", b"this", b""]
    os.close(reading)
    assert hurry(pace) == 0


def test_a_descriptor_whose_reader_is_removed_is_like_any_other(
    loop: EpollLoop, pace: EpollPace, seen: list[str], much: Pipe, little: Pipe
) -> None:
    hurry(pace)
    turns(loop, 2)
    loop.remove_reader(much.reading)
    loop.add_reader(much.reading, seen.append, "again")
    assert hurry(pace) == 0
    turns(loop, 2)
    assert seen == ["much", "again", "again"]
    loop.remove_reader(much.reading)


def test_of_many_none_is_set_aside(
    loop: EpollLoop, pace: EpollPace, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_SECONDS", 60.0)
    monkeypatch.setattr(module, "_FEW", 2)
    pipes = [Pipe(loop, "much", seen) for _ in range(3)]
    for pipe in pipes:
        pipe.put(100)
        pace.much(pipe.reading)
    assert hurry(pace) == 3
    turns(loop, 2)
    expect(pace)
    turns(loop, 2)
    assert len(seen) == 12
    for pipe in pipes:
        pipe.close()


def test_a_descriptor_that_is_not_watched_cannot_wait(loop: EpollLoop, pace: EpollPace) -> None:
    pace.much(1000)
    assert hurry(pace) == 0
    expect(pace)
    turns(loop, 1)
