"""What a pool costs: a lease, its renewal, a command in it, a loss; and the driver as a pool grows.

Rows of one run are compared with each other: only ratios within it mean something. Growth is measured with
slots that share one server, so that a thousand of them fit on any machine; the driver has a client for each.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from statistics import median
from typing import Final

import outfitter
from bench.poolrows import IN_FLIGHT, SLOTS, Row, command_rate, ready, renewal_rate, server, true
from outfitter.pool.engine import Capacity, Card, Endpoint, Loss, Node, Order, Stopped

__all__ = ["main"]

SIZES: Final = (10, 100, 1000)


def main(engines: list[str], *, quick: bool, rounds: int, as_json: bool) -> int:
    """Prints the rows of growth, of each engine, and of `rounds` tasks of a second for each slot."""
    samples = 20 if quick else 100
    found: dict[str, list[Row]] = {}

    def note(name: str, rows: list[Row]) -> None:
        found[name] = rows
        if not as_json:
            _print(name, rows)

    with tempfile.TemporaryDirectory(prefix="ob", dir="/tmp") as folder:
        os.environ["OUTFITTER_POOL_ROOT"] = os.environ["XDG_STATE_HOME"] = folder
        # First: memory that this process had for something else would be used again, and not be seen.
        note("growth", asyncio.run(_growth(SIZES[:2] if quick else SIZES)))
        for engine in engines:
            if engine != "ray":
                note(engine, asyncio.run(_engine(engine, samples)))
            elif find_spec("ray") is None:
                print("ray is not installed, and not measured: run scripts/engines", file=sys.stderr)
            else:
                from bench import poolray

                note(engine, poolray.rows(samples, quick=quick))
        if "local" in engines:
            from bench import pooltasks

            note("tasks", asyncio.run(pooltasks.rows(rounds)))
    if as_json:
        print(json.dumps({name: [list(row) for row in rows] for name, rows in found.items()}))
    return 0


def _print(name: str, rows: list[Row]) -> None:
    print(name)
    for what, value, unit, most in rows:
        goal = "" if most is None else f"  at most {most:g}: {'met' if value <= most else 'MISSED'}"
        print(f"  {what:56} {value:10.3g} {unit:6}{goal}", flush=True)


# One engine


async def _engine(engine: str, samples: int) -> list[Row]:
    rows: list[Row] = []
    async with outfitter.Pool(engine, size=1, limits="none") as pool:
        leases, renewals = await _one_slot(pool, samples)
        rows.append(("lease, a ready slot waiting", leases * 1e3, "ms", 1.0))
        rows.append(("renewal: return to ready", renewals * 1e3, "ms", 100.0))
        rows += await _commands(pool, samples)
        rows.append(("loss reported, server killed", await _loss(pool) * 1e3, "ms", 500.0))
    async with outfitter.Pool(engine, size=1, limits="none", standby=True) as pool:
        renewal = await _standing_by(pool, samples)
        rows.append(("renewal with a server that stands by", renewal * 1e3, "ms", 10.0))
    async with outfitter.Pool(engine, size=SLOTS, limits="none", warm=SLOTS) as pool:
        await ready(pool, SLOTS)
        rows.append((f"renewals/s, {SLOTS} slots", await renewal_rate(pool, 4 * samples), "/s", None))
        await ready(pool, SLOTS)
        rows += await _many(pool, 20 * samples)
    return rows


async def _one_slot(pool: outfitter.Pool, samples: int) -> tuple[float, float]:
    leases, renewals = [], []
    for _ in range(samples):
        await ready(pool, 1)
        begin = time.perf_counter()
        async with pool.lease():
            leases.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        await ready(pool, 1)
        renewals.append(time.perf_counter() - begin)
    return median(leases), median(renewals)


async def _standing_by(pool: outfitter.Pool, samples: int) -> float:
    renewals = []
    for _ in range(samples):
        async with pool.lease() as client:
            await client.run(["true"])
            (place,) = pool._places.values()
            assert place.preparing is not None
            await place.preparing
        begin = time.perf_counter()
        await ready(pool, 1)
        renewals.append(time.perf_counter() - begin)
    return median(renewals)


async def _commands(pool: outfitter.Pool, samples: int) -> list[Row]:
    """One `true` in a lease, and on a server of its own, in turns."""
    with server() as url:
        async with pool.lease() as leased, outfitter.connect(url) as direct:
            pairs = [(await true(leased), await true(direct)) for _ in range(5 * samples + 5)][5:]
            pids = _servers(pool)
            memory = sum(_resident(pid) for pid in pids) / max(1, len(pids))
    ours, theirs = (median(times) for times in zip(*pairs, strict=True))
    rows: list[Row] = [("one `true` in a lease", ours * 1e3, "ms", None)]
    rows.append(("one `true` in a lease / on a server", ours / theirs, "", 1.1))
    if pids:
        rows.append(("memory of the server of a slot", memory / (1 << 20), "MiB", 16.0))
    return rows


async def _loss(pool: outfitter.Pool) -> float:
    try:
        async with pool.lease() as client:
            running = asyncio.ensure_future(client.run(["sleep", "60"]))
            await client.run(["true"])
            for pid in _servers(pool):
                os.kill(pid, signal.SIGKILL)
            begin = time.perf_counter()
            await running
    except outfitter.LeaseLost:
        return time.perf_counter() - begin
    raise AssertionError("the executor was not lost")


async def _many(pool: outfitter.Pool, count: int) -> list[Row]:
    """Commands per second on leases, and on as many servers without a pool."""
    async with AsyncExitStack() as stack:
        leased = [await stack.enter_async_context(pool.lease()) for _ in range(SLOTS)]
        plain = []
        for _ in range(SLOTS):
            url = stack.enter_context(server())
            plain.append(await stack.enter_async_context(outfitter.connect(url)))
        ours = await command_rate(leased, count)
        theirs = await command_rate(plain, count)
        ours = max(ours, await command_rate(leased, count))
        theirs = max(theirs, await command_rate(plain, count))
    what = f"{IN_FLIGHT} in flight on {SLOTS}"
    return [
        (f"commands/s, {what} leases", ours, "/s", None),
        (f"servers / leases, {what}", theirs / ours, "", 1.11),
    ]


def _servers(pool: outfitter.Pool) -> list[int]:
    """Servers of the pool that are processes of this machine."""
    links = [place.link for place in pool._places.values()]
    return [
        link.endpoint.pid for link in links if link is not None and link.endpoint.url.startswith("ws://127.")
    ]


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# Growth


class _SharedEngine:
    """Slots that are all the same server."""

    name = "shared"

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        pass

    async def start(self, order: Order) -> _SharedSlot:
        return _SharedSlot(self._url)

    async def capacity(self) -> Capacity:
        return Capacity((Node("shared", 1e6, 1 << 50),))

    async def aclose(self) -> None:
        pass


class _SharedSlot:
    def __init__(self, url: str) -> None:
        self._url = url

    async def serve(self, card: Card) -> Endpoint:
        return Endpoint(url=self._url, node="shared", version=outfitter.VERSION)

    prepare = serve

    async def gone(self) -> Loss:
        await asyncio.Event().wait()
        raise AssertionError

    async def stop(self, *, keep: bool = False) -> Stopped:
        return Stopped(True)


async def _growth(sizes: tuple[int, ...]) -> list[Row]:
    rows: list[Row] = []
    for size in sizes:
        with server() as url:
            before = _resident(os.getpid())
            async with outfitter.Pool(_SharedEngine(url), size=size, warm=size) as pool:
                await ready(pool, size)
                async with AsyncExitStack() as stack:
                    for _ in range(size):
                        await stack.enter_async_context(pool.lease())
                    each = (_resident(os.getpid()) - before) / size
                    share = await _processor(5.0)
                if size == 100:
                    rate = await renewal_rate(pool, 2000)
                    rows.append(("leases/s that the driver manages, 100 slots", rate, "/s", None))
        rows.append(
            (f"driver's memory per lease, {size} held", each / 1024, "KiB", 256.0 if size >= 100 else None)
        )
        rows.append((f"driver's processor, {size} held and idle", share * 100, "%", None))
    return rows


async def _processor(seconds: float) -> float:
    """The share of one processor that this process uses."""
    before, begin = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (time.process_time() - before) / (time.perf_counter() - begin)
