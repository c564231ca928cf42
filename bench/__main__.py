"""The command line: which arms and workloads, how many rounds, text or JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.arms import ARMS
from bench.measure import FULL, QUICK, Workload
from bench.report import as_json, as_text, progress
from bench.run import run
from bench.workloads import WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Compare Outfitter with the reference, a peer and the bare limit, side by side.",
    )
    parser.add_argument("--quick", action="store_true", help="a short run: two rounds, fewer samples")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds (default 5; 2 with --quick)")
    parser.add_argument(
        "--only",
        type=_workloads,
        default=list(WORKLOADS),
        metavar="NAME[,NAME]",
        help=f"goals (P1 ...) or workloads: {', '.join(w.name for w in WORKLOADS)}",
    )
    parser.add_argument(
        "--arms", type=_arms, default=list(ARMS), metavar="ARM[,ARM]", help=f"from: {', '.join(ARMS)}"
    )
    parser.add_argument("--json", action="store_true", help="all values and verdicts as JSON on stdout")
    parser.add_argument(
        "--pool",
        nargs="?",
        const="local,ray",
        metavar="ENGINE[,ENGINE]",
        help="measure pools on these engines (default local,ray), and nothing else",
    )
    options = parser.parse_args(arguments)
    if options.pool is not None:
        from bench import pool

        rounds = options.rounds or (5 if options.quick else 20)
        return pool.main(options.pool.split(","), quick=options.quick, rounds=rounds, as_json=options.json)

    say = progress()
    rounds = options.rounds or (2 if options.quick else 5)
    results = run(options.only, options.arms, rounds, QUICK if options.quick else FULL, say)
    if sys.stderr.isatty():
        say("")  # takes the progress line away
    print((as_json if options.json else as_text)(results, options.only))
    return 130 if results.interrupted else 0


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("a number from 1 on")
    return int(text)


def _workloads(text: str) -> list[Workload]:
    wanted = text.split(",")
    known = {word for workload in WORKLOADS for word in (workload.name, *workload.goals)}
    if unknown := [word for word in wanted if word not in known]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return [w for w in WORKLOADS if w.name in wanted or any(goal in wanted for goal in w.goals)]


def _arms(text: str) -> list[str]:
    wanted = text.split(",")
    if unknown := [word for word in wanted if word not in ARMS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return [name for name in ARMS if name in wanted]


if __name__ == "__main__":
    sys.exit(main())
