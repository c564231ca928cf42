"""The pool: what `core.leases` decides, done with an engine and with clients."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from typing import TYPE_CHECKING

from .. import VERSION
from ..core.leases import (
    FENCE,
    LOSE,
    MAX_SLOTS,
    OFFER,
    REFUSE,
    REFUSED,
    RENEW,
    RETENTION,
    SERVER_BEAT,
    START,
    STARTING,
    STOP,
    Leases,
    Transition,
)
from ..errors import (
    CapabilityMissing,
    EngineFailed,
    LeaseRefused,
    OutfitterError,
    RequestFailed,
    SettingInvalid,
)
from ..log import fault, note
from ..record import replace
from .control import Control
from .engine import ENGINE_LOST, EXECUTOR_ENDED, OUT_OF_MEMORY, Card, Order, Stopped
from .engines import ENGINES, engine
from .lease import Lease, run_setup
from .link import SlotLink
from .map import outcomes
from .parity import Parity
from .settings import LeaseWishes, PoolWishes, argv, check, settle, shape_of, stands_by, timeout
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any, Self, TypeVar, Unpack

    from ..core.leases import Act
    from ..core.shape import Shape
    from .engine import Endpoint, Engine, Loss, Slot
    from .map import Lending, Outcome, Task
    from .tally import PoolStatus

    T = TypeVar("T")
    R = TypeVar("R")

_TICK_SECONDS = 0.25  # how exactly timeouts are kept
_STOP_SECONDS = 15.0  # for an engine to stop a slot; then it is left to the node's own fence
_PROBE_SECONDS = 1.0  # how often an engine that does not answer is asked again
_ANSWER_SECONDS = 10.0  # for an engine to say what it has


class SlotPlace:
    """A slot as the pool has it: the engine's handle, and our way to the server that is there now."""

    def __init__(self, slot_id: str, shape: Shape) -> None:
        self.slot_id = slot_id
        self.shape = shape
        self.slot: Slot | None = None
        self.link: SlotLink | None = None
        self.node = ""
        self.lease: Lease | None = None  # the last one that it was given to
        self.servers = 0
        self.stopping = False
        self.preparing: asyncio.Task[None] | None = None
        self.next: tuple[SlotLink, Card] | None = None  # to the server of the next lease, which stands by
        self.said: Loss | None = None  # by the engine, when it knew that the slot was gone
        self.watching: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None


