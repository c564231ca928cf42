"""Losses of a pool on Ray, and what Ray itself says of them: nodes are killed and frozen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import outfitter
from bench.poolrows import Row, ready
from bench.raytasks import RayActor

if TYPE_CHECKING:
    from tests.support.raycluster import RayCluster, RayNode

__all__ = ["rows"]

_RAY_SECONDS: Final = 30.0  # then it is noted that Ray has not noticed yet
_SOONER: Final = 3.0
_LEASES, _COMMANDS, _SLOTS, _CPUS = 200, 10, 12, 0.5
_HELD: Final = 6  # leases, over all nodes


async def rows(cluster: RayCluster, cpus: int, *, quick: bool) -> list[Row]:
    """A quick run leaves out what takes a minute: 2,000 commands while a node is killed."""
    found: list[Row] = []
    for what, most, strike in (("killed", 0.5, _kill), ("silent", 5.0, _freeze)):
        ours, theirs, node = await _loss(cluster, strike)
        cluster.replace(node, cpus)
        said = f"not in {_RAY_SECONDS:g} s" if theirs >= _RAY_SECONDS else f"{theirs:.1f} s"
        found.append((f"loss reported, node {what}", ours, "s", most))
        found.append((f"node {what}: ours / through Ray ({said})", ours / theirs, "", round(1 / _SOONER, 2)))
    if not quick:
        wishes: dict[str, Any] = {"size": _SLOTS, "warm": _SLOTS, "cpus": _CPUS, "limits": "none"}
        async with outfitter.Pool("ray", address=cluster.address, **wishes) as pool:
            whole = await _run(pool, lambda: None)
            less = await _run(pool, cluster.nodes[0].end)
        cluster.replace(cluster.nodes[0], cpus)
        what = f"{_LEASES * _COMMANDS:,} commands of 0.05 s, {_LEASES} leases, {_SLOTS} slots"
        found.append((what, whole, "s", None))
        found.append((f"{what}: a node is killed / none", less / whole, "", 1.3))
    return found


def _kill(node: RayNode) -> float:
    node.freeze()
    begin = time.perf_counter()
    node.end()
    return begin


def _freeze(node: RayNode) -> float:
    begin = time.perf_counter()
    node.freeze()
    return begin


async def _loss(cluster: RayCluster, strike: Callable[[RayNode], float]) -> tuple[float, float, RayNode]:
    """Seconds until a lease and an actor of a node that is struck are known to be lost, and the node."""
    wishes: dict[str, Any] = {"size": _HELD, "warm": _HELD, "cpus": _CPUS, "limits": "none"}
    async with outfitter.Pool("ray", address=cluster.address, **wishes) as pool, AsyncExitStack() as stack:
        await ready(pool, _HELD)
        leases = [pool.lease() for _ in range(_HELD)]
        for lease in leases:
            await stack.enter_async_context(lease)
        links = {place.lease: place.link for place in pool._places.values() if place.link is not None}
        lease, pid = next((one, link.endpoint.pid) for one, link in links.items() if one is not None)
        node = next(node for node in cluster.nodes if pid in node.pids)
        actor = await asyncio.to_thread(_actor_on, lease.node)
        gone = asyncio.ensure_future(actor.gone())
        lost = asyncio.ensure_future(_when(lease))
        begin = await asyncio.to_thread(strike, node)
        ours = await lost - begin
        await asyncio.wait({gone}, timeout=_RAY_SECONDS)
        theirs = gone.result() - begin if gone.done() else _RAY_SECONDS
        gone.cancel()
        return ours, theirs, node


async def _when(lease: outfitter.Lease) -> float:
    await lease.lost
    return time.perf_counter()


def _actor_on(node_id: str) -> RayActor:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = RayActor(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False))
    actor.once()
    return actor


async def _run(pool: outfitter.Pool, halfway: Callable[[], None]) -> float:
    async def work(client: outfitter.Client, number: int) -> None:
        for _ in range(_COMMANDS):
            await client.run(["sleep", "0.05"])

    await ready(pool, _SLOTS)
    begin, ended = time.perf_counter(), 0
    async for _ in pool.map(work, range(_LEASES)):
        ended += 1
        if ended == _LEASES // 2:
            await asyncio.to_thread(halfway)
    return time.perf_counter() - begin
