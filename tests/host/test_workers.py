"""Work that may block: done in a thread, its outcome told on the loop."""

from __future__ import annotations

import _thread
import asyncio
import errno
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from outfitter.host import workers as module
from outfitter.host.workers import Workers
from outfitter.loop import EpollLoop
from tests.support.machine import SECOND, wait_until


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


class Told:
    """What `done` was told, and on which thread; stops the loop after so many."""

    def __init__(self, loop: EpollLoop, wanted: int) -> None:
        self._loop = loop
        self._wanted = wanted
        self.outcomes: list[tuple[Any, BaseException | None]] = []
        self.threads: set[int] = set()
        loop.call_later(20 * SECOND, loop.stop)  # rather an assertion than a test that never ends

    def __call__(self, result: Any, failure: BaseException | None) -> None:
        self.outcomes.append((result, failure))
        self.threads.add(threading.get_ident())
        if len(self.outcomes) == self._wanted:
            self._loop.stop()


def test_outcome_is_told_on_the_loop_and_the_work_is_done_elsewhere(loop: EpollLoop) -> None:
    told = Told(loop, 1)
    Workers(loop).run(threading.get_ident, told)
    loop.run()
    [(worker, failure)] = told.outcomes
    assert failure is None
    assert told.threads == {threading.get_ident()}
    assert worker != threading.get_ident()


@pytest.mark.parametrize("failure", [OSError(2, "no"), ValueError("mistake"), SystemExit(3)], ids=repr)
def test_failure_of_any_kind_is_an_outcome(loop: EpollLoop, failure: BaseException) -> None:
    def fail() -> None:
        raise failure

    told = Told(loop, 2)
    workers = Workers(loop, threads=1)
    workers.run(fail, told)
    workers.run(lambda: "next", told)
    loop.run()
    assert told.outcomes == [(None, failure), ("next", None)]


def test_thousands_of_works_are_all_done_once(loop: EpollLoop) -> None:
    told = Told(loop, 5000)
    workers = Workers(loop, threads=8)
    for number in range(5000):
        workers.run(lambda number=number: number, told)
    loop.run()
    assert sorted(result for result, _ in told.outcomes) == list(range(5000))


def test_no_more_threads_work_than_allowed(loop: EpollLoop) -> None:
    gate = threading.Semaphore(0)
    inside: set[int] = set()

    def work() -> None:
        inside.add(threading.get_ident())
        gate.acquire()

    told = Told(loop, 10)
    workers = Workers(loop, threads=3)
    for _ in range(10):
        workers.run(work, told)
    wait_until(lambda: len(inside) == 3, "three threads work")
    gate.release(10)
    loop.run()
    assert len(told.outcomes) == 10
    assert len(inside) == 3


def test_work_that_never_returns_holds_up_nobody(loop: EpollLoop) -> None:
    stuck = threading.Event()
    told = Told(loop, 50)
    workers = Workers(loop, threads=4)
    for _ in range(3):
        workers.run(stuck.wait, lambda *_: None)
    for number in range(50):
        workers.run(lambda number=number: number, told)
    loop.run()
    assert [result for result, _ in told.outcomes] == list(range(50))
    stuck.set()


def test_threads_that_are_idle_end_and_come_back(loop: EpollLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.02 * SECOND)
    before = _thread._count()
    workers = Workers(loop, threads=4)
    for _ in range(3):
        gate = threading.Barrier(4)
        told = Told(loop, 4)
        for _ in range(4):
            workers.run(gate.wait, told)  # all four at once, or none comes back
        loop._stopping = False
        loop.run()
        assert len(told.outcomes) == 4
        wait_until(lambda: _thread._count() <= before, "the threads are gone")


def test_work_that_comes_as_a_thread_gives_up_waiting_is_not_forgotten(
    loop: EpollLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads end all the time here; every work must find one all the same.
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0001)
    told = Told(loop, 1000)
    workers = Workers(loop, threads=2)

    def following(result: Any, failure: BaseException | None) -> None:
        told(result, failure)
        if len(told.outcomes) < 1000:
            workers.run(lambda: None, following)

    workers.run(lambda: None, following)
    loop.run()
    assert len(told.outcomes) == 1000


def test_machine_without_a_thread_to_give_is_an_error_of_the_work(
    loop: EpollLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    workers = Workers(loop)
    with monkeypatch.context() as patched:
        patched.setattr("outfitter.host.workers.start_new_thread", none)
        told = Told(loop, 1)
        workers.run(lambda: None, told)
        loop.run()
        [(_, failure)] = told.outcomes
        assert isinstance(failure, OSError) and failure.errno == errno.EAGAIN
    loop._stopping = False
    told = Told(loop, 1)
    workers.run(lambda: "again", told)
    loop.run()
    assert told.outcomes == [("again", None)]


def test_asyncio_loop_is_told_as_well() -> None:
    async def scenario() -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        Workers(loop).run(lambda: 42, lambda result, failure: answer.set_result((result, failure)))
        return await asyncio.wait_for(answer, 20 * SECOND)

    assert asyncio.run(scenario()) == (42, None)


def test_loop_that_is_gone_when_the_work_is_done_is_nobodys_failure() -> None:
    release, worked = threading.Event(), threading.Event()

    def work() -> None:
        release.wait()
        worked.set()

    async def scenario() -> None:
        Workers(asyncio.get_running_loop()).run(work, lambda *_: None)

    before = _thread._count()
    asyncio.run(scenario())
    release.set()
    assert worked.wait(20 * SECOND)
    wait_until(lambda: _thread._count() <= before, "the thread has ended")

    loop = EpollLoop()
    Workers(loop, threads=1).run(worked.wait, lambda *_: None)
    loop.close()
