"""What the rows of a pool are made of: what is measured again and again, on any engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import outfitter
from bench.arms import ROOT

__all__ = ["IN_FLIGHT", "SLOTS", "Row", "command_rate", "ready", "renewal_rate", "server", "true"]

Row = tuple[str, float, str, float | None]  # what, how much, unit, at most so much (None: no goal)

SLOTS: Final = 8
IN_FLIGHT: Final = 32
_SERVE: Final = [
    os.path.join(ROOT, ".venv", "bin", "outfitter"),
    "serve",
    "--max-sessions",
    "4096",
    "--allow-unauthenticated",
]


async def renewal_rate(pool: outfitter.Pool, count: int) -> float:
    async def nothing(client: outfitter.Client, number: int) -> None:
        pass

    begin = time.perf_counter()
    async for _ in pool.map(nothing, range(count)):
        pass
    return count / (time.perf_counter() - begin)


async def command_rate(clients: list[outfitter.Client], count: int) -> float:
    async def work(client: outfitter.Client) -> None:
        for _ in range(count // IN_FLIGHT):
            await client.run(["true"])

    begin = time.perf_counter()
    await asyncio.gather(*(work(clients[number % len(clients)]) for number in range(IN_FLIGHT)))
    return count // IN_FLIGHT * IN_FLIGHT / (time.perf_counter() - begin)


async def true(client: outfitter.Client) -> float:
    begin = time.perf_counter()
    await client.run(["true"])
    return time.perf_counter() - begin


async def ready(pool: outfitter.Pool, count: int) -> None:
    """Looks often: a lease is measured against this."""
    while pool.status()["slots"].get("ready", 0) < count:
        if pool.status()["slots"] == {}:
            async with pool.lease():
                pass
        await asyncio.sleep(0.001)


@contextmanager
def server() -> Iterator[str]:
    with subprocess.Popen(_SERVE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.terminate()
