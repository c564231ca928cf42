"""Pools whose executors cannot be dialled: a real rendezvous stands between."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import outfitter
from outfitter.errors import DialFailed, EngineFailed, LeaseLost, SettingInvalid
from outfitter.pool.engine import Engine
from outfitter.pool.local import LocalEngine
from outfitter.pool.relayed import RelayPlace
from outfitter.pool.settings import settle
from outfitter.relay.known import Known, folder
from tests.pool.engines import EngineTests, Given, order
from tests.pool.test_local import kill_server
from tests.support.machine import SECOND
from tests.support.relays import Rendezvous, meeting


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendezvous]:
    with meeting(tmp_path_factory.mktemp("relay")) as service:
        yield service


@pytest.fixture
def relay(service: Rendezvous, own_root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pool of the rendezvous; this user has both its tokens."""
    monkeypatch.setenv("OUTFITTER_HOME", str(own_root / "tokens"))
    known = Known(folder(os.environ))
    for role in ("execute-pool", "use-pool"):
        known.keep(known.token_file(service.url, "cluster", role), service.token("cluster", role))
    return f"{service.url}/cluster"


@pytest.fixture
def opened(relay: str) -> Callable[[], Awaitable[Engine]]:
    async def make() -> Engine:
        engine = LocalEngine(relay)
        await engine.open()
        return engine

    return make


class TestLocalThroughARelay(EngineTests):
    kill = staticmethod(kill_server)


def test_an_executor_is_known_by_its_key(opened: Callable[[], Awaitable[Engine]]) -> None:
    async def scenario() -> None:
        engine = await opened()
        try:
            slot = await engine.start(order())
            endpoint = await slot.serve(Given().card)
            assert endpoint.url == "" and "#key=" in endpoint.relay
            with pytest.raises(DialFailed, match="has another key than its URL says"):
                await outfitter.connect(endpoint.relay[:-8] + "00000000")
        finally:
            await engine.aclose()

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


def test_leases_of_a_pool_and_the_loss_of_one(relay: str) -> None:
    async def scenario() -> None:
        async with outfitter.Pool("local", size=1, relay=relay) as pool:
            async with pool.lease() as client:
                assert (await client.run(["echo", "here"])).text == "here\n"
            with pytest.raises(LeaseLost):
                async with pool.lease() as client:
                    pid = int((await client.run(["sh", "-c", "echo $PPID"])).text)
                    os.kill(pid, signal.SIGKILL)
                    await client.run(["sleep", "1000"])
            async with pool.lease() as client:  # in another executor
                assert (await client.run(["true"])).ok

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


def test_a_node_without_a_token_says_so(relay: str, monkeypatch: pytest.MonkeyPatch, own_root: Path) -> None:
    async def scenario() -> None:
        engine = LocalEngine(relay)
        try:
            slot = await engine.start(order())
            with pytest.raises(EngineFailed, match=r"run `outfitter enrol http.* with a code of the role"):
                await slot.serve(Given().card)
        finally:
            await engine.aclose()

    monkeypatch.setenv("OUTFITTER_HOME", str(own_root / "empty"))
    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


@pytest.mark.parametrize(
    "url", ["relay.example/pool", "https://relay.example/", "https://r/a b", "ssh://r/p"]
)
def test_what_is_no_pool_of_a_rendezvous(url: str) -> None:
    with pytest.raises(SettingInvalid, match="is no pool of a rendezvous"):
        RelayPlace(url)
    with pytest.raises(SettingInvalid, match="64 characters"):
        RelayPlace("https://relay.example/" + "a" * 65)


def test_engines_that_have_a_way_of_their_own_use_no_relay() -> None:
    with pytest.raises(SettingInvalid, match="relay: ssh cannot use one"):
        settle("ssh", {"size": 1, "address": "host", "relay": "https://relay.example/pool"})
