"""Runs the rounds: every workload, on every arm in turn, and collects the values."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench import procfs
from bench.arms import Arm, BareArm, ExecArm, SwerexArm, Workshop, make_arm
from bench.errors import BenchError
from bench.measure import Effort, Values, Workload

__all__ = ["Results", "run"]

GLANCE: Final = 0.3  # seconds; long enough to see a neighbour, short beside a round


@dataclass
class Results:
    """What a run has measured so far; complete enough to report after every step."""

    rounds: int
    samples: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # arm: why it took no part
    failures: dict[tuple[str, str], str] = field(default_factory=dict)  # workload, arm: what went wrong
    busy: list[float] = field(default_factory=list)  # share of the cores in use before each round
    seconds: float = 0.0
    interrupted: bool = False

    def add(self, number: int, arm: str, values: Values) -> None:
        for key, value in values.items():
            rounds = self.samples.setdefault(key, {}).setdefault(arm, [None] * self.rounds)
            rounds[number] = value


def run(
    workloads: Sequence[Workload],
    names: Sequence[str],
    rounds: int,
    effort: Effort,
    say: Callable[[str], None],
) -> Results:
    """Measures until done or interrupted; an arm that fails a workload is left out of it from then on."""
    results = Results(rounds)
    begin = time.monotonic()
    with Workshop() as workshop:
        try:
            arms = _prepare(workloads, names, workshop, results, say)
            for number in range(rounds):
                results.busy.append(procfs.busy_share(GLANCE))
                # Each round begins with another arm, so that none is always the one after the heaviest.
                turn = number % max(1, len(arms))
                _round(number, workloads, arms[turn:] + arms[:turn], effort, results, say)
        except KeyboardInterrupt:
            results.interrupted = True
    results.seconds = time.monotonic() - begin
    return results


def _prepare(
    workloads: Sequence[Workload],
    names: Sequence[str],
    workshop: Workshop,
    results: Results,
    say: Callable[[str], None],
) -> list[Arm]:
    arms: list[Arm] = []
    for name in names:
        say(f"preparing {name}")
        try:
            arm = make_arm(name, workshop, say)
            mine = [w for w in workloads if _measure(w, arm) is not None]
            if any(w.needs_server for w in mine):
                arm.address  # noqa: B018 - starts the server, so that a broken arm is known before the first round
        except BenchError as error:
            results.missing[name] = str(error)
            say(f"without {name}: {error}")
        else:
            if mine:
                arms.append(arm)
    return arms


def _round(
    number: int,
    workloads: Sequence[Workload],
    arms: Sequence[Arm],
    effort: Effort,
    results: Results,
    say: Callable[[str], None],
) -> None:
    for workload in workloads:
        if workload.max_rounds is not None and number >= workload.max_rounds:
            continue
        for arm in arms:
            measure = _measure(workload, arm)
            if measure is None or (workload.name, arm.name) in results.failures:
                continue
            say(f"round {number + 1}/{results.rounds}: {workload.name}: {arm.name}")
            try:
                results.add(number, arm.name, measure(effort))
            except (BenchError, OSError) as error:
                results.failures[workload.name, arm.name] = str(error)
                say(f"{workload.name}: {arm.name} failed: {error}")


def _measure(workload: Workload, arm: Arm) -> Callable[[Effort], Values] | None:
    """The workload's function for this kind of arm, if it takes part."""
    match arm:
        case ExecArm():
            by_exec = workload.exec
            return (lambda effort: by_exec(arm, effort)) if arm.name in workload.servers else None
        case SwerexArm():
            by_swerex = workload.swerex
            return (lambda effort: by_swerex(arm, effort)) if by_swerex else None
        case BareArm():
            by_bare = workload.bare
            return (lambda effort: by_bare(arm, effort)) if by_bare else None
