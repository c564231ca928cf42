"""Who gets the next executor of a pool: leases that wait, and slots that serve them, as two tables.

    lease   queued ── offered ──▶ leased ── returned ──▶ done
              ├── cancelled ──▶ cancelled  └── lost ──▶ lost
              └── refused ──▶ refused

    slot    starting ─ ready ─▶ ready ─ offered ─▶ leased ─ returned ─▶ returning ─ renewed ─▶ starting
              any of them ── drained ──▶ draining ── stopped ──▶ stopped
              any of them ── lost ──▶ lost

Two rules: a lease is given once, and a slot has one lease at a time. Time is an argument. What is to be done
is said in `Act`s, which the caller takes after each call; what happened is told in `Transition`s. Where a
slot runs is the engine's business: nodes are names here, some of them suspect for a while.
"""

from __future__ import annotations

from ..errors import LeaseRefused
from ..record import quick_record, record
from ..stdlib import OrderedDict
from .groups import GroupQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .shape import Shape

# States of leases, of slots, or of both.
QUEUED, LEASED, DONE, CANCELLED, REFUSED = "queued", "leased", "done", "cancelled", "refused"
STARTING, READY, RETURNING, DRAINING = "starting", "ready", "returning", "draining"
LOST, STOPPED = "lost", "stopped"

OFFERED, RETURNED, RENEWED, DRAINED = "offered", "returned", "renewed", "drained"

LEASE_TABLE: dict[tuple[str, str], str] = {
    (QUEUED, OFFERED): LEASED,
    (QUEUED, CANCELLED): CANCELLED,
    (QUEUED, REFUSED): REFUSED,
    (LEASED, RETURNED): DONE,
    (LEASED, LOST): LOST,
}
SLOT_TABLE: dict[tuple[str, str], str] = {
    (STARTING, READY): READY,
    (READY, OFFERED): LEASED,
    (LEASED, RETURNED): RETURNING,
    (RETURNING, RENEWED): STARTING,
    **{(state, DRAINED): DRAINING for state in (STARTING, READY, LEASED, RETURNING)},
    **{(state, LOST): LOST for state in (STARTING, READY, LEASED, RETURNING, DRAINING)},
    # The lease of a slot that drains goes on to its end.
    (DRAINING, RETURNED): DRAINING,
    (DRAINING, STOPPED): STOPPED,
}

# What is to be done: `Act.do`.
START, OFFER, RENEW, STOP, REFUSE, LOSE = "start", "offer", "renew", "stop", "refuse", "lose"

MAX_SLOTS = 4096  # one socket and one heartbeat each where the pool runs
# A refusal comes before memory runs out: some 300 bytes each here, some KiB in a caller.
MAX_WAITING = 100_000
MAX_STARTING = 32  # a node forks a few workers per second; more would only queue inside the engine
MAX_LEASES, MAX_AGE = 100, 24 * 3600.0  # of a slot: what leaks, leaks for a day
SUSPECT_SECONDS = 60.0  # longer than an engine takes to notice with its defaults
ENGINE_SECONDS = 60.0  # without its engine a pool goes on for so long, then it fails
NODE_FAILURES = 3  # starts in a row that make a node suspect
TOGETHER_SECONDS = 1.0  # two executors of a node that end within it: those of a killed node take 0.1 s
POOL_FAILURES = 5  # starts in a row that fail the pool instead of trying for ever
_SLOW_STARTS, _SLOW_SECONDS = 3.0, 5.0  # times the median, and no less: then a slot is asked for once more
_STARTS_KEPT = 32  # of which the median is taken
_FAILURES_KEPT = 32  # more than it takes to fail the pool
_PAUSE, _LONGEST_PAUSE = 0.25, 5.0  # before another start, from the third failure in a row; doubled with each

_NEVER = float("inf")

