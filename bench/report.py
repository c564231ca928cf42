"""Turns a run into text for a person or JSON for a machine, and shows progress on stderr."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence

from bench.arms import ARMS
from bench.goals import GOALS, Goal, Verdict, judge
from bench.measure import Metric, Workload
from bench.run import Results

__all__ = ["as_json", "as_text", "progress"]


def progress() -> Callable[[str], None]:
    """Rewrites one line on a terminal; elsewhere prints a line per step."""
    if not sys.stderr.isatty():
        return lambda text: print(text, file=sys.stderr, flush=True)
    return lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def as_text(results: Results, workloads: Sequence[Workload]) -> str:
    arms = [name for name in ARMS if any(name in row for row in results.samples.values())]
    rows = [["", "unit", *arms, "v. codex"]]
    for metric in _metrics(workloads):
        middles = _medians(metric, results)
        if middles:
            rows.append(
                [
                    metric.label,
                    metric.unit,
                    *(_number(middles.get(arm)) for arm in arms),
                    _gain(metric, middles),
                ]
            )
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} rounds"
    lines = [
        _machine(),
        f"{rounds} in {results.seconds:.0f} s; medians over rounds",
        f"in use by others before each round: {', '.join(f'{100 * share:.0f} %' for share in results.busy)}",
        "",
    ]
    lines += _table(rows)
    verdicts = _verdicts(results, workloads)
    if verdicts:
        goals = [["goal", "", "measured", "in rounds", "bare gets", "wanted", ""]]
        goals += [_goal_row(verdict, metric) for verdict, metric in verdicts]
        lines += ["", *_table(goals), "", _sum([verdict for verdict, _ in verdicts])]
    lines += _notes(results)
    return "\n".join(lines)


def as_json(results: Results, workloads: Sequence[Workload]) -> str:
    document = {
        "machine": _machine(),
        "busy": [round(share, 3) for share in results.busy],
        "rounds": results.rounds,
        "seconds": round(results.seconds, 1),
        "interrupted": results.interrupted,
        "metrics": [
            {
                "key": metric.key,
                "label": metric.label,
                "unit": metric.unit,
                "better": metric.better,
                "medians": _medians(metric, results),
                "samples": results.samples.get(metric.key, {}),
            }
            for metric in _metrics(workloads)
        ],
        "goals": [
            {
                "id": verdict.goal.id,
                "metric": verdict.goal.metric,
                "kind": verdict.goal.kind,
                "against": list(verdict.goal.against),
                "threshold": verdict.goal.threshold,
                "measured": _finite(verdict.measured),
                "lowest": _finite(verdict.lowest),
                "highest": _finite(verdict.highest),
                "limit": _finite(verdict.limit),
                "met": verdict.met,
            }
            for verdict, _ in _verdicts(results, workloads)
        ],
        "missing": results.missing,
        "failures": [
            {"workload": workload, "arm": arm, "reason": reason}
            for (workload, arm), reason in results.failures.items()
        ],
    }
    return json.dumps(document, indent=2)


def _metrics(workloads: Sequence[Workload]) -> list[Metric]:
    return [metric for workload in workloads for metric in workload.metrics]


def _medians(metric: Metric, results: Results) -> dict[str, float]:
    arms = results.samples.get(metric.key, {})
    known = {arm: [v for v in values if v is not None] for arm, values in arms.items()}
    return {arm: statistics.median(values) for arm, values in known.items() if values}


def _verdicts(results: Results, workloads: Sequence[Workload]) -> list[tuple[Verdict, Metric]]:
    metrics = {metric.key: metric for metric in _metrics(workloads)}
    chosen = [goal for goal in GOALS if goal.metric in metrics]
    return [(judge(goal, metrics[goal.metric], results.samples), metrics[goal.metric]) for goal in chosen]


def _gain(metric: Metric, middles: dict[str, float]) -> str:
    ours, codex = middles.get("ours"), middles.get("codex")
    if not ours or not codex:
        return ""
    return _times(codex / ours if metric.better == "lower" else ours / codex)


def _goal_row(verdict: Verdict, metric: Metric) -> list[str]:
    goal = verdict.goal
    met = {True: "met", False: "MISSED", None: "not measured"}[verdict.met]
    spread = ""
    if verdict.lowest is not None and verdict.highest is not None:
        spread = f"{_amount(goal, verdict.lowest)} to {_amount(goal, verdict.highest)}"
    measured = "" if verdict.measured is None else _amount(goal, verdict.measured)
    sign = "<=" if goal.kind in ("cost", "value") else ">" if goal.strict else ">="
    wanted = f"{sign} {_amount(goal, goal.threshold)}"
    limit = "" if verdict.limit is None else _amount(goal, verdict.limit)
    return [goal.id, f"{goal.metric}{_relation(goal, metric)}", measured, spread, limit, wanted, met]


def _relation(goal: Goal, metric: Metric) -> str:
    others = " or ".join(goal.against)
    return {
        "gain": f", better than {others}",
        "cost": f", times {others}",
        "share": f", share of {others}",
        "value": f", {metric.unit}",
    }[goal.kind]


def _amount(goal: Goal, value: float) -> str:
    match goal.kind:
        case "gain" | "cost":
            return _times(value)
        case "share":
            return f"{100 * value:.0f} %"
        case "value":
            return _number(value)


def _sum(verdicts: Sequence[Verdict]) -> str:
    met = sum(verdict.met is True for verdict in verdicts)
    missed = sum(verdict.met is False for verdict in verdicts)
    return f"{met} met, {missed} missed, {len(verdicts) - met - missed} not measured"


def _notes(results: Results) -> list[str]:
    notes = [f"without {arm}: {reason}" for arm, reason in results.missing.items()]
    notes += [f"{workload}: {arm} failed: {reason}" for (workload, arm), reason in results.failures.items()]
    if results.interrupted:
        notes.append("interrupted: only what was measured until then")
    return ["", *notes] if notes else []


def _machine() -> str:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} cores, CPython {platform.python_version()}"


def _times(value: float) -> str:
    return f"{value:.0f}x" if value >= 20 else f"{value:.1f}x" if value >= 2 else f"{value:.2f}x"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to their widest cell: numbers to the right, but the first column to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    numeric = [column > 0 and any(row[column][:1].isdigit() for row in rows) for column in range(len(widths))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