class Pool:
    """Leases executors to tasks: on this machine, or on a cluster that is already there.

        async with outfitter.Pool("local", size=4) as pool:
            async with pool.lease(group="docs") as client:
                await client.run(["make", "html"])

    `engine` is the name of an engine or of a pool in pools.toml, or an engine of your own. `size` is how many
    executors it may have at a time; `warm` are kept ready, others are stopped after `idle` seconds. With
    `standby` an executor starts the server of its next lease ahead, as one with 1 GiB of memory does. `cpus`,
    `memory` ("4GiB"), `gpus`, `labels` and `image` are what a lease gets that does not say otherwise.
    `relay` (https://REGISTRY/POOL) is the pool of a rendezvous, where nodes cannot be reached.
    `setup` is run in every new workspace, and `env` is added to the environment of commands. A lease waits
    for `queue_timeout` seconds, and an executor may take `start_timeout` to start. `on_event` is called with
    every `Transition`. Raises SettingInvalid, FileInvalid; entering it raises EngineFailed.
    """

    id: str
    """What `outfitter pool status` calls it if it has no name."""

    def __init__(self, engine: str | Engine = "local", **wishes: Unpack[PoolWishes]) -> None:
        check("Pool", wishes, PoolWishes.__optional_keys__)
        self._on_event = wishes.get("on_event")
        self._engine: Engine | None = None
        if isinstance(engine, str):
            engine, wishes = _declared(engine, wishes)
            self._settings = settle(engine, wishes)
        else:
            self._settings = settle(engine.name, wishes)
            self._engine = engine
        self.id = secrets.token_hex(4)
        self._control = Control(self, wishes.get("name", ""), self._settings.engine)
        self._book = Leases(self._settings.bounds, self._told)
        self._tally = Tally(self._book)
        self._tally.commands_now = self._commands
        self._parity = Parity()
        self._places: dict[str, SlotPlace] = {}
        self._leases: dict[str, Lease] = {}
        self._possible: set[Shape] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._named = 0
        self._quiet = asyncio.Event()  # set while there are no leases
        self._quiet.set()
        self._acting = False
        self._entered = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """How many executors it may have at a time."""
        return self._settings.bounds.size

    @property
    def failed(self) -> LeaseRefused | None:
        """Why the pool gives no more leases, if so."""
        return LeaseRefused("start-failed", self._book.failed) if self._book.failed else None

    # Life

    async def __aenter__(self) -> Self:
        if self._entered:
            raise SettingInvalid("a pool is for one block: make another one")
        if self._engine is None:
            self._engine = engine(self._settings)
        try:
            await self._engine.open()
            await self.refresh()
            await self._control.open()
        except BaseException:
            self._control.close()
            await self._engine.aclose()
            raise
        self._entered = True
        self._spawn(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends everything: leases that wait are refused, those that are held are lost.

            async with outfitter.Pool("local", size=1) as pool:
                await pool.aclose()

        The end of the block does it, too.
        """
        if self._engine is None:
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(self._engine))
        await asyncio.shield(self._closing)

    async def _close(self, engine: Engine) -> None:
        self._book.close("the pool is closed", self._now())
        self._act()
        await asyncio.gather(*(place.ending for place in self._places.values() if place.ending is not None))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await engine.aclose()
        self._control.close()

    async def drain(self) -> None:
        """Takes no more leases, and waits for those that wait or are held to end.

            await pool.drain()

        A new lease is refused with the reason "draining".
        """
        self._book.drain(self._now())
        self._act()
        await self._quiet.wait()

    # Leases

    def lease(self, **wishes: Unpack[LeaseWishes]) -> Lease:
        """An executor for one `async with` block, which gets its client; its cwd is a new workspace.

            async with pool.lease(group="docs", memory="1GiB") as client:
                done = await client.run(["make", "html"])

        Leases of one `group` are given in order, and groups take turns. `setup` is run before the block,
        after the pool's own. With `keep_workspace` the workspace stays on its node. Entering the block raises
        LeaseRefused; inside of it, a client whose executor is gone raises LeaseLost.
        """
        check("lease", wishes, LeaseWishes.__optional_keys__)
        self._named += 1
        name = wishes.get("name", "")
        return Lease(
            self,
            f"{name}-{self._named}" if name else f"l{self._named}",
            shape_of(wishes, self._settings.bounds.default),
            group=wishes.get("group", ""),
            setup=argv("setup", wishes.get("setup", ())),
            queue_timeout=timeout(wishes.get("queue_timeout", self._settings.queue_timeout)),
            keep_workspace=wishes.get("keep_workspace", False),
        )

    def map(
        self,
        task: Task[T, R],
        items: Lending[T],
        *,
        at_a_time: int | None = None,
        retries: int = 0,
        lease: LeaseWishes | Callable[[T], LeaseWishes] | None = None,
    ) -> AsyncIterator[Outcome[T, R]]:
        """Runs `await task(client, item)` for each item, in a lease of its own; yields an `Outcome` for each.

            async def build(client, name):
                return (await client.run(["make", name])).exit_code

            async for outcome in pool.map(build, ["html"]):
                print(outcome.item, outcome.state, outcome.value)  # html done 0

        Outcomes come in order of completion. An attempt whose executor is lost is repeated up to `retries`
        times, when nothing of it can run any more. `lease` has arguments for `lease()`, or gives them for an
        item.
        """
        return outcomes(self, task, items, at_a_time=at_a_time, retries=retries, lease=lease or {})

    # What it knows

    def status(self) -> PoolStatus:
        """What the pool knows now, without asking anybody.

            print(pool.status()["size"])  # 1

        `refresh` asks the engine first.
        """
        told = self._tally.describe(self.id, self._settings.engine, self._now(), self._limits())
        told["mismatched"] = {node: list(names) for node, names in self._parity.differing.items()}
        return told

    def metrics(self) -> str:
        """The same as numbers over time, in Prometheus's text format.

            print(pool.metrics().splitlines()[0])  # # HELP outfitter_pool_slots Executors.

        The lines begin with what each number means.
        """
        return self._tally.registry.text()

    async def refresh(self) -> PoolStatus:
        """Asks the engine what there is, then as `status`.

            print((await pool.refresh())["engine"])  # local

        Raises EngineFailed.
        """
        assert self._engine is not None
        capacity = await self._engine.capacity()
        self._book.nodes = max(1, len(capacity.nodes))
        self._tally.engine = capacity.detail
        return self.status()

    def _commands(self) -> int:
        """Of the clients there are."""
        links = (place.link for place in self._places.values())
        return sum(link.client._session.commands for link in links if link is not None)

    def _limits(self) -> list[str]:
        return [place.link.endpoint.limits for place in self._places.values() if place.link is not None]

    # From leases

    async def _check_possible(self, shape: Shape) -> None:
        """Raises LeaseRefused if no node has so much."""
        if self._engine is None or self._closing is not None:
            raise LeaseRefused("draining", "the pool is not open: use it in its `async with` block")
        if shape in self._possible:
            return
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                capacity = await self._engine.capacity()
        except (EngineFailed, TimeoutError):
            return  # it may come back
        if not capacity.ever(shape):
            most = max(capacity.nodes, key=lambda node: (node.cpus, node.memory), default=None)
            has = "there are no nodes" if most is None else f"the largest has {most.cpus:g} cpus"
            raise LeaseRefused("impossible", f"no node can hold {shape}; {has}: ask for less")
        if len(self._possible) >= MAX_SLOTS:  # more kinds than there can be executors: look again
            self._possible.clear()
        self._possible.add(shape)

    def _request(self, lease: Lease) -> None:
        """Raises LeaseRefused."""
        now = self._now()
        self._leases[lease.id] = lease
        try:
            self._book.request(lease.id, lease._shape, now, group=lease.group, timeout=lease._queue_timeout)
        except LeaseRefused:
            del self._leases[lease.id]
            lease.state = REFUSED
            raise
        lease._queue()
        self._quiet.clear()
        self._act()

    def _cancel(self, lease: Lease) -> None:
        """Its caller does not wait any more; it may have been given meanwhile."""
        self._book.cancel(lease.id, self._now())
        self._returned(lease)

    def _returned(self, lease: Lease) -> None:
        self._book.returned(lease.id, self._now())
        self._forget(lease)
        lease._end()
        self._act()

    def _forget(self, lease: Lease) -> None:
        self._leases.pop(lease.id, None)
        if not self._leases:
            self._quiet.set()

    # What the book says

    def _act(self) -> None:
        """Does what is to be done; a call from inside of it is done by it."""
        if self._acting:
            return
        self._acting = True
        try:
            while acts := self._book.take():
                for act in acts:
                    self._do(act)
        finally:
            self._acting = False

    def _do(self, act: Act) -> None:
        if act.do == START:
            assert act.shape is not None
            place = self._places[act.slot_id] = SlotPlace(act.slot_id, act.shape)
            self._spawn(self._start(place, act.avoid))
        elif act.do == OFFER:
            place, lease = self._places[act.slot_id], self._leases[act.lease_id]
            assert place.link is not None
            place.lease = lease
            place.link.pace(leased=True)
            if stands_by(self._settings, place.shape) and place.slot is not None:
                place.preparing = self._spawn(self._prepare(place, place.slot))
            lease._give(place.link.client, place.link.endpoint)
        elif act.do == RENEW:
            self._spawn(self._renew(self._places[act.slot_id]))
        elif act.do == REFUSE:
            lease = self._leases[act.lease_id]
            lease._refuse(act.reason, act.detail)
            self._forget(lease)
        elif act.do == LOSE:
            place, lease = self._places[act.slot_id], self._leases[act.lease_id]
            lost = lease._lose(act.reason, act.detail, self._now())
            assert place.link is not None
            place.link.client.fail(lost)
        elif act.do == STOP and act.slot_id in self._places:
            place = self._places[act.slot_id]
            place.ending = place.ending or self._spawn(self._stop(place))

    # Slots

    async def _start(self, place: SlotPlace, avoid: tuple[str, ...]) -> None:
        assert self._engine is not None
        order = Order(place.slot_id, self.id, place.shape, VERSION, avoid)
        try:
            place.slot = await self._engine.start(order)
        except Exception as error:
            self._not_started(place, error)
            return
        if place.stopping:
            await place.slot.stop()
            return
        place.watching = self._spawn(self._watch(place, place.slot))
        await self._serve(place, place.slot)

    async def _renew(self, place: SlotPlace) -> None:
        assert place.slot is not None
        await self._let_go(place)
        self._book.renewing(place.slot_id, self._now())
        if place.preparing is not None:
            await asyncio.wait((place.preparing,))
        await self._serve(place, place.slot)

    async def _serve(self, place: SlotPlace, slot: Slot) -> None:
        """A new server with a new token and a new workspace, and a client of it."""
        failure: Exception | None = None
        try:
            await self._connect(place, slot)
        except Exception as error:
            failure = error
        except BaseException:
            await self._let_go(place)  # the pool is closed, and who has stopped the slot saw no link yet
            raise
        if place.stopping:
            await self._let_go(place)
        elif failure is not None:
            self._not_started(place, failure)
        else:
            assert place.link is not None
            place.link.pace(leased=False)
            self._book.ready(place.slot_id, place.node, self._now())
            self._act()

    def _not_started(self, place: SlotPlace, error: Exception) -> None:
        if not isinstance(error, OutfitterError):  # of an engine; whoever waits must hear of it all the same
            fault("pool", "an executor could not be started", error)
            error = EngineFailed(f"{type(error).__name__}: {error}")
        if isinstance(error, EngineFailed) and error.retryable:
            if not self._book.engine_lost:
                self._spawn(self._look_for_engine())
            self._book.engine_failed(str(error), self._now())
            self._lost(place, ENGINE_LOST, str(error))
            return
        setup = isinstance(error, LeaseRefused)
        words = error.detail if isinstance(error, LeaseRefused) else str(error)
        self._book.start_failed(place.slot_id, place.node, words, self._now(), setup=setup)
        self._act()

    async def _connect(self, place: SlotPlace, slot: Slot) -> None:
        """Raises EngineFailed, DialFailed, RequestFailed; LeaseRefused if the setup fails."""
        coming, place.next = place.next, None
        token = secrets.token_urlsafe(24)
        card = self._card(place, token) if coming is None else coming[1]
        keep = place.lease is not None and place.lease._keep_workspace
        if coming is not None:
            place.link = coming[0]  # it is let go with the place, whatever comes
        endpoint = await slot.serve(replace(card, keep_last=keep))
        self._note_kept(place, endpoint)
        place.lease, place.node = None, endpoint.node  # with its server, everything of a lease is gone
        if coming is not None:
            return
        if endpoint.version.split(".")[0] != VERSION.split(".")[0]:
            there = f"{endpoint.node} has Outfitter {endpoint.version}"
            raise EngineFailed(f"{there}, and here is {VERSION}: install the same on both")
        link = self._link(place, endpoint, token)
        await link.open()
        place.link = link
        if place.servers == 1:
            await self._compare(place, link)
        if self._settings.setup:
            self._book.setting_up(place.slot_id)
            await run_setup(link.client, self._settings.setup)

    async def _prepare(self, place: SlotPlace, slot: Slot) -> None:
        """Has the server of the next lease stand by. Where that fails, renewal starts one as ever."""
        token = secrets.token_urlsafe(24)
        card = self._card(place, token)
        link: SlotLink | None = None
        try:
            dialled = self._link(place, await slot.prepare(card), token)
            await dialled.open()
            link = dialled
            link.pace(leased=False)
            if self._settings.setup:
                await run_setup(link.client, self._settings.setup)
            if not place.stopping:
                place.next = (link, card)
        except Exception as error:
            note("pool", "!", "no server of %s stands by: %s", place.slot_id, error)
        finally:
            if link is not None and place.next is None:
                await self._close_link(link)

    def _link(self, place: SlotPlace, endpoint: Endpoint, token: str) -> SlotLink:
        def lost(reason: str, words: str) -> None:
            if place.link is link:
                self._lost(place, reason, words)
            elif place.next is not None and place.next[0] is link:  # the lease that is there goes on
                place.next = None
                self._spawn(self._close_link(link))

        link = SlotLink(endpoint, token, lost, self._tally.beats.observe)
        return link

    def _card(self, place: SlotPlace, token: str) -> Card:
        """Of the next server of a slot."""
        place.servers += 1
        return Card(
            f"{place.slot_id}-{place.servers}",
            hashlib.sha256(token.encode()).hexdigest(),
            FENCE,
            SERVER_BEAT,
            RETENTION,
            self._settings.env,
            self._settings.limits,
            self._settings.home,
        )

    async def _compare(self, place: SlotPlace, link: SlotLink) -> None:
        """A node whose commands get another environment is named."""
        try:
            differing = await self._parity.look(link.client, place.node)
        except (CapabilityMissing, RequestFailed):
            return  # a server that cannot say
        if differing:
            words = f"environment differs: {', '.join(differing)}"
            self._told(
                Transition(self._now(), "slot", place.slot_id, "", STARTING, STARTING, words, place.node)
            )

    async def _watch(self, place: SlotPlace, slot: Slot) -> None:
        """What the engine knows comes second: an executor that answers us is not lost."""
        loss = place.said = await slot.gone()
        if place.stopping:
            return
        note("pool", "=", "the engine says that %s is gone: %s", place.slot_id, loss.detail)
        if place.link is None:
            self._lost(place, loss.reason, loss.detail)
        else:
            self._book.drained(place.slot_id, loss.reason, self._now())
            self._act()

    def _lost(self, place: SlotPlace, reason: str, words: str) -> None:
        if reason == EXECUTOR_ENDED and place.said is not None and place.said.reason == OUT_OF_MEMORY:
            reason, words = OUT_OF_MEMORY, place.said.detail  # the connection does not know why
        self._book.lost(place.slot_id, reason, words, self._now())
        self._act()

    async def _stop(self, place: SlotPlace) -> None:
        place.stopping = True
        lease = place.lease
        if place.preparing is not None:
            place.preparing.cancel()
            await asyncio.wait((place.preparing,))
        coming, place.next = place.next, None
        if coming is not None:
            await self._close_link(coming[0])
        await self._let_go(place)
        stopped = Stopped(True)
        if place.slot is not None:
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    stopped = await place.slot.stop(keep=lease is not None and lease._keep_workspace)
            except TimeoutError:
                stopped = Stopped(False, f"the engine took more than {_STOP_SECONDS:g} s")
        self._note_kept(place, stopped)
        if place.watching is not None:
            place.watching.cancel()
        if stopped.confirmed and lease is not None:
            lease._confirm_end(self._now())
        elif not stopped.confirmed:
            self._tally.unconfirmed += 1
            note("pool", "!", "%s was not seen to end: %s", place.slot_id, stopped.detail)
        self._places.pop(place.slot_id, None)
        self._book.stopped(place.slot_id, self._now())
        self._act()

    def _note_kept(self, place: SlotPlace, told: Endpoint | Stopped) -> None:
        if told.kept and place.lease is not None:
            self._tally.kept.append(
                {"lease": place.lease.id, "node": place.node, "path": told.kept, "bytes": told.kept_bytes}
            )

    async def _let_go(self, place: SlotPlace) -> None:
        link, place.link = place.link, None
        if link is not None:
            await self._close_link(link)

    async def _close_link(self, link: SlotLink) -> None:
        self._tally.commands += link.client._session.commands
        await link.close()

    # Time

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._book.tick(self._now())
            self._act()

    async def _look_for_engine(self) -> None:
        """Asks an engine that did not answer until it does."""
        while self._book.engine_lost:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self.refresh()
            except (EngineFailed, TimeoutError) as error:
                self._book.engine_failed(str(error) or "it does not answer", self._now())
                await asyncio.sleep(_PROBE_SECONDS)
            else:
                self._book.engine_back(self._now())
                self._act()

    def _told(self, transition: Transition) -> None:
        self._tally.count(transition)
        if self._on_event is not None:
            try:
                self._on_event(transition)
            except Exception as error:
                fault("pool", "`on_event` failed", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            fault("pool", "a slot could not be handled", error)


def _declared(name: str, wishes: PoolWishes) -> tuple[str, PoolWishes]:
    """The engine of a pool and what is wanted of it: a name that is no engine stands in pools.toml."""
    if name in ENGINES:
        return name, wishes
    from .file import find

    declared, ours = find(os.environ, name)
    return declared, {**ours, **wishes}
