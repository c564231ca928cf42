"""What the environment contract costs: resolving an environment, and shells that keep to it.

`python -m bench.contract SAMPLES`, started in an environment of 200 variables, times resolving inside a
process of its own, beside a plain copy of that environment. It prints JSON: seconds by name.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.client import Launch
from bench.errors import BenchError
from outfitter.env.layer import (
    BASE,
    OVERRIDE,
    PROVIDER,
    REQUESTED,
    RUNTIME_LEVEL,
    SESSION,
    SETUP,
    SNAPSHOT,
    Layer,
    Operation,
)
from outfitter.env.origin import EXECUTOR, REQUEST, RUNTIME
from outfitter.env.policy import Policy
from outfitter.env.resolve import Rules, Stack

__all__ = ["PAIRS", "PROFILE", "interleaved", "resolving", "shells"]

VARIABLES: Final = 200
BATCH: Final = 5  # calls between two looks at the clock, which costs a tenth of the shortest
VALUE: Final = "a value of forty characters, which is usual"[:40]

# What is told as the difference of two: the one that costs more, and what it is compared with.
PAIRS: Final = {"enforce": "quiet", "repair": "plain", "report": "plain"}

# A startup file that changes something, adds two variables and leaves a function behind.
PROFILE: Final = """\
export PATH="$HOME/.local/bin:$PATH" EDITOR=vi
export PAGER=less
greet() { echo "hello, $1"; }
"""


def resolving(samples: int) -> dict[str, float]:
    """Seconds for one environment: resolved warm, from scratch, for a stock client; and copied."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"}
    env |= {f"VARIABLE_{number:03}": VALUE for number in range(VARIABLES - len(env))}
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    argv = [sys.executable, "-m", "bench.contract", str(samples)]
    done = subprocess.run(argv, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(done.stderr.strip().splitlines()[-1])
    found: dict[str, float] = json.loads(done.stdout)
    return found


def shells(link: str) -> dict[str, Launch]:
    """The shells that are compared. `link` leads to bash under a name that no server takes for a shell."""
    usual = dict.fromkeys((f"VARIABLE_{number:02}" for number in range(20)), VALUE)
    policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": usual, "includeOnly": []}

    def launch(*argv: str, **contract: str) -> Launch:
        return Launch(*argv, more={"envPolicy": policy, "contract": contract})

    return {
        "quiet": launch(link, "--noprofile", "--norc", "-c", "true"),
        "enforce": launch("bash", "-lc", "true"),
        "plain": launch(link, "-lc", "true"),
        "repair": launch("bash", "-lc", "true", startup="repair"),
        "report": launch("bash", "-lc", "true", startup="report"),
    }


def interleaved(
    ways: Mapping[str, Callable[[], float]], samples: int, seconds: float
) -> dict[str, list[float]]:
    """Each way in turn, so that all meet the same machine: as many turns as fit into the time."""
    for way in ways.values():
        way()
    deadline = time.perf_counter() + seconds
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(samples):
        for name, way in ways.items():
            times[name].append(way())
        if time.perf_counter() > deadline:
            break
    return times


# Inside the process of its own


def _layers(base: Mapping[str, str]) -> list[Layer]:
    """Layers 0 to 6: each adds variables, and some that a lower one has; three work on PATH."""

    def some(word: str, count: int, *others: str) -> dict[str, str]:
        return dict.fromkeys((*(f"{word}_{number}" for number in range(count)), *others), VALUE)

    def path(op: str, *values: str) -> tuple[Operation, ...]:
        return (Operation("PATH", op, values),)

    return [
        Layer(BASE, "base", EXECUTOR, base),
        Layer(
            SNAPSHOT,
            "login-shell",
            EXECUTOR,
            some("LOGIN", 8, "VARIABLE_001", "VARIABLE_002"),
            operations=path("replace", "/home/a/bin", "/usr/local/bin", "/usr/bin", "/bin"),
        ),
        Layer(
            PROVIDER,
            "project",
            EXECUTOR,
            some("PROJECT", 8, "VARIABLE_003", "LOGIN_1"),
            operations=path("prepend", "/srv/project/bin", "/srv/project/tools"),
        ),
        Layer(SETUP, "setup", EXECUTOR, some("SETUP", 8, "PROJECT_1"), unset=["VARIABLE_004"]),
        Layer(SESSION, "session", EXECUTOR, some("SESSION", 8, "SETUP_1")),
        Layer(
            OVERRIDE, "user", EXECUTOR, some("USER", 8, "SESSION_1"), operations=path("append", "/opt/bin")
        ),
    ]


def _policy() -> Policy:
    return Policy("all", False, ("AWS_*", "VARIABLE_005"), (("CI", "1"),), ())


def main(arguments: Sequence[str]) -> None:
    samples = int(arguments[0])
    # The six layers above add eight variables each; two more come, and two of the base go.
    base = dict(list(os.environ.items())[: VARIABLES - 6 * 8])
    request = Layer(REQUESTED, "request", REQUEST, dict.fromkeys((f"REQUEST_{n}" for n in range(8)), VALUE))
    stock = Layer(REQUESTED, "request", REQUEST, request.values, author="client")
    runtime = (Layer(RUNTIME_LEVEL, "runtime", RUNTIME, {"PATH": "/bin", "SHLVL": "1"}, where_unset=True),)
    stack = Stack(_layers(base), [_policy()], Rules())
    count = len(stack.resolve(request, runtime).values)
    if count != VARIABLES or len(os.environ) != VARIABLES:
        raise SystemExit(f"{count} of {len(os.environ)} variables instead of {VARIABLES}")

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def once() -> float:
            begin = time.perf_counter()
            for _ in range(BATCH):
                work()
            return (time.perf_counter() - begin) / BATCH

        return once

    ways = {
        "resolve": timed(lambda: stack.resolve(request, runtime).values),
        "stock": timed(lambda: stack.resolve(stock, runtime).values),
        "fold": timed(lambda: Stack(_layers(base), [_policy()], Rules()).resolve(request, runtime).values),
        "copy": timed(lambda: dict(os.environ)),
    }
    times = interleaved(ways, samples, seconds=10)
    print(json.dumps({name: statistics.median(values) for name, values in times.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
