"""The store in its thread: who waits for it, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from outfitter.loop import EpollLoop
from outfitter.relay import asking
from outfitter.relay.asking import StoreSlow, StoreThread

FOREVER = 600.0


class Asked:
    """A loop that runs until so many questions are answered, and the answers."""

    def __init__(self) -> None:
        self.loop = EpollLoop()
        self.store = StoreThread(self.loop)
        self.answers: list[tuple[Any, Exception | None]] = []

    def done(self, result: Any, error: Exception | None) -> None:
        self.answers.append((result, error))
        self.loop.stop()

    def until(self, count: int) -> None:
        while len(self.answers) < count:
            self.loop.run()


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_results_and_errors_come_in_order(asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("no")

    for work in (lambda: 1, fail, lambda: 3):
        asked.store.ask(work, asked.done)
    asked.until(3)
    assert [result for result, _ in asked.answers] == [1, None, 3]
    assert [type(error) for _, error in asked.answers] == [type(None), ValueError, type(None)]
    asked.store.stop()


def blocked(asked: Asked, ask: Callable[..., None], seconds: tuple[float, ...]) -> threading.Event:
    release, begun = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        release.wait(FOREVER)
        return "late"

    ask(work, asked.done, *seconds)
    assert begun.wait(FOREVER)
    return release


def test_a_slow_store_is_given_up_and_said_until_it_answers(asked: Asked) -> None:
    release = blocked(asked, asked.store.ask, (0.01,))
    asked.until(1)
    result, error = asked.answers[0]
    assert result is None and isinstance(error, StoreSlow)
    assert asked.store.slow == "the store has not answered for 0.01 s"
    worked: list[str] = []
    asked.store.ask(lambda: worked.append("given up"), asked.done, 0.01)
    asked.until(2)
    release.set()
    asked.store.ask(lambda: worked.append("waited for"), asked.done, FOREVER)
    asked.until(3)
    assert worked == ["waited for"]
    assert asked.store.slow == ""
    assert len(asked.answers) == 3
    asked.store.stop()


def test_what_is_told_is_done_however_late(asked: Asked) -> None:
    release = blocked(asked, asked.store.ask, (0.01,))
    asked.until(1)
    asked.store.tell(lambda: "told", asked.done)
    assert len(asked.store) == 1
    release.set()
    asked.until(2)
    assert asked.answers[1] == ("told", None)
    asked.store.stop()


def test_a_queue_that_is_full_refuses_at_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "QUEUED", 1)
    release = blocked(asked, asked.store.tell, ())
    asked.store.tell(lambda: "second", asked.done)
    asked.store.ask(lambda: "third", asked.done)
    asked.until(1)
    assert isinstance(asked.answers[0][1], StoreSlow)
    release.set()
    asked.until(3)
    assert [result for result, _ in asked.answers[1:]] == ["late", "second"]
    asked.store.stop()
