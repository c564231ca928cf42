"""What a workload is, and how its numbers are taken.

A workload is data plus up to three functions, one per kind of arm. An arm without a function, or not named,
sits the workload out. Every function returns one value per metric; the median over rounds is the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from bench.arms import BareArm, ExecArm, SwerexArm

__all__ = [
    "FULL",
    "QUICK",
    "TRIPS",
    "Effort",
    "Metric",
    "Values",
    "Workload",
    "latency",
    "made_file",
    "percentile",
    "samples",
]

Values = dict[str, float]


@dataclass(frozen=True)
class Effort:
    """How long one arm is measured in one round."""

    samples: int
    seconds: float
    starts: int
    streams: int


FULL: Final = Effort(samples=200, seconds=1.2, starts=3, streams=5)
QUICK: Final = Effort(samples=60, seconds=0.4, starts=2, streams=2)
TRIPS: Final = 10  # times as many samples of what takes a tenth of a millisecond


@dataclass(frozen=True)
class Metric:
    key: str
    label: str
    unit: str
    better: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True)
class Workload:
    name: str
    goals: tuple[str, ...]
    metrics: tuple[Metric, ...]
    exec: Callable[[ExecArm, Effort], Values]
    swerex: Callable[[SwerexArm, Effort], Values] | None = None
    bare: Callable[[BareArm, Effort], Values] | None = None
    # Which exec-servers take part; the wider codex only where width can matter, which saves minutes.
    servers: tuple[str, ...] = ("ours", "codex")
    # Memory hardly varies, so it is not measured in every round.
    max_rounds: int | None = None
    # False when it starts servers of its own and leaves the one that stays up alone.
    needs_server: bool = True


def latency(prefix: str, once: Callable[[], float], effort: Effort) -> Values:
    times = samples(once, effort)
    return {f"{prefix}.p50": percentile(times, 50) * 1e3, f"{prefix}.p95": percentile(times, 95) * 1e3}


def samples(once: Callable[[], float], effort: Effort) -> list[float]:
    """As many as fit, so that an arm that waits 50 ms each time does not take all the minutes."""
    for _ in range(2):
        once()
    deadline = time.perf_counter() + effort.seconds
    times: list[float] = []
    while len(times) < effort.samples and time.perf_counter() < deadline:
        times.append(once())
    return times


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def made_file(folder: str, name: str, size: int) -> str:
    """The URI of a file of this size, which is in memory."""
    block = os.urandom(1 << 20)
    with open(os.path.join(folder, name), "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
    return f"file://{folder}/{name}"
