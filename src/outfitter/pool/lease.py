"""A lease: one executor for one block, given once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.leases import CANCELLED, DEAD, DONE, FENCE, LEASED, LOST, QUEUED, REFUSED, LeaseFence
from ..core.recovery import RECOVERING
from ..errors import (
    CommandFailed,
    ConnectionLost,
    LeaseLost,
    LeaseRefused,
    OutfitterError,
    SettingInvalid,
    TimedOut,
)
from .settings import SETUP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Protocol

    from ..client.client import Client
    from ..core.shape import Shape
    from .engine import Endpoint

    class Giver(Protocol):
        """The pool, as a lease knows it."""

        async def _check_possible(self, shape: Shape) -> None: ...
        def _request(self, lease: Lease) -> None: ...
        def _cancel(self, lease: Lease) -> None: ...
        def _returned(self, lease: Lease) -> None: ...


SIGNALLED = 128  # exit codes above it mean that a signal has ended the command
_LOOK_SECONDS = 0.05  # how often it is looked whether a connection is back; a dial takes longer
_SAID_BYTES = 2000  # of a failed setup's last words


class Lease:
    """An executor for an `async with` block, which gets its client.

        lease = pool.lease(group="docs")
        async with lease as client:
            done = await client.run(["make", "html"])

    It is for one block: ask for another one.
    """

    id: str
    """What `outfitter pool status` calls it."""
    group: str
    """Whose turn it counts as, as `Pool.lease` was told."""
    state: str
    """ "new", "queued", "leased", "done", "cancelled", "refused" or "lost"."""
    waited: float
    """The seconds that it has been in the queue."""
    node: str
    """The engine's name of the executor's node; empty before there is one."""
    workspace: str
    """The executor's directory for this lease; empty before there is one."""
    client: Client | None
    """What the block gets; None before."""

    def __init__(
        self,
        pool: Giver,
        lease_id: str,
        shape: Shape,
        *,
        group: str = "",
        setup: tuple[str, ...] = (),
        queue_timeout: float | None = None,
        keep_workspace: bool = False,
    ) -> None:
        self.id = lease_id
        self._shape = shape
        self.group = group
        self._queue_timeout = queue_timeout
        self._keep_workspace = keep_workspace
        self.state = "new"
        self.waited = 0.0
        self.node = self.workspace = ""
        self.client = None
        self._pool = pool
        self._setup = setup
        self._given: asyncio.Future[Client] | None = None
        self._lost: asyncio.Future[LeaseLost] | None = None
        self._fence: LeaseFence | None = None
        self._fenced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Lease {self.id}: {self.state}>"

    @property
    def lost(self) -> Awaitable[LeaseLost]:
        """Awaited, it returns when the executor is lost: for blocks that wait for something else."""
        if self._lost is None:
            raise SettingInvalid("this lease has no executor yet: enter its block first")
        return asyncio.shield(self._lost)

    async def fenced(self) -> None:
        """Returns when nothing of a lost lease can run any more; at once if it was not lost.

            lease = pool.lease()
            try:
                async with lease as client:
                    await client.run(["make", "html"])
            except outfitter.LeaseLost:
                await lease.fenced()  # from now on somebody else may do the work

        `Pool.map` waits for it before it tries again.
        """
        if self._fence is None:
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._fence.left(loop.time())):
                await self._fenced.wait()
        except TimeoutError:
            pass

    # The block

    async def __aenter__(self) -> Client:
        """Waits for an executor. Raises LeaseRefused, LeaseLost."""
        loop = asyncio.get_running_loop()
        if self._given is not None:
            raise SettingInvalid("a lease is for one block: ask for another one")
        self._given, self._lost = loop.create_future(), loop.create_future()
        await self._pool._check_possible(self._shape)
        self._pool._request(self)
        began = loop.time()
        try:
            self.client = await self._given
        except asyncio.CancelledError:
            self._pool._cancel(self)
            raise
        finally:
            self.waited = loop.time() - began
        if self._setup:
            try:
                await run_setup(self.client, self._setup)
            except BaseException as error:
                await self._leave(error)
                raise
        return self.client

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        killed = isinstance(error, CommandFailed) and error.exit_code > SIGNALLED
        broken = isinstance(error, ConnectionLost) and not isinstance(error, LeaseLost)
        try:
            if killed:
                broken = not await self._answers()
            if broken:
                await self._verdict()
        finally:
            self._pool._returned(self)
        assert self._lost is not None
        lost = self._lost.result() if self._lost.done() else None
        if lost is not None and error is not lost and (killed or isinstance(error, ConnectionLost)):
            raise lost from error

    async def _answers(self) -> bool:
        """Whether the executor is there. What ends a node may end its commands first: then the failure of
        one is the node's loss."""
        assert self.client is not None
        try:
            await self.client.status()
        except (ConnectionLost, TimedOut):
            return False
        except OutfitterError:
            pass  # an answer is an answer
        return True

    async def _verdict(self) -> None:
        """Waits until it is known whether a broken connection was the executor's end."""
        loop, client = asyncio.get_running_loop(), self.client
        assert client is not None and self._lost is not None
        until = loop.time() + DEAD + 1.0
        while client.state == RECOVERING and not self._lost.done() and loop.time() < until:
            await asyncio.wait({self._lost}, timeout=_LOOK_SECONDS)

    # From the pool

    def _queue(self) -> None:
        self.state = QUEUED

    def _give(self, client: Client, endpoint: Endpoint) -> None:
        self.state = LEASED
        self.node, self.workspace = endpoint.node, endpoint.workspace
        assert self._given is not None
        if not self._given.done():  # else its caller was cancelled just now, and returns it
            self._given.set_result(client)
            self.client = client

    def _refuse(self, reason: str, detail: str) -> None:
        self.state = REFUSED
        assert self._given is not None
        if not self._given.done():
            self._given.set_exception(LeaseRefused(reason, detail))

    def _lose(self, reason: str, detail: str, now: float) -> LeaseLost:
        """The executor is gone: everything that the block does with its client fails from now on."""
        self.state = LOST
        self._fence = LeaseFence(now)
        lost = LeaseLost(reason, self.node, detail, fenced_after=FENCE)
        assert self._lost is not None
        if not self._lost.done():
            self._lost.set_result(lost)
        return lost

    def _confirm_end(self, now: float) -> None:
        """The keeper of the lost executor has seen everything end."""
        if self._fence is not None:
            self._fence.confirm(now)
            self._fenced.set()

    def _end(self) -> None:
        """The block is over, or its caller does not wait any more."""
        if self.state in (LEASED, QUEUED):
            self.state = DONE if self.state == LEASED else CANCELLED


async def run_setup(client: Client, setup: tuple[str, ...]) -> None:
    """Runs a setup in a new workspace. Raises LeaseRefused, ConnectionLost."""
    try:
        await client.run(setup, timeout=SETUP_SECONDS, check=True)
    except CommandFailed as error:
        said = (error.stdout + error.stderr)[-_SAID_BYTES:].decode("utf-8", "replace").strip()
        detail = f"the setup exited with {error.exit_code}: {said or 'it said nothing'}"
    except TimedOut:
        detail = f"the setup took more than {SETUP_SECONDS:g} s"
    except ConnectionLost:
        raise
    except OutfitterError as error:
        detail = f"the setup could not run: {error}"
    else:
        return
    raise LeaseRefused("setup-failed", detail)
