"""What a pool has done so far, counted from its transitions: for its status and for Prometheus."""

from __future__ import annotations

from collections import Counter as Count
from collections import deque
from typing import TYPE_CHECKING, TypedDict

from ..core.leases import LEASED, LOST, QUEUED, READY, RETURNING, STARTING
from ..observe.registry import Counter, Histogram, MetricRegistry, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.leases import Leases, Transition

# From a lease that finds a ready executor to one that waits for an hour; a server takes 0.1 s.
_BEAT_SECONDS = (
    0.0003,
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
    3.0,
)  # of a way there and back; then it is lost
_SECONDS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)


MAX_KEPT = 1000  # kept workspaces that are told of: the others are on their nodes, too


class QueueStatus(TypedDict):
    """Leases of one shape that wait."""

    shape: str
    groups: dict[str, int]
    oldest_seconds: float


class KeptWorkspace(TypedDict):
    """A workspace that stays on its node."""

    lease: str
    node: str
    path: str
    bytes: int


class PoolStatus(TypedDict):
    """What a pool knows of itself. It has names and counts, and no values of variables."""

    id: str
    engine: str
    engine_says: str
    size: int
    slots: dict[str, int]  # by state
    nodes: dict[str, dict[str, int]]  # the same by node
    queue: list[QueueStatus]
    waiting: int
    leased: int
    served: int
    lost: dict[str, int]  # leases, by reason
    renewals: int
    unconfirmed: int  # slots that were not seen to end
    suspects: list[str]
    kept: list[KeptWorkspace]  # the newest last
    limits: dict[str, int]  # executors by what confines their commands
    mismatched: dict[str, list[str]]  # nodes whose environment differs from the first one's, in what
    draining: bool
    engine_lost: str
    failed: str


class Tally:
    """Counts transitions of one book."""

    def __init__(self, book: Leases) -> None:
        self.engine = ""  # what it says of itself
        self.unconfirmed = 0
        self.kept: deque[KeptWorkspace] = deque(maxlen=MAX_KEPT)
        self.commands = 0  # of clients that are closed
        self.commands_now: Callable[[], int] = int  # of those that are not
        self._book = book
        self._since: dict[str, tuple[float, bool]] = {}  # leases that wait and slots that start; cold or not
        self.registry = registry = MetricRegistry()
        registry.add(Reading("gauge", "outfitter_pool_slots", "Executors.", self._slots, "state"))
        registry.add(Reading("gauge", "outfitter_pool_queued", "Leases that wait.", self._queued, "group"))
        self.waits = registry.add(
            Histogram("outfitter_pool_lease_wait_seconds", "From the request to the executor.", _SECONDS)
        )
        self.starts = registry.add(
            Histogram("outfitter_pool_start_seconds", "Until an executor is ready.", _SECONDS, "cold")
        )
        self.renews = registry.add(
            Histogram(
                "outfitter_pool_renew_seconds",
                "From the end of a lease until its executor is ready.",
                _SECONDS,
            )
        )
        registry.add(
            Reading("counter", "outfitter_pool_commands_total", "Commands that were started.", self._commands)
        )
        self.beats = registry.add(
            Histogram("outfitter_pool_heartbeat_seconds", "Until an executor answers a ping.", _BEAT_SECONDS)
        )
        self.leases = registry.add(Counter("outfitter_pool_leases_total", "Leases that are over.", "state"))
        self.lost = registry.add(Counter("outfitter_pool_lost_total", "Leases that were lost.", "reason"))

    def count(self, told: Transition) -> None:
        if told.what == "lease":
            self._count_lease(told)
        elif told.after in (STARTING, RETURNING):
            self._since.setdefault(told.slot_id, (told.at, told.after == STARTING))
        else:
            since = self._since.pop(told.slot_id, None)
            if since is not None and told.after == READY:
                seconds, cold = told.at - since[0], since[1]
                self.starts.observe(seconds, "yes" if cold else "no")
                if not cold:
                    self.renews.observe(seconds)

    def _count_lease(self, told: Transition) -> None:
        if told.after == QUEUED:
            self._since[told.lease_id] = (told.at, False)
            return
        since = self._since.pop(told.lease_id, None)
        if told.after == LEASED:
            if since is not None:
                self.waits.observe(told.at - since[0])
            return
        self.leases.add(told.after)
        if told.after == LOST:
            self.lost.add(told.reason)

    def _commands(self) -> Mapping[tuple[str, ...], float]:
        return {(): self.commands + self.commands_now()}

    def _slots(self) -> Mapping[tuple[str, ...], float]:
        return Count((slot.state,) for slot in self._book.slots.values())

    def _queued(self) -> Mapping[tuple[str, ...], float]:
        found: Count[tuple[str, ...]] = Count()
        for _, groups, _ in self._book.queues():
            found.update({(group,): count for group, count in groups.items()})
        return found

    def describe(self, pool_id: str, engine: str, now: float, limits: list[str]) -> PoolStatus:
        book = self._book
        nodes: dict[str, Count[str]] = {}
        for slot in book.slots.values():
            nodes.setdefault(slot.node or "?", Count())[slot.state] += 1
        queue: list[QueueStatus] = [
            {"shape": str(shape), "groups": groups, "oldest_seconds": now - oldest}
            for shape, groups, oldest in book.queues()
            if groups
        ]
        slots = {states[0]: int(count) for states, count in self._slots().items()}
        return {
            "id": pool_id,
            "engine": engine,
            "engine_says": self.engine,
            "size": book.bounds.size,
            "slots": slots,
            "nodes": {node: dict(states) for node, states in sorted(nodes.items())},
            "queue": queue,
            "waiting": book.waiting,
            "leased": len(book.leases) - book.waiting,
            "served": int(self.leases.series.get(("done",), 0)),
            "lost": {labels[0]: int(count) for labels, count in self.lost.series.items()},
            "renewals": int(sum(self.starts.series.get(("no",), [0, 0])[:-1])),
            "unconfirmed": self.unconfirmed,
            "suspects": sorted(book.suspects),
            "kept": list(self.kept),
            "limits": dict(Count(limits)),
            "mismatched": {},
            "draining": book.draining,
            "engine_lost": book.engine_lost,
            "failed": book.failed,
        }
