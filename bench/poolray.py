"""A pool on Ray beside a pool on this machine and beside plain Ray tasks: all at once, in turns, medians.

Uses the cluster of RAY_ADDRESS; without that, it starts one of three nodes, as processes of this machine on
loopback. All arms stand idle while another one is measured.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from statistics import median
from typing import Any, Final

import outfitter
from bench.pool import IN_FLIGHT, SLOTS, Row, _rate, _ready, _renewals, _true

__all__ = ["rows"]

_NODES, _CPUS = 3, 4
_LEASE_CPUS, _TASK_CPUS = 0.5, 0.25  # the cluster has room for all leases and all tasks at the same time
_AT_LEAST: Final = {"renewals": 0.8, "commands": 0.9, "tasks": 1.0}  # of what the other arm does
_WARM_UP: Final = 64

Arms = dict[str, Callable[[], Coroutine[Any, Any, float]]]


def rows(samples: int) -> list[Row]:
    with ExitStack() as stack:
        address = os.environ.get("RAY_ADDRESS", "")
        if not address:
            from tests.support.raycluster import cluster_of

            address = stack.enter_context(cluster_of(_NODES, _CPUS)).address
        return asyncio.run(_compared(address, samples))


async def _compared(address: str, samples: int) -> list[Row]:
    wishes: dict[str, Any] = {"size": SLOTS, "warm": SLOTS, "cpus": _LEASE_CPUS, "limits": "none"}
    rounds = max(3, samples // 20)
    async with (
        outfitter.Pool("ray", address=address, **wishes) as far,
        outfitter.Pool("local", **wishes) as near,
    ):
        await _ready(far, SLOTS)
        await _ready(near, SLOTS)

        async def renewed(pool: outfitter.Pool) -> float:
            rate = await _renewals(pool, 2 * samples)
            await _ready(pool, SLOTS)
            return rate

        renewals = await _turns({"far": lambda: renewed(far), "near": lambda: renewed(near)}, rounds)
        async with AsyncExitStack() as stack:
            there = [await stack.enter_async_context(far.lease()) for _ in range(SLOTS)]
            here = [await stack.enter_async_context(near.lease()) for _ in range(SLOTS)]
            tasks = _Tasks()
            await asyncio.to_thread(tasks.rate, _WARM_UP)
            many = 10 * samples
            commands = await _turns(
                {
                    "far": lambda: _rate(there, many),
                    "near": lambda: _rate(here, many),
                    "tasks": lambda: asyncio.to_thread(tasks.rate, many),
                },
                rounds,
            )
            once = await _turns(
                {"far": lambda: _true(there[0]), "tasks": lambda: asyncio.to_thread(tasks.once)}, samples
            )
    return [
        (f"renewals/s, {SLOTS} slots on Ray", median(renewals["far"]), "/s", None),
        _ratio("renewals/s: local / Ray", renewals["near"], renewals["far"], 1 / _AT_LEAST["renewals"]),
        (f"commands/s, {IN_FLIGHT} in flight on {SLOTS} leases on Ray", median(commands["far"]), "/s", None),
        _ratio(
            "commands/s: local leases / Ray", commands["near"], commands["far"], 1 / _AT_LEAST["commands"]
        ),
        _ratio("commands/s: warm Ray tasks / leases", commands["tasks"], commands["far"], _AT_LEAST["tasks"]),
        ("one `true` in a lease on Ray", median(once["far"]) * 1e3, "ms", None),
        _ratio("one `true`: lease / Ray task", once["far"], once["tasks"], 0.6),
    ]


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


class _Tasks:
    """What people would write without a pool: a task that runs a command."""

    def __init__(self) -> None:
        import ray

        def command() -> int:
            return subprocess.run(["true"], capture_output=True, check=False).returncode

        self._ray = ray
        self._task = ray.remote(num_cpus=_TASK_CPUS)(command)

    def rate(self, count: int) -> float:
        begin = time.perf_counter()
        waiting = [self._task.remote() for _ in range(min(IN_FLIGHT, count))]
        left = count - len(waiting)
        while waiting:
            done, waiting = self._ray.wait(waiting)
            self._ray.get(done)
            if left:
                waiting.append(self._task.remote())
                left -= 1
        return count / (time.perf_counter() - begin)

    def once(self) -> float:
        begin = time.perf_counter()
        self._ray.get(self._task.remote())
        return time.perf_counter() - begin
