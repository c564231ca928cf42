"""Pools without asyncio: `outfitter.sync.Pool`. One background thread has the loop of all its leases."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ..blocking import Background, refuse_in_a_loop
from ..core.leases import LEASED
from .pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from typing import Self, Unpack

    from ..client.client import Client
    from ..errors import LeaseRefused
    from .engine import Engine
    from .lease import Lease
    from .map import Outcome
    from .settings import LeaseWishes, PoolWishes
    from .tally import PoolStatus

S = TypeVar("S")  # the plain client
T = TypeVar("T")
R = TypeVar("R")


class PlainPool(Generic[S]):
    """`outfitter.Pool` in plain calls; see there. Used in a `with` block.

        with outfitter.sync.Pool("local", size=1) as pool:
            with pool.lease() as client:
                print(client.run(["true"]).ok)  # True

    Several threads may take leases at once.
    """

    _made: Callable[[Background, Client], S]  # what a lease's block gets

    def __init__(self, engine: str | Engine = "local", **wishes: Unpack[PoolWishes]) -> None:
        self._pool = Pool(engine, **wishes)
        # A pool is opened, closed and asked for its failure as a client is.
        self._background = Background(cast("Any", self._pool))

    def __enter__(self) -> Self:
        refuse_in_a_loop()
        try:
            self._background.open()
        except BaseException:
            self._background.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._background.close()

    @property
    def id(self) -> str:
        """What `outfitter pool status` calls it if it has no name."""
        return self._pool.id

    @property
    def size(self) -> int:
        """How many executors it may have at a time."""
        return self._pool.size

    @property
    def failed(self) -> LeaseRefused | None:
        """Why the pool gives no more leases, if so."""
        return self._pool.failed

    def lease(self, **wishes: Unpack[LeaseWishes]) -> PlainLease[S]:
        """An executor for one `with` block, which gets its client.

            with pool.lease(group="docs") as client:
                done = client.run(["make", "html"])

        See `outfitter.Pool.lease`.
        """
        return PlainLease(self._background, self._pool.lease(**wishes), self._kind())

    def map(
        self,
        task: Callable[[S, T], R],
        items: Iterable[T],
        *,
        at_a_time: int | None = None,
        retries: int = 0,
        lease: LeaseWishes | Callable[[T], LeaseWishes] | None = None,
    ) -> Iterator[Outcome[T, R]]:
        """Runs `task(client, item)` for each item, in a thread and a lease of its own, `size` at a time.

            for outcome in pool.map(lambda client, name: client.run(["make", name]).exit_code, ["html"]):
                print(outcome.item, outcome.state, outcome.value)  # html done 0

        Yields an `Outcome` for each, in order of completion: see `outfitter.Pool.map`. If the loop over them
        is left, tasks that still run find their client closed.
        """
        kind, background = self._kind(), self._background
        # What is no number of tasks is refused below, with the words of `Pool.map`.
        threads = ThreadPoolExecutor(max(1, min(self.size, at_a_time or self.size)), "outfitter.pool.map")
        reader = ThreadPoolExecutor(1, "outfitter.pool.items")

        async def in_a_thread(client: Client, item: T) -> R:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(threads, task, kind(background, client), item)

        try:
            outcomes = self._pool.map(
                in_a_thread,
                _read_in(reader, items),
                at_a_time=at_a_time,
                retries=retries,
                lease=lease,
            )
            yield from background.iterate(cast("Any", outcomes))
        finally:
            for one in (threads, reader):
                one.shutdown(wait=False, cancel_futures=True)

    def status(self) -> PoolStatus:
        """What the pool knows now, without asking anybody.

            print(pool.status()["size"])  # 1

        `refresh` asks the engine first.
        """

        async def asked() -> PoolStatus:
            return self._pool.status()

        return self._background.call(asked)

    def metrics(self) -> str:
        """The same as numbers over time, in Prometheus's text format.

            print(pool.metrics().splitlines()[0])  # # HELP outfitter_pool_slots Executors.

        The lines begin with what each number means.
        """

        async def asked() -> str:
            return self._pool.metrics()

        return self._background.call(asked)

    def refresh(self) -> PoolStatus:
        """Asks the engine what there is, then as `status`.

            print(pool.refresh()["engine"])  # local

        Raises EngineFailed.
        """
        return self._background.call(self._pool.refresh)

    def drain(self) -> None:
        """Takes no more leases, and waits for those that wait or are held to end.

            pool.drain()

        A new lease is refused with the reason "draining".
        """
        self._background.call(self._pool.drain)

    def _kind(self) -> Callable[[Background, Client], S]:
        return type(self)._made


class PlainLease(Generic[S]):
    """An executor for a `with` block, which gets its client.

        lease = pool.lease(group="docs")
        with lease as client:
            done = client.run(["make", "html"])

    It is for one block: ask for another one.
    """

    def __init__(self, background: Background, lease: Lease, kind: Callable[[Background, Client], S]) -> None:
        self._background = background
        self._lease = lease
        self._kind = kind

    @property
    def id(self) -> str:
        """What `outfitter pool status` calls it."""
        return self._lease.id

    @property
    def group(self) -> str:
        """Whose turn it counts as, as `Pool.lease` was told."""
        return self._lease.group

    @property
    def node(self) -> str:
        """The engine's name of the executor's node; empty before there is one."""
        return self._lease.node

    @property
    def workspace(self) -> str:
        """The executor's directory for this lease; empty before there is one."""
        return self._lease.workspace

    @property
    def state(self) -> str:
        """ "new", "queued", "leased", "done", "cancelled", "refused" or "lost"."""
        return self._lease.state

    @property
    def waited(self) -> float:
        """The seconds that it has been in the queue."""
        return self._lease.waited

    def fenced(self) -> None:
        """Returns when nothing of a lost lease can run any more; at once if it was not lost.

            lease = pool.lease()
            try:
                with lease as client:
                    client.run(["make", "html"])
            except outfitter.LeaseLost:
                lease.fenced()  # from now on somebody else may do the work

        `Pool.map` waits for it before it tries again.
        """
        self._background.call(self._lease.fenced)

    def __enter__(self) -> S:
        try:
            client = self._background.call(self._lease.__aenter__, undo=lambda _: self._give_back())
            return self._kind(self._background, client)
        except BaseException:
            self._give_back()  # Ctrl-C may come when the executor has been given
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._background.call(lambda: self._lease.__aexit__(kind, error, trace))
        except BaseException:
            self._give_back()  # Ctrl-C may come before anybody was asked to
            raise

    def _give_back(self) -> None:
        """Without waiting. Nothing happens if the lease is over already."""
        if self._lease.state == LEASED:
            self._background.begin(lambda: self._lease.__aexit__(None, None, None))


def close_leased(client: Any) -> None:
    """Ends the commands of a lease's client, as `close()`; its background is the pool's, and stays."""
    client._background.call(client._wrapped.aclose)


async def _read_in(reader: ThreadPoolExecutor, items: Iterable[T]) -> AsyncIterator[T]:
    """The items, read in a thread: one that takes its time must not stop the heartbeats."""
    loop = asyncio.get_running_loop()
    end = object()
    source = iter(items)
    while (item := await loop.run_in_executor(reader, next, source, end)) is not end:
        yield cast("T", item)
