"""What a million executors would do to many services, computed: `python -m bench.fleet`.

Nothing here opens a socket. Costs are arguments, with what was measured (docs/topics/relay-capacity.md) as
defaults; who comes back when is decided by the code of the product, `core.redialling`.
"""

from __future__ import annotations

import argparse
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import heapify, heappop, heappush
from typing import Final

from outfitter.core.redialling import Redialling

__all__ = ["Ring", "Storm", "storm", "writes_per_second"]

POINTS: Final = 160  # of each service on the ring
PATIENCE: Final = 5.0  # seconds after which the service gives up a question to its store, and says 503
DAY: Final = 86_400


class Ring:
    """Consistent hashing, as proxies do it: an environment belongs to the next point on the ring."""

    def __init__(self, services: Iterable[str]) -> None:
        points = sorted((_point(f"{one}#{number}"), one) for one in services for number in range(POINTS))
        self._places = [place for place, _ in points]
        self._owners = [owner for _, owner in points]

    def owner(self, environment_id: str) -> str:
        return self._owners[bisect_right(self._places, _point(environment_id)) % len(self._owners)]


def _point(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Storm:
    """How a service's executors came back after it had been away."""

    back: float  # seconds after its return until 999 of 1,000 were there
    peak: int  # attempts in the busiest second after its return
    attempts: float  # of one executor, on average


def storm(executors: int, away: float, admission: float, chance: Callable[[], float]) -> Storm:
    """A service with so many executors ends and is back after `away` seconds; each that comes costs it
    `admission` seconds, one after the other. Who would wait for too long gets 503, and comes again."""
    table = [Redialling() for _ in range(executors)]
    coming = [(one.lost(DAY, chance())[1], number) for number, one in enumerate(table)]
    heapify(coming)
    attempts, free = 0, away
    arrivals: Counter[int] = Counter()
    back: list[float] = []
    while coming:
        now, number = heappop(coming)
        attempts += 1
        if now >= away:
            arrivals[int(now - away)] += 1
            if free - now <= PATIENCE:
                free = max(free, now) + admission
                back.append(free - away)
                continue
        heappush(coming, (now + table[number].unreachable(503, chance())[1], number))
    back.sort()
    return Storm(back[executors * 999 // 1000 - 1], max(arrivals.values()), attempts / executors)


def writes_per_second(executors: int, comebacks: float, connections: float) -> float:
    """Statements that change the store, if each executor comes back and is reached so often a day: four when
    it comes back (it is gone, it is there, when it was last seen), three with each connection."""
    return executors * (4 * comebacks + 3 * connections) / DAY


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--executors", type=int, default=1_000_000)
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument(
        "--admission", type=float, default=0.0015, help="seconds of a service for each that comes"
    )
    options = parser.parse_args(arguments)
    _say_ring(options.executors, options.services)
    _say_storms(options.executors // options.services, options.admission)
    print("\nchanges of all stores per second, if each executor comes back once a day and is reached")
    for connections in (1, 20, 200):
        print(f"  {connections:4} times a day: {writes_per_second(options.executors, 1, connections):8,.0f}")


def _say_ring(executors: int, services: int) -> None:
    names = [f"service-{number}" for number in range(services)]
    before, after = Ring(names), Ring([*names, "another"])
    ids = [f"environment-{number}" for number in range(executors)]
    owners = [before.owner(one) for one in ids]
    load = Counter(owners)
    moved = sum(after.owner(one) != owner for one, owner in zip(ids, owners, strict=True))
    print(f"{executors:,} environments on {services} services by hash:")
    print(f"  least {min(load.values()):,}, most {max(load.values()):,} on one")
    print(f"  another service moves {moved:,} ({100 * moved / executors:.2f} %)")


def _say_storms(executors: int, admission: float) -> None:
    print(f"\n{executors:,} executors of one service, which takes {1 / admission:,.0f} a second:")
    print("  away     chance     all back after  busiest second  attempts each")
    for away in (0.0, 10.0, 60.0, 600.0):
        for name, chance in (("yes", random.Random(1).random), ("no", lambda: 1.0)):
            found = storm(executors, away, admission, chance)
            print(
                f"  {away:5.0f} s  {name:7}  {found.back:13.1f} s  {found.peak:14,}  {found.attempts:13.1f}"
            )


if __name__ == "__main__":
    main()
