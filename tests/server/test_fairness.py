"""Fair turns on the real loop: one principal with many descriptors does not keep another one waiting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from outfitter.loop import EpollLoop
from outfitter.server.fairness import FairTurns

MANY = 300


class Pipe:
    """Always readable; says who was served."""

    def __init__(self, loop: EpollLoop, principal: str, told: Callable[[str], None]) -> None:
        self.principal = principal
        self._told = told
        self._loop = loop
        self.reading, self.writing = os.pipe()
        os.write(self.writing, b"x")
        loop.add_reader(self.reading, self._readable)

    def _readable(self) -> None:
        self._told(self.principal)

    def again(self) -> None:
        """What a connection does whose messages are more than it handles at a time."""
        self._told(self.principal)
        self._loop.call_soon(self.again)

    def close(self) -> None:
        self._loop.remove_reader(self.reading)
        os.close(self.reading)
        os.close(self.writing)


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


class Clock:
    """Time passes when somebody is served: a millisecond each."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def order(loop: EpollLoop, clock: Clock, *, callbacks: bool = False) -> list[str]:
    """Who is served, until bob has been five times."""
    said: list[str] = []

    def told(principal: str) -> None:
        said.append(principal)
        clock.now += 0.001
        if said.count("bob") == 5:
            loop.stop()

    pipes = [Pipe(loop, "alice", told) for _ in range(MANY)]
    pipes.append(Pipe(loop, "bob", told))
    if callbacks:
        for pipe in pipes[:-1]:
            loop.call_soon(pipe.again)
    try:
        loop.run()
    finally:
        for pipe in pipes:
            pipe.close()
    return said


def longest_wait(said: list[str]) -> int:
    return max(len(between) for between in "".join(name[0] for name in said).split("b"))


def test_without_turns_one_principal_waits_for_all_of_another(loop: EpollLoop) -> None:
    assert longest_wait(order(loop, Clock())) >= MANY


@pytest.mark.parametrize("callbacks", [False, True])
def test_with_turns_it_waits_for_one_turn(loop: EpollLoop, callbacks: bool) -> None:
    clock = Clock()
    FairTurns(loop, clock)
    assert loop.takes_turns
    assert longest_wait(order(loop, clock, callbacks=callbacks)) <= 65


def test_what_is_nobody_s_is_served_in_every_turn(loop: EpollLoop) -> None:
    FairTurns(loop)
    said: list[str] = []

    def told(principal: str) -> None:
        said.append(principal)
        if said.count("") == 5:
            loop.stop()

    pipes = [Pipe(loop, principal, told) for principal in ["alice"] * MANY + [""]]
    loop.run()
    for pipe in pipes:
        pipe.close()
    assert len(said) <= 5 * 66


def test_callbacks_of_a_principal_keep_their_order_and_cancelled_ones_do_not_run(loop: EpollLoop) -> None:
    FairTurns(loop)
    said: list[object] = []

    class Owner:
        principal = "alice"

        def say(self, what: object) -> None:
            said.append(what)

        def stop(self) -> None:
            loop.stop()

    owner = Owner()
    for number in range(200):
        handle = loop.call_soon(owner.say, number)
        if number % 2:
            handle.cancel()
    loop.call_soon(owner.stop)
    loop.run()
    assert said == list(range(0, 200, 2))


def test_own_connections_are_heard_beside_callbacks_without_end(loop: EpollLoop) -> None:
    FairTurns(loop)
    heard: list[str] = []

    class Endless:
        principal = "alice"

        def again(self) -> None:
            loop.call_soon(self.again)

    for _ in range(200):
        loop.call_soon(Endless().again)

    def told(principal: str) -> None:
        heard.append(principal)
        loop.stop()

    pipe = Pipe(loop, "alice", told)
    loop.run()
    pipe.close()
    assert heard == ["alice"]
