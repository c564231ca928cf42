"""The engine of one machine does what every engine does."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outfitter.pool.engine import Endpoint, Engine
from outfitter.pool.local import LocalEngine
from tests.pool.engines import EngineTests


def kill_server(endpoint: Endpoint) -> None:
    """Its keeper is this process."""
    os.kill(endpoint.pid, signal.SIGKILL)


class TestLocal(EngineTests):
    kill = staticmethod(kill_server)

    @pytest.fixture
    def opened(self, own_root: Path) -> Callable[[], Awaitable[Engine]]:
        async def make() -> Engine:
            engine = LocalEngine()
            await engine.open()
            return engine

        return make
