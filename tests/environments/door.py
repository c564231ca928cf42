"""An opener that tests steer: each attempt waits at the door until it is let in or turned away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from outfitter.client.client import Client
from outfitter.environments.connection import Opened
from outfitter.environments.file import Declared
from outfitter.errors import OutfitterError
from tests.support.machine import SECOND

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_a_loop(scenario: Scenario) -> Callable[[], None]:
    """Runs an async test on a loop of its own, within its time."""

    def test() -> None:
        asyncio.run(asyncio.wait_for(scenario(), 30 * SECOND))

    test.__name__ = scenario.__name__
    return test


async def settle() -> None:
    """Lets everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


class Guest:
    """What the manager asks of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed: OutfitterError | None = None
        self.closed = 0
        self.stays = False  # closing it does not end
        self.probes = 0
        self.answer: Callable[[], Awaitable[str]] = self._ready

    async def _ready(self) -> str:
        return "ready"

    async def status(self) -> str:
        self.probes += 1
        return await self.answer()

    async def aclose(self) -> None:
        self.closed += 1
        if self.stays:
            await asyncio.get_running_loop().create_future()


class Door:
    """The opener. `knocks` are the names of all attempts so far; those under way wait at the door."""

    def __init__(self) -> None:
        self.knocks: list[str] = []
        self.cancelled: list[str] = []
        self.stubborn = False  # attempts heed no cancelling
        self._queue: list[tuple[str, asyncio.Future[Guest]]] = []
        self._knocked = asyncio.Event()

    async def __call__(self, declared: Declared | None) -> Opened:
        name = "local" if declared is None else declared.url or declared.program or ""
        self.knocks.append(name)
        place = (name, asyncio.get_running_loop().create_future())
        self._queue.append(place)
        self._knocked.set()
        while True:
            try:
                guest = await asyncio.shield(place[1])
            except asyncio.CancelledError:
                if self.stubborn:
                    continue
                self.cancelled.append(name)
                if place in self._queue:
                    self._queue.remove(place)
                elif place[1].exception() is None:
                    await place[1].result().aclose()  # let in, but nobody is told
                raise
            return Opened(cast(Client, guest), guest.aclose)

    @property
    def waiting(self) -> list[str]:
        """Whose attempts are under way."""
        return [name for name, _ in self._queue]

    async def _knock(self, name: str) -> asyncio.Future[Guest]:
        """The attempt that has waited longest under this name."""
        while name not in self.waiting:
            self._knocked.clear()
            await self._knocked.wait()
        return self._queue.pop(self.waiting.index(name))[1]

    async def let_in(self, name: str) -> Guest:
        guest = Guest(name)
        (await self._knock(name)).set_result(guest)
        await settle()
        return guest

    async def turn_away(self, name: str, error: Exception) -> None:
        (await self._knock(name)).set_exception(error)
        await settle()
