"""The engine of one machine: slots are keepers in this process, and servers processes on loopback."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ..core.leases import MAX_STARTING
from ..host.limits import killed_for_memory
from ..system import LINUX
from .engine import EXECUTOR_ENDED, OUT_OF_MEMORY, STARVED, Capacity, Loss, Node
from .keeper import Keeper
from .template import Template

if TYPE_CHECKING:
    from .engine import Card, Endpoint, Order, Stopped
    from .settings import PoolSettings


def engine(settings: PoolSettings) -> LocalEngine:
    return LocalEngine(settings.relay)


class LocalEngine:
    """Starts servers here. It counts nothing: `size` of the pool is the bound. `relay` is the pool of a
    rendezvous; with it, servers are found there."""

    name = "local"

    def __init__(self, relay: str = "") -> None:
        self._listen = f"noise+{relay}" if relay else "ws://127.0.0.1:0"
        self._slots: set[LocalSlot] = set()
        self._unwanted: list[asyncio.Future[Keeper]] = []  # keepers whose start was cancelled
        # A keeper's calls block for as long as a server takes to start or to end.
        self.threads = ThreadPoolExecutor(MAX_STARTING, "outfitter.pool")
        self._template = Template()

    async def open(self) -> None:
        pass

    async def start(self, order: Order) -> LocalSlot:
        making = asyncio.get_running_loop().run_in_executor(
            self.threads, lambda: Keeper(order.pool_id, listen=self._listen, template=self._template)
        )
        try:
            keeper = await asyncio.shield(making)
        except asyncio.CancelledError:
            self._unwanted.append(making)  # its thread goes on: it is stopped at the end
            raise
        slot = LocalSlot(self, keeper, order)
        self._slots.add(slot)
        return slot

    async def capacity(self) -> Capacity:
        page, cpus = os.sysconf("SC_PAGE_SIZE"), float(os.cpu_count() or 1)
        memory = os.sysconf("SC_PHYS_PAGES") * page
        free = os.sysconf("SC_AVPHYS_PAGES") * page if LINUX else 0  # others have no word for it
        node = Node(os.uname().nodename, cpus, memory, free_cpus=cpus, free_memory=free)
        return Capacity((node,), detail="this machine")

    async def aclose(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(slot.stop() for slot in list(self._slots)))
        for made in await asyncio.gather(*self._unwanted, return_exceptions=True):
            if isinstance(made, Keeper):
                await loop.run_in_executor(self.threads, made.stop)
        await loop.run_in_executor(self.threads, self._template.close)
        self.threads.shutdown(wait=False)

    def forget(self, slot: LocalSlot) -> None:
        self._slots.discard(slot)


class LocalSlot:
    """A keeper, whose server is watched by its pidfd."""

    def __init__(self, engine: LocalEngine, keeper: Keeper, order: Order) -> None:
        self._engine = engine
        self._keeper = keeper
        self._order = order
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[Loss] = self._loop.create_future()
        self._watched = -1

    async def serve(self, card: Card) -> Endpoint:
        self._unwatch()
        shape, keeper = self._order.shape, self._keeper
        endpoint = await self._loop.run_in_executor(self._engine.threads, keeper.serve, card, shape)
        if not LINUX:
            return endpoint  # only its keeper may wait for it: the data path tells
        try:
            self._watched = os.pidfd_open(endpoint.pid)
        except OSError:  # it has ended already, or there are no descriptors: the data path tells
            return endpoint
        self._loop.add_reader(self._watched, self._ended)
        return endpoint

    async def prepare(self, card: Card) -> Endpoint:
        shape, keeper = self._order.shape, self._keeper
        return await self._loop.run_in_executor(self._engine.threads, keeper.prepare, card, shape)

    async def gone(self) -> Loss:
        return await asyncio.shield(self._gone)

    async def stop(self, *, keep: bool = False) -> Stopped:
        self._unwatch()
        stopped = await self._loop.run_in_executor(self._engine.threads, lambda: self._keeper.stop(keep=keep))
        self._tell("it was stopped")
        self._engine.forget(self)
        return stopped

    def _ended(self) -> None:
        self._unwatch()
        if killed_for_memory(self._keeper.pid):
            self._tell(STARVED, OUT_OF_MEMORY)
        else:
            self._tell("its server has ended")

    def _tell(self, detail: str, reason: str = EXECUTOR_ENDED) -> None:
        if not self._gone.done():
            self._gone.set_result(Loss(reason, detail))

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = -1
