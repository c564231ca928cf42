"""A pool on Ray beside a pool on this machine and beside plain Ray tasks: all at once, in turns, medians.

Uses the cluster of RAY_ADDRESS; without that, it starts one of three nodes, as processes of this machine on
loopback, and also measures what can be measured on a cluster of one's own alone: cold tasks, memory, losses
(bench/poollosses.py). All arms stand idle while another one is measured.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import outfitter
from bench.poolrows import IN_FLIGHT, SLOTS, Row, command_rate, ready, renewal_rate, server, true
from bench.procfs import pss_kb, rss_kb
from bench.raytasks import RayActor, RayTasks

if TYPE_CHECKING:
    from tests.support.raycluster import RayCluster

__all__ = ["rows"]

_NODES, _CPUS = 3, 8
_LEASE_CPUS, _TASK_CPUS = 0.5, 0.25  # the cluster has room for all leases and all tasks at the same time
# Of what the other arm does.
_AT_LEAST: Final = {"renewals": 0.8, "commands": 0.9, "tasks": 1.0, "cold tasks": 4.0}
_WARM_UP: Final = 64
_COLD_COMMANDS: Final = 2000
_SETTLED_SECONDS, _SETTLING_SECONDS = 4.0, 60.0
_KEEPER, _SERVER, _WORKERS = "ray::SlotKeeper", "outfitter.cli.main", ("ray::IDLE", "ray::command")

Arms = dict[str, Callable[[], Coroutine[Any, Any, float]]]


def rows(samples: int, *, quick: bool) -> list[Row]:
    address = os.environ.get("RAY_ADDRESS", "")
    if address:
        return asyncio.run(_compared(address, samples))[0]
    from tests.support.raycluster import cluster_of

    from bench import poollosses

    with cluster_of(_NODES, _CPUS) as cluster:
        cold, theirs, workers = _cold_tasks(cluster)
        found, leased = asyncio.run(_compared(cluster.address, samples, cluster))
        rate = next(value for what, value, *_ in found if what.startswith("commands/s, "))
        found.append(("commands/s: cold Ray tasks / leases", cold / rate, "", 1 / _AT_LEAST["cold tasks"]))
        what = f"memory for {SLOTS} at a time: leases / Ray tasks ({workers} workers)"
        found.append((what, leased / theirs, "", 0.6))
        return found + asyncio.run(poollosses.rows(cluster, _CPUS, quick=quick))


def _cold_tasks(cluster: RayCluster) -> tuple[float, float, int]:
    """Plain tasks per second on a cluster that has run nothing yet, the memory of its workers after that, in
    KiB, and how many there are: Ray starts one for each processor, whatever runs at a time."""
    words = [sys.executable, "-m", "bench.raytasks", cluster.address, str(_COLD_COMMANDS), str(SLOTS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        rate = float(child.stdout.readline())
        workers = _settled(cluster)
        memory = pss_kb(workers)
        child.stdin.close()
    return rate, memory, len(workers)


def _settled(cluster: RayCluster) -> list[int]:
    """Ray's workers for tasks, when their number has not changed for a while: Ray still starts some when the
    tasks are done."""
    workers: list[int] = []
    since = begin = time.perf_counter()
    while time.perf_counter() - since < _SETTLED_SECONDS and time.perf_counter() - begin < _SETTLING_SECONDS:
        time.sleep(0.2)
        found = [pid for part in _WORKERS for pid in cluster.named(part)]
        if len(found) != len(workers):
            since = time.perf_counter()
        workers = found
    return workers


async def _compared(address: str, samples: int, cluster: RayCluster | None = None) -> tuple[list[Row], float]:
    """The rows; with a cluster of our own, also the memory of all keepers and their servers."""
    wishes: dict[str, Any] = {"size": SLOTS, "warm": SLOTS, "cpus": _LEASE_CPUS, "limits": "none"}
    rounds = max(3, samples // 20)
    async with (
        outfitter.Pool("ray", address=address, **wishes) as far,
        outfitter.Pool("local", **wishes) as near,
    ):
        await ready(far, SLOTS)
        await ready(near, SLOTS)
        leases = await _turns({"far": lambda: _leased(far), "near": lambda: _leased(near)}, samples)

        async def renewed(pool: outfitter.Pool) -> float:
            rate = await renewal_rate(pool, 2 * samples)
            await ready(pool, SLOTS)
            return rate

        renewals = await _turns({"far": lambda: renewed(far), "near": lambda: renewed(near)}, rounds)
        async with AsyncExitStack() as stack:
            there = [await stack.enter_async_context(far.lease()) for _ in range(SLOTS)]
            here = [await stack.enter_async_context(near.lease()) for _ in range(SLOTS)]
            direct = await stack.enter_async_context(outfitter.connect(stack.enter_context(server())))
            many = 10 * samples
            # Before any task has run: Ray starts and ends workers for tasks long after them, which would take
            # the processors from whichever comes next.
            commands = await _turns(
                {"far": lambda: command_rate(there, many), "near": lambda: command_rate(here, many)}, rounds
            )
            tasks, actor = RayTasks(_TASK_CPUS), RayActor(num_cpus=_TASK_CPUS)
            await asyncio.to_thread(tasks.rate, _WARM_UP, IN_FLIGHT)
            beside = await _turns(
                {
                    "far": lambda: command_rate(there, many),
                    "tasks": lambda: asyncio.to_thread(tasks.rate, many, IN_FLIGHT),
                },
                rounds,
            )
            if cluster is not None:
                await asyncio.to_thread(_settled, cluster)
            once = await _turns(
                {
                    "far": lambda: true(there[0]),
                    "direct": lambda: true(direct),
                    "tasks": lambda: asyncio.to_thread(tasks.once),
                    "actor": lambda: asyncio.to_thread(actor.once),
                },
                5 * samples,
            )
            memory, leased = ([], 0.0) if cluster is None else _memory(cluster)
            actor.end()
        starts = await _turns({"slots": lambda: _slots(address, wishes), "actors": _actors}, 3)
    return [
        ("lease, a ready slot waiting on Ray", median(leases["far"]) * 1e3, "ms", 1.0),
        _ratio("lease: Ray / local", leases["far"], leases["near"], 2.0),
        (f"renewals/s, {SLOTS} slots on Ray", median(renewals["far"]), "/s", None),
        _ratio("renewals/s: local / Ray", renewals["near"], renewals["far"], 1 / _AT_LEAST["renewals"]),
        (f"{SLOTS} cold slots ready", median(starts["slots"]), "s", None),
        _ratio(f"{SLOTS} cold slots ready / bare actors", starts["slots"], starts["actors"], 1.3),
        ("one `true` in a lease on Ray", median(once["far"]) * 1e3, "ms", None),
        _ratio("one `true`: lease on Ray / on a server", once["far"], once["direct"], 1.1),
        _ratio("one `true`: lease / Ray task", once["far"], once["tasks"], 0.6),
        ("one `true` in an actor with `subprocess`", median(once["actor"]) * 1e3, "ms", None),
        (f"commands/s, {IN_FLIGHT} in flight on {SLOTS} leases on Ray", median(commands["far"]), "/s", None),
        _ratio(
            "commands/s: local leases / Ray", commands["near"], commands["far"], 1 / _AT_LEAST["commands"]
        ),
        _ratio("commands/s: warm Ray tasks / leases", beside["tasks"], beside["far"], _AT_LEAST["tasks"]),
        *memory,
    ], leased


def _memory(cluster: RayCluster) -> tuple[list[Row], float]:
    """Of all slots, in KiB; each process with its share of the pages that several have."""
    keepers, servers = cluster.named(_KEEPER), cluster.named(_SERVER)
    ours, all_of_it = rss_kb(servers) / len(servers), pss_kb(keepers + servers)
    return [
        ("memory of a slot: keeper and server", all_of_it / len(keepers) / 1024, "MiB", 60.0),
        ("memory of a slot: server", ours / 1024, "MiB", 16.0),
    ], all_of_it


async def _leased(pool: outfitter.Pool) -> float:
    await ready(pool, SLOTS)
    begin = time.perf_counter()
    async with pool.lease():
        return time.perf_counter() - begin


async def _slots(address: str, wishes: dict[str, Any]) -> float:
    begin = time.perf_counter()
    async with outfitter.Pool("ray", address=address, **wishes) as pool:
        await ready(pool, SLOTS)
        return time.perf_counter() - begin


async def _actors() -> float:
    """The least that can be started on Ray: actors that answer."""
    begin = time.perf_counter()
    actors = [RayActor(num_cpus=_LEASE_CPUS) for _ in range(SLOTS)]
    await asyncio.gather(*(asyncio.to_thread(actor.once) for actor in actors))
    took = time.perf_counter() - begin
    for actor in actors:
        actor.end()
    return took


async def _turns(arms: Arms, rounds: int) -> dict[str, list[float]]:
    """Each arm once per round; the one that begins changes, so that none always comes after the same."""
    found: dict[str, list[float]] = {name: [] for name in arms}
    names = list(arms)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            found[name].append(await arms[name]())
    return found


def _ratio(what: str, ours: list[float], theirs: list[float], most: float) -> Row:
    """The median of the ratios of each round: what others do to the machine is the same for both."""
    return what, median(one / other for one, other in zip(ours, theirs, strict=True)), "", round(most, 2)
