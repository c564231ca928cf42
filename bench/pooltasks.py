"""Tasks of a second on a pool: how near their time comes to what it would be if an executor cost nothing."""

from __future__ import annotations

import os
import time
from typing import Final

import outfitter
from bench.poolrows import Row, ready
from bench.procfs import cpu_of_all

__all__ = ["rows"]

# As many as the cores can renew in a second with a part of their time, and as a cluster has.
_SLOTS: Final = (8 * (os.cpu_count() or 1), 64)
_MOST: Final = 1 / 0.9  # of the ideal time


async def rows(rounds: int) -> list[Row]:
    """So many tasks for each slot; 157 rounds on 64 slots are 10,000 tasks."""
    found: list[Row] = []
    for slots in _SLOTS:
        async with outfitter.Pool("local", size=slots, warm=slots, limits="none", standby=True) as pool:
            await ready(pool, slots)
            before, begin = cpu_of_all(os.getpid()), time.perf_counter()
            async for outcome in pool.map(_second, range(slots * rounds)):
                assert outcome.state == "done", outcome.error
            took, used = time.perf_counter() - begin, cpu_of_all(os.getpid()) - before
        what = f"{slots * rounds:,} tasks of 1 s on {slots} slots"
        found.append((f"{what}: time / ideal time", took / rounds, "", round(_MOST, 2)))
        found.append((f"{what}: processor per task", used / (slots * rounds) * 1e3, "ms", None))
    return found


async def _second(client: outfitter.Client, number: int) -> None:
    await client.run(["sleep", "1"], check=True)