BEAT, DEAD = 1.0, 4.0  # of a leased slot: seconds to report a loss, three lost packets to forgive
READY_BEAT, READY_DEAD = 5.0, 8.0  # of one that nobody has: its loss disturbs nobody, and there may be many
SERVER_BEAT = 2.0  # the executor's own, for clients that say nothing; FENCE is the bound, and four of these
RETENTION = 6.0  # a server keeps a session for so long: a client that comes back does so within it
FENCE = DEAD + RETENTION + 1.0  # after so long without a client nothing of a lease runs; 1 s is for clocks

SUSPICIOUS = ("node-lost", "silent")  # losses that say something about the node
ENDED = "executor-ended"  # a loss that does so if another one comes at the same time


class LeaseFence:
    """When the commands of a lost lease have certainly ended.

    The executor counts from the last sign of life that it had of us, and we from the end of our connection,
    which is later. What the executor's own keeper has seen to be over is over at once.
    """

    __slots__ = ("_until",)

    def __init__(self, ended: float, seconds: float = FENCE) -> None:
        self._until = ended + seconds

    def confirm(self, now: float) -> None:
        self._until = min(self._until, now)

    def left(self, now: float) -> float:
        """Seconds to wait before anything of the task may run again."""
        return max(0.0, self._until - now)


@record
class PoolBounds:
    """What a pool may have. `default` is the shape of which `warm` executors are kept ready."""

    size: int
    default: Shape
    warm: int = 0
    idle: float = 300.0
    start_timeout: float = 120.0
    max_starting: int = MAX_STARTING
    max_waiting: int = MAX_WAITING


@quick_record
class Act:
    """What the pool does next: `start` a slot, `offer` it, and so on."""

    do: str
    slot_id: str = ""
    lease_id: str = ""
    shape: Shape | None = None
    avoid: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""


@quick_record
class Transition:
    """A slot or a lease (`what`) has changed its state; the other one had to do with it, or is empty."""

    at: float
    what: str  # "slot" or "lease"
    slot_id: str
    lease_id: str
    before: str
    after: str
    reason: str = ""
    node: str = ""


class LeaseEntry:
    """One lease."""

    __slots__ = ("deadline", "group", "lease_id", "shape", "since", "slot_id", "state")

    def __init__(self, lease_id: str, shape: Shape, group: str, since: float, deadline: float) -> None:
        self.lease_id = lease_id
        self.shape = shape
        self.group = group
        self.since = since
        self.deadline = deadline
        self.slot_id = ""
        self.state = QUEUED


class SlotEntry:
    """One slot."""

    __slots__ = (
        "born",
        "lease_id",
        "node",
        "served",
        "setting_up",
        "shape",
        "since",
        "slot_id",
        "state",
        "twin",
    )

    def __init__(self, slot_id: str, shape: Shape, now: float) -> None:
        self.slot_id = slot_id
        self.shape = shape
        self.born = self.since = now
        self.node = ""
        self.lease_id = ""
        self.served = 0
        self.setting_up = False  # its server is there, and the pool's setup runs
        self.twin = ""  # another slot that was asked for in its place: the first that is ready stays
        self.state = STARTING


