"""The goals, as data, and how a measured run is held against them.

Ratios are medians over rounds of the two arms' values; the range beside it is that of the single rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench.measure import Metric

__all__ = ["GOALS", "Goal", "Samples", "Verdict", "judge"]

# Metric key, then arm name, then one value per round; None where the arm had none in that round.
Samples = Mapping[str, Mapping[str, Sequence[float | None]]]


@dataclass(frozen=True)
class Goal:
    """How `ours` should compare in one metric.

    gain: how many times better than the best of `against`, at least (or more than) the threshold
    cost: how many times as much as `against`, at most the threshold
    share: how much of what `against` reaches, at least the threshold
    value: the number itself, at most the threshold
    """

    id: str
    metric: str
    kind: Literal["gain", "cost", "share", "value"]
    threshold: float
    against: tuple[str, ...] = ("codex",)
    strict: bool = False


@dataclass(frozen=True)
class Verdict:
    """What was measured for a goal, its range over single rounds, and what the bare limit would have got.

    The last tells a goal that is missed from one that this machine does not allow.
    """

    goal: Goal
    measured: float | None
    lowest: float | None
    highest: float | None
    limit: float | None

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        if self.goal.kind in ("cost", "value"):
            return self.measured <= self.goal.threshold
        if self.goal.strict:
            return self.measured > self.goal.threshold
        return self.measured >= self.goal.threshold


BEST_CODEX: Final = ("codex", "codex32")
BARE: Final = ("bare",)
NPM: Final = ("npm",)

GOALS: Final = (
    Goal("P1", "true.p50", "gain", 40),
    Goal("P1", "true.p50", "cost", 1.5, BARE),
    Goal("P2", "trueq.p50", "gain", 6),
    Goal("P2", "trueq.p95", "gain", 5),
    Goal("P2", "trueq.p50", "cost", 1.5, BARE),
    Goal("P3", "bash.p50", "gain", 8),
    Goal("P3", "bashq.p50", "gain", 2),
    Goal("P4", "parallel.8", "gain", 5, BEST_CODEX),
    Goal("P4", "parallel.32", "gain", 5, BEST_CODEX),
    Goal("P4", "parallel.8", "share", 0.55, BARE),
    Goal("P4", "parallel.32", "share", 0.55, BARE),
    Goal("P5", "output.rate", "gain", 4),
    Goal("P5", "output.cpu", "cost", 1 / 5),
    Goal("P5", "output.rate", "share", 0.5, BARE),
    Goal("P6", "lines.time", "gain", 2),
    Goal("P7", "sleepers.start", "gain", 8),
    Goal("P7", "sleepers.rss", "value", 10, ()),
    Goal("P8", "echo.pipe.p50", "gain", 1.2),
    Goal("P8", "echo.pty.p50", "gain", 1.2),
    Goal("P8", "files.stat", "gain", 1.2),
    Goal("P9", "files.read", "gain", 3),
    Goal("P9", "files.read64", "gain", 4),
    Goal("P9", "files.write16", "gain", 1.2),
    Goal("P10", "blocks.rate", "gain", 3),
    Goal("P11", "trees.walk", "gain", 2),
    Goal("P11", "trees.list", "gain", 1.4),
    Goal("P12", "busy.p95", "gain", 5),
    Goal("P12", "walking.p95", "gain", 1.5),
    Goal("P13", "cold.ready", "gain", 0.4),
    Goal("P13", "cold.first", "gain", 0.7),
    Goal("P13", "cold.ready", "gain", 1, NPM, strict=True),
    Goal("P13", "cold.first", "gain", 1, NPM, strict=True),
    Goal("P13", "cold.ready", "cost", 3, BARE),
    Goal("P14", "idle.rss", "cost", 1 / 2),
    Goal("P15", "contract.resolve", "value", 0.3, ()),
    Goal("P16", "contract.explain", "value", 100, ()),
    Goal("P17", "contract.enforce.more", "value", 1, ()),
    Goal("P17", "contract.repair.more", "value", 1, ()),
    Goal("P17", "contract.report.more", "value", 1, ()),
    Goal("P18", "projects.direnv.more", "value", 0.2, ()),
    Goal("P18", "projects.mise.more", "value", 0.2, ()),
    Goal("P18", "projects.nix.more", "value", 0.2, ()),
    Goal("P18", "projects.uv.more", "value", 0.2, ()),
    Goal("P19", "gate.user", "value", 0.1, ()),
    Goal("P19", "gate.token", "value", 0.1, ()),
    Goal("P19", "gate.signed", "value", 0.1, ()),
    Goal("P20", "sandbox.readonly.more", "value", 5, ()),
    Goal("P20", "sandbox.workspace.more", "value", 5, ()),
    Goal("P20", "confined.reads.more", "value", 0.2, ()),
    Goal("P20", "confined.parts.more", "value", 0.2, ()),
    Goal("P20", "sandbox.readonly.cpu", "gain", 3),
    Goal("P20", "sandbox.workspace.cpu", "gain", 3),
    Goal("P21", "network.connection", "value", 4, ()),
    Goal("P21", "network.slower", "value", 1.25, ()),
    Goal("P22", "http.small", "gain", 1.5),
    Goal("P22", "http.large", "gain", 2),
    Goal("P22", "discovery.roots", "gain", 2),
    Goal("P22", "discovery.first", "gain", 2),
    Goal("P23", "observe.metrics.command", "value", 5, ()),
    Goal("P24", "relay.true", "gain", 3),
    Goal("P24", "relay.more", "value", 0.5, ()),
    Goal("P24", "relay.output", "gain", 3),
    Goal("P25", "relay.idle.rss", "value", 200, ()),
    Goal("P25", "relay.stream.each", "value", 40, ()),
    Goal("P25", "relay.turns.executors", "value", 1.5, ()),
    Goal("P25", "relay.turns.streams", "value", 2, ()),
    Goal("P25", "relay.commands.executors", "value", 1.5, ()),
    Goal("P25", "relay.commands.streams", "value", 2, ()),
    Goal("P25", "relay.commands.service", "value", 40, ()),
    Goal("P25", "relay.commands.executor", "value", 40, ()),
    Goal("P26", "commandline.version", "value", 2, ()),
    Goal("P26", "commandline.run", "value", 5, ()),
    Goal("P26", "commandline.on", "value", 5, ()),
)


def judge(goal: Goal, metric: Metric, samples: Samples) -> Verdict:
    arms = samples.get(metric.key, {})
    limit = None if "bare" in goal.against else _middle(goal, metric, arms, "bare")
    rounds = max((len(values) for values in arms.values()), default=0)
    single = [
        value
        for number in range(rounds)
        if (value := _compare(goal, metric, {arm: values[number] for arm, values in arms.items()}, "ours"))
        is not None
    ]
    return Verdict(
        goal,
        _middle(goal, metric, arms, "ours"),
        min(single, default=None),
        max(single, default=None),
        limit if goal.kind == "gain" else None,
    )


def _middle(goal: Goal, metric: Metric, arms: Mapping[str, Sequence[float | None]], who: str) -> float | None:
    known = {arm: [value for value in values if value is not None] for arm, values in arms.items()}
    middles = {arm: statistics.median(values) if values else None for arm, values in known.items()}
    return _compare(goal, metric, middles, who)


def _compare(goal: Goal, metric: Metric, values: Mapping[str, float | None], who: str) -> float | None:
    """The number the goal speaks of, for arm `who`; None when a side of it was not measured."""
    mine = values.get(who)
    if mine is None or goal.kind == "value":
        return mine
    others = [value for arm in goal.against if (value := values.get(arm)) is not None]
    if not others:
        return None
    other = min(others) if metric.better == "lower" else max(others)
    above, below = (other, mine) if goal.kind == "gain" and metric.better == "lower" else (mine, other)
    # Server CPU has a tick of 10 ms, so a zero is possible and means "less than can be seen".
    return above / below if below else float("inf")
