"""What many leases leave of descriptors, children, workspaces and memory: none. `make chaos` has 2,000."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

import outfitter
from tests.pool.support import until
from tests.support.machine import SECOND, alive, own_children, own_descriptors, status

DEEP = bool(os.environ.get("OUTFITTER_CHAOS"))
LEASES, SLOTS = (2000, 8) if DEEP else (12, 2)
ROUNDS = 4 if DEEP else 1  # the heap takes half of them to find its size


def open_files() -> int:
    return len(own_descriptors())


def running() -> int:
    """Children that have not ended; those that have are waited for when the next one begins."""
    return sum(alive(int(pid)) for pid in own_children())


def memory() -> tuple[int, int]:
    """Objects and KiB of this process: of the pool and, on this machine, of its keepers."""
    gc.collect()
    return len(gc.get_objects()), int(status(os.getpid())["RssAnon"].split()[0])


async def leave_something(client: outfitter.Client, number: int) -> None:
    await client.run(["sh", "-c", "mkdir a; echo > a/file; sleep 1000 >/dev/null 2>&1 &"], check=True)


async def lend(pool: outfitter.Pool, leases: int) -> None:
    states = [outcome.state async for outcome in pool.map(leave_something, range(leases))]
    assert states == ["done"] * leases
    await until(lambda: pool.status()["slots"] == {"ready": SLOTS}, "all executors are ready again")


@pytest.mark.timeout(1300 if DEEP else 120)
def test_leases_leave_nothing_behind(own_root: Path) -> None:
    async def scenario() -> None:
        files, children = open_files(), running()
        async with outfitter.Pool("local", size=SLOTS, warm=SLOTS, limits="none") as pool:
            await lend(pool, 2 * SLOTS)
            # Later servers may be copies, with two descriptors more than those that began by themselves.
            held, busy = open_files() + 2 * SLOTS, running() + 1
            used = []
            for _ in range(ROUNDS):
                await lend(pool, LEASES // ROUNDS)
                if DEEP:  # few are not seen in it
                    used.append(memory())
            if DEEP:
                objects, kib = (last - first for first, last in zip(used[1], used[-1], strict=True))
                # A lease that is not forgotten has dozens of objects, and 20 KiB. 150 objects come and go.
                assert objects < LEASES / 2
                assert kib < LEASES / 2
            await until(lambda: open_files() <= held, f"as many descriptors as before, {held}")
            await until(lambda: running() <= busy, f"as many children as before, {busy}")
        await until(lambda: open_files() <= files, f"as many descriptors as before the pool, {files}")
        await until(lambda: running() <= children, f"as many children as before the pool, {children}")

    asyncio.run(asyncio.wait_for(scenario(), (1200 if DEEP else 100) * SECOND))
    assert os.listdir(own_root / f"outfitter-{os.getuid()}") == [".lock"]
