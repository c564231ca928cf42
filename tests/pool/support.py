"""Pools on this machine for tests: real servers, in a root of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Unpack

import pytest

from outfitter.pool.engine import Loss, Order
from outfitter.pool.local import LocalEngine, LocalSlot
from outfitter.pool.pool import Pool
from outfitter.pool.settings import PoolWishes
from tests.support.machine import SECOND, wait_until


@contextmanager
def short_folder() -> Iterator[Path]:
    """For workspaces, with a short path: sockets live in them."""
    folder = mkdtemp(prefix="op", dir="/tmp")
    try:
        yield Path(folder)
    finally:
        # What a killed server has left behind may still be clearing up after it.
        wait_until(lambda: _removed(folder), "the folder is gone")


def _removed(folder: str) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)


def with_a_pool(
    **wishes: Unpack[PoolWishes],
) -> Callable[[Callable[[Pool], Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A test that gets an open pool of one executor, or as `wishes` say."""

    def decorate(test: Callable[[Pool], Coroutine[Any, Any, None]]) -> Callable[..., None]:
        async def run() -> None:
            settings: PoolWishes = {"size": 1, "limits": "none", **wishes}
            async with asyncio.timeout(60 * SECOND), Pool("local", **settings) as pool:
                await test(pool)

        def plain(own_root: None) -> None:
            asyncio.run(run())

        plain.__doc__ = test.__doc__
        plain.__name__ = test.__name__
        return plain

    return decorate


async def until(holds: Callable[[], bool], what: str) -> None:
    """As `machine.wait_until`, while the loop goes on."""
    try:
        async with asyncio.timeout(20 * SECOND):
            while not holds():
                await asyncio.sleep(0.01 * SECOND)
    except TimeoutError:
        pytest.fail(what)


class MovedEngine(LocalEngine):
    """An engine that can be told what happens: its slots go, or it does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[Order] = []
        self.slots: list[MovedSlot] = []
        self.failing: Callable[[Order], Awaitable[None]] | None = None

    async def start(self, order: Order) -> LocalSlot:
        self.orders.append(order)
        if self.failing is not None:
            await self.failing(order)
        started = await super().start(order)
        slot = MovedSlot(started)
        self.slots.append(slot)
        return slot  # type: ignore[return-value]


class MovedSlot:
    """A slot whose engine may say that it is gone, though it serves."""

    def __init__(self, slot: LocalSlot) -> None:
        self.serve = slot.serve
        self.stop = slot.stop
        self.went: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()

    async def gone(self) -> Loss:
        return await asyncio.shield(self.went)
