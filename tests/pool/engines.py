"""What every engine does, whatever it runs on: one class of tests, run against each by a subclass of its own.

A subclass has a fixture `opened`, a function that makes an opened engine, and `kill`, which kills what keeps
a slot with SIGKILL. Nothing here knows more than `outfitter.pool.engine`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from outfitter import VERSION
from outfitter.client.connect import connect, open_program
from outfitter.core.shape import Shape
from outfitter.errors import DialFailed, OutfitterError, RequestFailed
from outfitter.pool.certificate import trusting
from outfitter.pool.engine import OUT_OF_MEMORY, REASONS, RLIMIT, Card, Endpoint, Engine, Order, Slot
from outfitter.system import LINUX
from tests.support.machine import PROC, command, wait_until

GONE_SECONDS = 60.0  # that an engine may take to notice; its connection is quicker
ROUNDS = 40  # until a server is a copy: most often five
COPIED = "outfitter.cli.copying"


def order(number: int = 1, **shape: Any) -> Order:
    return Order(f"s{number}", POOL_ID, Shape(**{"cpus": 0.1, **shape}), VERSION)


POOL_ID = f"conf{os.getpid()}"


class Given:
    """A card, and the token behind it."""

    def __init__(self, **more: Any) -> None:
        self.token = secrets.token_urlsafe(24)
        digest = hashlib.sha256(self.token.encode()).hexdigest()
        self.card = Card(f"l{secrets.token_hex(3)}", digest, fence=30.0, keepalive=2.0, **more)

    @asynccontextmanager
    async def client(self, endpoint: Endpoint, token: str | None = None) -> AsyncIterator[Any]:
        if endpoint.argv:
            opening = open_program(endpoint.argv)
        else:
            tls = trusting(endpoint.certificate) if endpoint.certificate else None
            shown = token or (self.token if endpoint.url else None)  # a relay has tokens of its own
            opening = connect(endpoint.url or endpoint.relay, token=shown, tls=tls, max_refusals=1)
        async with opening as client:
            yield client

    async def says(self, endpoint: Endpoint, script: str) -> str:
        async with self.client(endpoint) as client:
            return str((await client.shell(script)).text)


def kill_keeper(endpoint: Endpoint) -> None:
    """The parent of a server, where that is no part of the test itself."""
    os.kill(
        int(Path(f"{PROC}/{endpoint.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL
    )


class EngineTests:
    """Subclass it as `TestX`, with the fixture `opened`."""

    kill: ClassVar[Callable[[Endpoint], None]]
    dials: ClassVar[bool] = True  # whether servers have addresses
    image: ClassVar[str] = ""  # where an engine must be told one

    def order(self, number: int = 1) -> Order:
        return order(number, image=self.image)

    def run(
        self, opened: Callable[[], Awaitable[Engine]], scenario: Callable[[Engine], Awaitable[None]]
    ) -> None:
        async def all_of_it() -> None:
            engine = await opened()
            try:
                await scenario(engine)
            finally:
                await engine.aclose()

        asyncio.run(asyncio.wait_for(all_of_it(), 110))

    def test_every_server_is_new_and_nothing_is_left(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        async def scenario(engine: Engine) -> None:
            slot = await engine.start(self.order())
            one, two = Given(), Given(env={"FROM_POOL": "1"})
            first = await slot.serve(one.card)
            assert (first.version, bool(first.node), bool(first.workspace)) == (VERSION, True, True)
            where, variables = (await one.says(first, "touch mine; pwd; env")).split("\n", 1)
            assert where == first.workspace
            assert not [
                line
                for line in variables.splitlines()
                if line.startswith(("RAY_", "SLURM_", "SSH_", "KUBERNETES_"))
            ]
            second = await slot.serve(two.card)
            assert await two.says(second, "ls; echo $FROM_POOL; dirname $HOME") == (
                f"1\n{os.path.dirname(second.workspace)}\n"
            )
            assert first.workspace != second.workspace
            if self.dials:
                with pytest.raises(OutfitterError):
                    async with one.client(first):
                        pass
                with pytest.raises(DialFailed, match="401"):
                    async with two.client(second, "another token"):
                        pass
            left.extend((first, second))
            assert (await slot.stop()).confirmed

        left: list[Endpoint] = []
        self.run(opened, scenario)
        for one in left:
            wait_until(lambda one=one: not self.lives(one), "its server and workspace are gone")  # type: ignore[misc]

    def test_the_next_server_starts_beside_the_one_that_is_there(
        self, opened: Callable[[], Awaitable[Engine]]
    ) -> None:
        async def scenario(engine: Engine) -> None:
            slot = await engine.start(self.order())
            one, two, three = Given(), Given(), Given()
            first = await slot.serve(one.card)
            await slot.prepare(three.card)
            second = await slot.prepare(two.card)  # in the place of the third, which nobody wants any more
            assert await two.says(second, "pwd") == f"{second.workspace}\n"
            assert await one.says(first, "pwd") == f"{first.workspace}\n"
            served = await slot.serve(two.card)
            assert (served.workspace, served.pid) == (second.workspace, second.pid)
            assert not self.lives(first)
            await slot.prepare(three.card)
            assert (await slot.stop()).confirmed
            left.append(second)

        left: list[Endpoint] = []
        self.run(opened, scenario)
        wait_until(lambda: not self.lives(left[0]), "its server and workspace are gone")

    def test_a_slot_that_is_renewed_ahead_has_copies_of_one_process(
        self, opened: Callable[[], Awaitable[Engine]]
    ) -> None:
        async def scenario(engine: Engine) -> None:
            slot = await engine.start(self.order())
            await slot.serve(Given().card)
            for _ in range(ROUNDS):
                given = Given(env={"ROUND": "1"})
                await slot.prepare(given.card)
                endpoint = await slot.serve(given.card)
                assert await given.says(endpoint, "pwd; echo $ROUND") == f"{endpoint.workspace}\n1\n"
                seen.append(endpoint)
                if COPIED in command(endpoint.pid):
                    break
            assert (await slot.stop()).confirmed

        seen: list[Endpoint] = []
        self.run(opened, scenario)
        assert len(seen) < ROUNDS or not LINUX
        for one in seen:
            wait_until(lambda one=one: not self.lives(one), "its server and workspace are gone")  # type: ignore[misc]

    @staticmethod
    def lives(endpoint: Endpoint) -> bool:
        """All nodes of these tests are this machine."""
        return os.path.exists(endpoint.workspace) or os.path.exists(f"{PROC}/{endpoint.pid}")

    def test_an_engine_that_is_closed_ends_its_slots(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        async def scenario(engine: Engine) -> None:
            slots = [await engine.start(self.order(number)) for number in range(2)]
            given = [Given() for _ in slots]
            served = [slot.serve(one.card) for slot, one in zip(slots, given, strict=True)]
            left.extend(await asyncio.gather(*served))
            assert len({one.workspace for one in left}) == 2
            for endpoint, one in zip(left, given, strict=True):
                Path(endpoint.workspace, "left").write_text("x")
                if self.dials:  # else the program ends with its client
                    pids.append(
                        int(await one.says(endpoint, "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"))
                    )

        left: list[Endpoint] = []
        pids: list[int] = []
        self.run(opened, scenario)
        for one in left:
            wait_until(lambda one=one: not self.lives(one), "its server and workspace are gone")  # type: ignore[misc]
        for pid in pids:
            wait_until(lambda pid=pid: not os.path.exists(f"{PROC}/{pid}"), "its commands are gone")  # type: ignore[misc]

    def test_a_slot_whose_keeper_is_killed_is_gone(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        async def scenario(engine: Engine) -> None:
            slot: Slot = await engine.start(self.order())
            given = Given()
            endpoint = await slot.serve(given.card)
            left.append(endpoint)
            gone = asyncio.ensure_future(slot.gone())
            type(self).kill(endpoint)
            loss = await asyncio.wait_for(gone, GONE_SECONDS)
            assert loss.reason in REASONS and loss.detail
            assert not (await slot.stop()).confirmed  # nobody has seen its end

        left: list[Endpoint] = []
        self.run(opened, scenario)
        wait_until(lambda: not self.lives(left[0]), "its server and workspace are gone")

    def test_a_slot_that_is_stopped_is_gone(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        async def scenario(engine: Engine) -> None:
            slot = await engine.start(self.order())
            endpoint = await slot.serve(Given().card)
            Path(endpoint.workspace, "result").write_text("42")
            gone = asyncio.ensure_future(slot.gone())
            assert (await slot.stop(keep=True)).confirmed
            assert (await asyncio.wait_for(gone, GONE_SECONDS)).reason in REASONS
            pool, lease = (
                os.path.dirname(os.path.dirname(endpoint.workspace)),
                endpoint.workspace.split("/")[-2],
            )
            kept.append(Path(pool, "kept", lease, "work", "result"))

        kept: list[Path] = []
        self.run(opened, scenario)
        assert kept[0].read_text() == "42"

    def test_what_it_has_and_what_it_can_never_place(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        async def scenario(engine: Engine) -> None:
            capacity = await engine.capacity()
            assert capacity.nodes and capacity.detail
            assert capacity.ever(Shape(0.1))
            assert capacity.grows or not capacity.ever(Shape(100_000))

        self.run(opened, scenario)


class WatchedServerTests(EngineTests):
    """Of engines whose keepers look after a server that nobody has ended."""

    def test_a_server_that_the_kernel_kills_for_its_memory_is_told_so(
        self, opened: Callable[[], Awaitable[Engine]]
    ) -> None:
        async def scenario(engine: Engine) -> None:
            slot = await engine.start(order(memory=64 << 20))
            given = Given(limits="wanted")
            endpoint = await slot.serve(given.card)
            if endpoint.limits == RLIMIT:
                pytest.skip("no control group can be made here")
            gone = asyncio.ensure_future(slot.gone())
            try:
                async with given.client(endpoint) as client:
                    await client.call("no/such/method", {"padding": "x" * (60 << 20)})
            except RequestFailed:
                pytest.skip("this machine swaps instead")
            except OutfitterError:
                pass
            loss = await asyncio.wait_for(gone, GONE_SECONDS)
            assert (loss.reason, "out of memory" in loss.detail) == (OUT_OF_MEMORY, True)
            assert not (await slot.stop()).confirmed

        self.run(opened, scenario)