class _Kind:
    """All of one shape: who waits, and the slots."""

    __slots__ = ("alive", "coming", "late_since", "queue", "ready", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.queue = GroupQueue()
        self.ready: OrderedDict[str, None] = OrderedDict()  # the one that was used last comes last
        self.coming = 0  # slots that start or are renewed
        self.alive = 0  # all that can serve a lease, now or later
        self.late_since = _NEVER  # when a start first took too long, if none was ready since

    @property
    def serving(self) -> int:
        """How many slots have a lease, or could have one now."""
        return self.alive - self.coming

    @property
    def need(self) -> int:
        """How many more slots would have something to do."""
        return len(self.queue) - self.coming - len(self.ready)


class Leases:
    """The book of one pool. Each method is an event; `acts` has what is to be done, until `take` takes it."""

    def __init__(self, bounds: PoolBounds, told: Callable[[Transition], None] | None = None) -> None:
        self.bounds = bounds
        self.leases: dict[str, LeaseEntry] = {}  # those that are not over
        self.slots: dict[str, SlotEntry] = {}  # the same
        self.acts: list[Act] = []
        self.nodes = 1  # that the engine has, as far as known
        self.suspects: dict[str, float] = {}  # until when
        self.draining = False
        self.failed = ""  # why the pool gives no more leases
        self.engine_lost = ""  # what the engine said last, while it cannot be reached
        self._engine_lost_at = 0.0
        self._told = told
        self._kinds: dict[Shape, _Kind] = {}
        self._timed: dict[str, float] = {}  # deadlines of leases that wait
        self._starts: list[float] = []  # how long the last ones took
        self._failures: list[str] = []  # nodes of the last starts that failed since one worked
        self._rounds = 0  # of those whose node nobody knows: starts that were under way together are one
        self._round_since = 0.0
        self._ended: dict[str, float] = {}  # nodes, when an executor of theirs ended last
        self._pause = 0.0  # until when nothing is started, because of them
        self._last_word = ""
        self._slots_named = 0

    def take(self) -> list[Act]:
        acts, self.acts = self.acts, []
        return acts

    @property
    def waiting(self) -> int:
        return sum(len(kind.queue) for kind in self._kinds.values())

    @property
    def alive(self) -> int:
        """Slots that serve, or will."""
        return sum(kind.alive for kind in self._kinds.values())

    def queues(self) -> list[tuple[Shape, dict[str, int], float]]:
        """Who waits: by shape and group, and since when the oldest does."""
        return [(kind.shape, kind.queue.counts(), kind.queue.oldest()) for kind in self._kinds.values()]

    # Callers

    def request(
        self, lease_id: str, shape: Shape, now: float, *, group: str = "", timeout: float | None = None
    ) -> None:
        """Somebody wants an executor. Raises LeaseRefused."""
        if self.failed:
            raise LeaseRefused("start-failed", self.failed)
        if self.draining:
            raise LeaseRefused("draining", "the pool takes no more leases: use another pool, or a new one")
        if self.waiting >= self.bounds.max_waiting:
            raise LeaseRefused(
                "queue-full",
                f"{self.bounds.max_waiting} leases wait already: ask again when some have been given",
            )
        deadline = _NEVER if timeout is None else now + timeout
        self.leases[lease_id] = LeaseEntry(lease_id, shape, group, now, deadline)
        self._kind(shape).queue.add(lease_id, group, now)
        if timeout is not None:
            self._timed[lease_id] = deadline
        self._tell(now, "lease", "", lease_id, "", QUEUED)
        self._balance(now)

    def cancel(self, lease_id: str, now: float) -> None:
        """Its caller does not want it any more. Nothing happens to a lease that does not wait."""
        lease = self.leases.get(lease_id)
        if lease is not None and lease.state is QUEUED:
            self._unqueue(lease)
            self._move_lease(lease, CANCELLED, now)
            self._balance(now)

    def returned(self, lease_id: str, now: float) -> None:
        """The block of a lease has ended. Nothing happens if the lease is over already."""
        lease = self.leases.get(lease_id)
        if lease is None or lease.state is not LEASED:
            return
        slot = self.slots[lease.slot_id]
        slot.served += 1
        slot.lease_id = ""
        self._move_lease(lease, RETURNED, now)
        renewed = slot.state is LEASED and self._worth_renewing(slot, now)
        self._move_slot(slot, RETURNED, now)
        if slot.state is RETURNING:
            self._kind(slot.shape).coming += 1
        if renewed:
            self.acts.append(Act(RENEW, slot.slot_id))
        else:
            self._stop(slot, now, "it has served")
        self._balance(now)

    # Slots

    def renewing(self, slot_id: str, now: float) -> None:
        """The client of the last lease is closed, and the engine is asked for a new server."""
        slot = self.slots.get(slot_id)
        if slot is not None and slot.state is RETURNING:
            self._move_slot(slot, RENEWED, now)

    def setting_up(self, slot_id: str) -> None:
        """A slot has a server, in which the pool's setup runs now: that has a time limit of its own."""
        slot = self.slots.get(slot_id)
        if slot is not None:
            slot.setting_up = True

    def ready(self, slot_id: str, node: str, now: float) -> None:
        """A slot has a server, and we are connected to it."""
        slot = self.slots.get(slot_id)
        if slot is None or slot.state is not STARTING:
            return
        slot.node = node
        slot.setting_up = False
        kind = self._kind(slot.shape)
        if not slot.served:
            self._starts = [*self._starts[1 - _STARTS_KEPT :], now - slot.since]
        kind.late_since = _NEVER
        self._failures.clear()
        self._rounds = 0
        self._pause = 0.0
        self.suspects.pop(node, None)
        self._drop_twin(slot, now)
        kind.coming -= 1
        kind.ready[slot_id] = None
        self._move_slot(slot, READY, now)
        self._balance(now)

    def start_failed(self, slot_id: str, node: str, detail: str, now: float, *, setup: bool = False) -> None:
        """A slot did not become ready. With `setup`, the pool's setup failed: whoever is next is told."""
        slot = self.slots.get(slot_id)
        if slot is None or slot.state is not STARTING:
            return
        self._last_word = detail
        self._failures = [*self._failures[1 - _FAILURES_KEPT :], node]
        if not node and (not self._rounds or slot.since >= self._round_since):
            self._rounds += 1
            self._round_since = now
        if len(self._failures) >= NODE_FAILURES:
            self._pause = now + min(_PAUSE * 2.0 ** (len(self._failures) - NODE_FAILURES), _LONGEST_PAUSE)
        kind = self._kind(slot.shape)
        if setup and kind.queue:
            self._refuse(self.leases[kind.queue.take()], "setup-failed", detail, now)
        self._lose(slot, "start-failed", detail, now)
        if node and self._failures[-NODE_FAILURES:] == [node] * NODE_FAILURES:
            self._suspect(node, now)
        # Where it was is not always known: then each round counts as another node. A node that dies takes all
        # starts along that were under way there, and none of them says where.
        tried = len({place for place in self._failures if place}) + self._rounds
        if len(self._failures) >= POOL_FAILURES and tried >= min(POOL_FAILURES, self.nodes):
            self._fail(f"{POOL_FAILURES} executors in a row did not start: {detail}", now)
        self._balance(now)

    def lost(self, slot_id: str, reason: str, detail: str, now: float) -> None:
        """The executor is gone for us, whatever the engine says."""
        slot = self.slots.get(slot_id)
        if slot is None:
            return
        if slot.node and (reason in SUSPICIOUS or (reason == ENDED and self._ended_together(slot.node, now))):
            self._suspect(slot.node, now)
        if slot.state is STARTING and not self.engine_lost:
            self.start_failed(slot_id, slot.node, f"{reason}: {detail}", now)  # nobody may try that for ever
            return
        self._lose(slot, reason, detail, now)
        self._balance(now)

    def _ended_together(self, node: str, now: float) -> bool:
        """Whether another executor of the node has ended just now."""
        last, self._ended[node] = self._ended.get(node, -_NEVER), now
        return now - last <= TOGETHER_SECONDS

    def _suspect(self, node: str, now: float) -> None:
        """Nothing is started on the node for a while. What was asked for just now may have been placed there:
        an engine that has not noticed yet does so, and its start hangs. It is asked for once more."""
        new = node not in self.suspects
        self.suspects[node] = now + SUSPECT_SECONDS
        for slot in list(self.slots.values()) if new else ():
            if slot.state is STARTING and not slot.node and now - slot.since <= TOGETHER_SECONDS:
                self._ask_again(slot, now)

    def drained(self, slot_id: str, reason: str, now: float) -> None:
        """The engine says that the slot is gone, or will be, and its executor still answers."""
        slot = self.slots.get(slot_id)
        if slot is not None and slot.state is not DRAINING:
            self._stop(slot, now, reason)
            self._balance(now)

    def stopped(self, slot_id: str, now: float) -> None:
        slot = self.slots.get(slot_id)
        if slot is not None and slot.state is DRAINING and not slot.lease_id:
            self._move_slot(slot, STOPPED, now)

    # The pool

    def engine_failed(self, detail: str, now: float) -> None:
        """The engine cannot be reached: nothing new is started until `engine_back`."""
        if not self.engine_lost:
            self._engine_lost_at = now
        self.engine_lost = self._last_word = detail

    def engine_back(self, now: float) -> None:
        self.engine_lost = ""
        self._balance(now)

    def drain(self, now: float) -> None:
        """No more leases. Those that wait or are held go on to their end."""
        self.draining = True
        self._balance(now)

    def close(self, detail: str, now: float) -> None:
        """The end: leases that wait are refused, those that are held are lost, all slots are stopped."""
        self._fail(detail, now)
        for slot in list(self.slots.values()):
            if slot.lease_id:
                self._lose(slot, ENDED, detail, now)
            elif slot.state is not DRAINING:
                self._stop(slot, now, detail)

    def tick(self, now: float) -> None:
        """What time alone brings about; to be called every now and then."""
        for lease_id in [lease_id for lease_id, deadline in self._timed.items() if deadline <= now]:
            self._unqueue(self.leases[lease_id])
            self._refuse(self.leases[lease_id], "timed-out", self._waited_for(), now)
        for node in [node for node, until in self.suspects.items() if until <= now]:
            del self.suspects[node]
        for node in [node for node, at in self._ended.items() if now - at > TOGETHER_SECONDS]:
            del self._ended[node]
        for slot in list(self.slots.values()):
            self._look_at(slot, now)
        if self.engine_lost and now - self._engine_lost_at >= ENGINE_SECONDS:
            said = f"the engine has not answered for {ENGINE_SECONDS:.0f} s: {self.engine_lost}"
            self._fail(said, now)
        self._balance(now)

    def _look_at(self, slot: SlotEntry, now: float) -> None:
        if slot.state is STARTING and not slot.setting_up:
            self._look_at_start(slot, now)
        elif slot.state is READY:
            kind = self._kind(slot.shape)
            spare = len(kind.ready) > (self.bounds.warm if slot.shape == self.bounds.default else 0)
            if spare and now - slot.since >= self.bounds.idle:
                self._stop(slot, now, "idle")

    def _look_at_start(self, slot: SlotEntry, now: float) -> None:
        took = now - slot.since
        if took >= self.bounds.start_timeout:
            kind = self._kind(slot.shape)
            said = f"no executor was ready within {self.bounds.start_timeout:g} s"
            said += f": {self._last_word}" if self._last_word else ""
            again = slot.since >= kind.late_since  # those that were asked for together are late together
            kind.late_since = min(kind.late_since, now)
            # Where others serve, the engine may have no room for more: whoever waits gets one of those.
            if again and kind.queue and not kind.serving:
                self._refuse(self.leases[kind.queue.take_oldest()], "timed-out", said, now)
            self._lose(slot, "start-timeout", said, now)
        elif self._starts:
            median = sorted(self._starts)[len(self._starts) // 2]
            if took >= max(_SLOW_STARTS * median, _SLOW_SECONDS):
                self._ask_again(slot, now)

    def _ask_again(self, slot: SlotEntry, now: float) -> None:
        """For one that may not come, elsewhere; once."""
        if self.nodes > 1 and not slot.twin and len(self.slots) < MAX_SLOTS:
            slot.twin = self._start(self._kind(slot.shape), now, beside=slot.node)
            self.slots[slot.twin].twin = slot.slot_id

    def _drop_twin(self, slot: SlotEntry, now: float) -> None:
        """Of two slots that were asked for in one's place, the first that is ready stays."""
        twin = self.slots.get(slot.twin)
        slot.twin = ""
        if twin is not None:
            twin.twin = ""
            if twin.state is STARTING:
                self._stop(twin, now, "another was ready first")

    # Decisions

    def _balance(self, now: float) -> None:
        """Gives out what is ready, asks for what is missing, gives up what is in the way."""
        needy = []
        for shape, kind in list(self._kinds.items()):
            while kind.ready and kind.queue:
                self._offer(kind, now)
            if self.draining:
                while kind.ready:
                    self._stop(self.slots[next(iter(kind.ready))], now, "the pool drains")
            if kind.need > 0:
                needy.append(kind)
            elif not kind.alive and not kind.queue:
                del self._kinds[shape]
        if self.failed or self.engine_lost or now < self._pause:
            return
        while needy and self._room(now, giving_up=True):
            self._start(min(needy, key=lambda kind: (kind.alive, kind.queue.oldest())), now)
            needy = [kind for kind in needy if kind.need > 0]
        if self.bounds.warm and not self.draining:
            kind = self._kind(self.bounds.default)
            while kind.need > -self.bounds.warm and self._room(now):
                self._start(kind, now)

    def _room(self, now: float, *, giving_up: bool = False) -> bool:
        """Whether another slot may be started; one that nobody uses may be stopped for it."""
        coming = sum(kind.coming for kind in self._kinds.values())
        if coming >= self.bounds.max_starting or len(self.slots) >= MAX_SLOTS:
            return False
        if self.alive < self.bounds.size:
            return True
        idle = [slot_id for kind in self._kinds.values() for slot_id in kind.ready] if giving_up else []
        if idle:
            oldest = min(map(self.slots.__getitem__, idle), key=lambda slot: slot.since)
            self._stop(oldest, now, "its place is needed")
        return bool(idle)

    def _worth_renewing(self, slot: SlotEntry, now: float) -> bool:
        if slot.served >= MAX_LEASES or now - slot.born >= MAX_AGE or self.failed:
            return False
        mine = self._kind(slot.shape)
        if self.draining and not mine.need > 0:
            return False
        needy = [kind for kind in self._kinds.values() if kind.need > 0 or kind is mine]
        if len(needy) == 1 or self.alive < self.bounds.size:
            return True
        # Others wait, and there is no room for them. Shapes share the pool; where there are more shapes than
        # slots, who came first is first.
        share = max(1, self.bounds.size // len(needy))
        return not any(
            kind.alive < share and (mine.alive > share or kind.queue.oldest() < mine.queue.oldest())
            for kind in needy
            if kind is not mine
        )

    def _avoided(self, node: str) -> tuple[str, ...]:
        """This node, then suspects, the newest first, and at most half of the nodes."""
        newest = sorted(self.suspects, key=lambda node: -self.suspects[node])
        avoided = dict.fromkeys([node, *newest] if node else newest)
        return tuple(avoided)[: self.nodes // 2]

    def _waited_for(self) -> str:
        if self.engine_lost:
            return f"the engine does not answer: {self.engine_lost}"
        last = f"; the engine said last: {self._last_word}" if self._last_word else ""
        return f"all {self.alive} executors were busy or starting, and {self.waiting} leases waited{last}"

    # Moves

    def _start(self, kind: _Kind, now: float, beside: str = "") -> str:
        self._slots_named += 1
        slot_id = f"s{self._slots_named}"
        self.slots[slot_id] = SlotEntry(slot_id, kind.shape, now)
        kind.coming += 1
        kind.alive += 1
        self._tell(now, "slot", slot_id, "", "", STARTING)
        self.acts.append(Act(START, slot_id, shape=kind.shape, avoid=self._avoided(beside)))
        return slot_id

    def _offer(self, kind: _Kind, now: float) -> None:
        slot_id, _ = kind.ready.popitem()
        slot, lease = self.slots[slot_id], self.leases[kind.queue.take()]
        self._timed.pop(lease.lease_id, None)
        slot.lease_id, lease.slot_id = lease.lease_id, slot_id
        self._move_slot(slot, OFFERED, now)
        self._move_lease(lease, OFFERED, now)
        self.acts.append(Act(OFFER, slot_id, lease.lease_id))

    def _stop(self, slot: SlotEntry, now: float, reason: str) -> None:
        """Takes a slot out of service; now, or when its lease ends."""
        if slot.state is not DRAINING:
            self._leave(slot)
            self._move_slot(slot, DRAINED, now, reason)
        if not slot.lease_id:
            self.acts.append(Act(STOP, slot.slot_id, reason=reason))

    def _lose(self, slot: SlotEntry, reason: str, detail: str, now: float) -> None:
        if slot.state is not DRAINING:
            self._leave(slot)
        twin = self.slots.get(slot.twin)
        if twin is not None:
            twin.twin = ""
        lease = self.leases.get(slot.lease_id)
        self._move_slot(slot, LOST, now, reason)
        if lease is not None:
            self._move_lease(lease, LOST, now, reason)
            self.acts.append(Act(LOSE, slot.slot_id, lease.lease_id, reason=reason, detail=detail))
        self.acts.append(Act(STOP, slot.slot_id, reason=reason, detail=detail))

    def _leave(self, slot: SlotEntry) -> None:
        """The slot serves nobody after what it does now."""
        kind = self._kind(slot.shape)
        kind.alive -= 1
        if slot.state is READY:
            del kind.ready[slot.slot_id]
        elif slot.state is not LEASED:
            kind.coming -= 1

    def _refuse(self, lease: LeaseEntry, reason: str, detail: str, now: float) -> None:
        """Of a lease that is no longer in its queue."""
        self._timed.pop(lease.lease_id, None)
        self._move_lease(lease, REFUSED, now, reason)
        self.acts.append(Act(REFUSE, lease_id=lease.lease_id, reason=reason, detail=detail))

    def _fail(self, detail: str, now: float) -> None:
        """The pool gives no more leases. Those that are held go on to their end."""
        self.failed = detail
        for kind in self._kinds.values():
            while kind.queue:
                self._refuse(self.leases[kind.queue.take()], "start-failed", detail, now)

    def _unqueue(self, lease: LeaseEntry) -> None:
        self._kind(lease.shape).queue.remove(lease.lease_id, lease.group)
        self._timed.pop(lease.lease_id, None)

    def _kind(self, shape: Shape) -> _Kind:
        kind = self._kinds.get(shape)
        if kind is None:
            kind = self._kinds[shape] = _Kind(shape)
        return kind

    def _move_lease(self, lease: LeaseEntry, event: str, now: float, reason: str = "") -> None:
        before, lease.state = lease.state, LEASE_TABLE[lease.state, event]
        if lease.state is not LEASED:
            del self.leases[lease.lease_id]
        self._tell(now, "lease", lease.slot_id, lease.lease_id, before, lease.state, reason)

    def _move_slot(self, slot: SlotEntry, event: str, now: float, reason: str = "") -> None:
        before, slot.state = slot.state, SLOT_TABLE[slot.state, event]
        slot.since = now
        if slot.state is LOST or slot.state is STOPPED:
            del self.slots[slot.slot_id]
        self._tell(now, "slot", slot.slot_id, slot.lease_id, before, slot.state, reason, slot.node)

    def _tell(self, now: float, what: str, *rest: str) -> None:
        if self._told is not None:
            self._told(Transition(now, what, *rest))
