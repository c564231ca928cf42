"""10,000 tasks on 64 executors of 16 nodes, 40 of which fall silent one after the other, in virtual time.

The book decides as in a pool; this file plays the engine, the network, the nodes and the callers. Half of the
silent nodes are dead. The others are cut off: their commands go on until their own fence ends them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random
from typing import TYPE_CHECKING

from outfitter.core.leases import (
    BEAT,
    DEAD,
    FENCE,
    LOSE,
    OFFER,
    RENEW,
    START,
    STOP,
    LeaseFence,
    Leases,
    PoolBounds,
)
from outfitter.core.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS, SIZE, NODES, SILENT = 10_000, 64, 16, 40
GROUPS = {"a": 7000, "b": 2500, "c": 470, "d": 30}


class Simulation:
    """`fence`: how long a retry waits for a lost executor. Executors always keep to their own."""

    def __init__(self, fence: float, seed: int = 1) -> None:
        self.fence = fence
        self.random = Random(seed)
        self.now = 0.0
        self.order = count()
        self.due: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.book = Leases(PoolBounds(SIZE, Shape(1)))
        self.book.nodes = NODES
        self.silent: dict[str, tuple[float, bool]] = {}  # nodes: since when, and dead or cut off
        self.nodes: dict[str, str] = {}  # of slots
        self.ran: dict[str, list[tuple[float, float]]] = {}  # when commands of a task ran, on any executor
        self.outcomes: dict[str, str] = {}
        self.detected: list[float] = []
        self.offered: list[str] = []
        self.losses = 0

    def at(self, seconds: float, call: Callable[..., None], *args: object) -> None:
        heappush(self.due, (self.now + seconds, next(self.order), call, args))

    def run(self) -> None:
        names = [f"{group}{number}" for group, size in GROUPS.items() for number in range(size)]
        for name in names:
            self.ask(f"{name}/1")
        for number in range(SILENT):
            self.at(3.0 + number * 3.7, self.fall_silent, number % 2 == 0)
        self.tick()
        while len(self.outcomes) < TASKS:
            self.now, _, call, args = heappop(self.due)
            call(*args)
            self.act()

    def ask(self, lease: str) -> None:
        # Second attempts are a group of their own: behind thousands of others, no fence would be needed.
        group = lease[0] if lease.endswith("/1") else "again"
        self.book.request(lease, Shape(1), self.now, group=group)

    def tick(self) -> None:
        self.book.tick(self.now)
        self.at(1.0, self.tick)

    def act(self) -> None:
        for act in self.book.take():
            if act.do == START:
                self.start(act.slot_id, act.avoid)
            elif act.do == RENEW:
                self.book.renewing(act.slot_id, self.now)
                self.at(0.07, self.answer, act.slot_id)
            elif act.do == OFFER:
                self.begin(act.slot_id, act.lease_id)
            elif act.do == LOSE:
                self.retry(act.lease_id)
            elif act.do == STOP:
                self.at(0.02, self.stopped, act.slot_id)

    # The engine

    def start(self, slot: str, avoid: tuple[str, ...]) -> None:
        # As Ray does right after a node was killed: it places executors there until it notices.
        nodes = [f"n{number}" for number in range(NODES) if f"n{number}" not in avoid]
        self.nodes[slot] = self.random.choice(nodes)
        self.at(0.4 + self.random.random() * 0.3, self.answer, slot)

    def answer(self, slot: str) -> None:
        if self.nodes[slot] in self.silent:
            self.at(DEAD, self.fail, slot)
        else:
            self.book.ready(slot, self.nodes[slot], self.now)

    def fail(self, slot: str) -> None:
        self.book.start_failed(slot, self.nodes[slot], "cannot be dialled", self.now)

    def stopped(self, slot: str) -> None:
        self.book.stopped(slot, self.now)

    # The network

    def fall_silent(self, dead: bool) -> None:
        node = self.random.choice(
            [f"n{number}" for number in range(NODES) if f"n{number}" not in self.silent]
        )
        self.silent[node] = (self.now, dead)
        for slot in [slot for slot, entry in self.book.slots.items() if entry.node == node]:
            # The last beat was answered up to a second ago; that is when we begin to count.
            self.at(DEAD - self.random.random() * BEAT, self.lose, slot, self.now)
        self.at(20.0, self.silent.pop, node)

    def lose(self, slot: str, since: float) -> None:
        self.detected.append(self.now - since)
        self.book.lost(slot, "silent", "", self.now)

    # Tasks

    def begin(self, slot: str, lease: str) -> None:
        self.offered.append(lease)
        task = lease.split("/")[0]
        # A task must be longer than it takes to notice a loss, or no second attempt could meet the first.
        seconds = self.random.random() * (20 if self.random.random() < 0.1 else 2)
        silent = self.silent.get(self.nodes[slot])
        if silent is not None:  # nothing arrives there
            return
        place = len(self.ran.setdefault(task, []))
        self.ran[task].append((self.now, self.now + seconds))
        self.at(seconds, self.end, slot, lease, task, place)

    def end(self, slot: str, lease: str, task: str, place: int) -> None:
        node = self.nodes[slot]
        began, _ = self.ran[task][place]
        since, dead = self.silent.get(node, (float("inf"), False))
        if began <= since <= self.now:
            if dead:
                self.ran[task][place] = (began, since)
            else:  # what it heard of us last was up to a beat earlier, which only ends it earlier
                self.ran[task][place] = (began, min(self.now, since + FENCE))
            return
        if lease in self.book.leases:
            self.book.returned(lease, self.now)
            self.outcomes[task] = "done"

    def retry(self, lease: str) -> None:
        self.losses += 1
        task, attempt = lease.split("/")
        if int(attempt) == 3:
            self.outcomes[task] = "lost"
            return
        left = LeaseFence(self.now, self.fence).left(self.now)
        self.at(left, self.ask, f"{task}/{int(attempt) + 1}")

    # What came of it

    def overlaps(self) -> int:
        """Tasks of which an attempt began before the one before had ended."""
        found = 0
        for times in self.ran.values():
            found += any(later[0] < earlier[1] for earlier, later in pairwise(times))
        return found


def test_ten_thousand_tasks_are_decided_and_no_two_attempts_overlap() -> None:
    simulation = Simulation(FENCE)
    simulation.run()
    assert len(simulation.outcomes) == TASKS
    assert simulation.losses > 50  # or nothing was tried
    assert simulation.overlaps() == 0
    assert max(simulation.detected) <= DEAD
    assert [lease for lease in simulation.offered[:SIZE] if lease.startswith("d")]


def test_without_the_fence_attempts_overlap() -> None:
    """Or the test above would prove nothing."""
    simulation = Simulation(0.0)
    simulation.run()
    assert simulation.overlaps() > 20
