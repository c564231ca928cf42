"""The engine of one machine does what every engine does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outfitter import VERSION
from outfitter.core.shape import Shape
from outfitter.pool.engine import Endpoint, Engine, Order
from outfitter.pool.local import LocalEngine
from tests.pool.engines import EngineTests
from tests.support.machine import own_descriptors


def kill_server(endpoint: Endpoint) -> None:
    """Its keeper is this process."""
    os.kill(endpoint.pid, signal.SIGKILL)


def test_a_keeper_whose_start_was_cancelled_is_stopped_at_the_end(own_root: Path) -> None:
    async def scenario() -> None:
        engine = LocalEngine()
        starting = asyncio.ensure_future(engine.start(Order("s1", "pool1234", Shape(), VERSION)))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await engine.aclose()

    before = sorted(own_descriptors())
    asyncio.run(scenario())
    assert sorted(own_descriptors()) == before


class TestLocal(EngineTests):
    kill = staticmethod(kill_server)

    @pytest.fixture
    def opened(self, own_root: Path) -> Callable[[], Awaitable[Engine]]:
        async def make() -> Engine:
            engine = LocalEngine()
            await engine.open()
            return engine

        return make
