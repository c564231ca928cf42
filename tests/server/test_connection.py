"""One connection: what a fault of our own ends, and when its peer is not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from outfitter.core.quotas import Sharing
from outfitter.pace import Pace
from outfitter.protocol import jsonrpc
from outfitter.protocol.methods import METHODS
from outfitter.server import dispatch
from outfitter.server import services as services_module
from outfitter.server.connection import Connection
from outfitter.server.server import Server
from outfitter.server.services import Services
from outfitter.server.settings import ServerSettings
from outfitter.transport.memory import MemoryTransport, pair

INTERNAL = {"code": -32603, "message": "internal error", "data": {"error": "internal-error"}}


class Peer:
    """The other end of the memory: keeps every message, and why the connection ended."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.messages: list[dict[str, object]] = []
        self.ended: str | None = None
        transport.receiver = self

    def message(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.messages.append(json.loads(data))

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.ended = reason

    async def ask(self, ident: int, method: str, params: object = None) -> dict[str, object]:
        self.transport.send(json.dumps({"id": ident, "method": method, "params": params}).encode())
        while not any(message.get("id") == ident for message in self.messages):
            assert self.ended is None, self.ended
            await asyncio.sleep(0)
        return next(message for message in self.messages if message.get("id") == ident)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


async def greeted(server: Server) -> Peer:
    near, far = pair(asyncio.get_running_loop())
    server.connect(far)
    peer = Peer(near)
    await peer.ask(0, "initialize", {"clientName": "test"})
    near.send(b'{"method":"initialized"}')
    await peer.ask(100, "environment/status")
    return peer


SENSITIVE = "hush"


def fails(*_: object) -> None:
    raise RuntimeError(SENSITIVE)


@pytest.mark.parametrize("where", ["handler", "params"])
def test_fault_of_ours_is_an_answer_that_says_nothing_and_the_connection_goes_on(
    where: str,
    runner: asyncio.Runner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        server = Server(asyncio.get_running_loop(), ServerSettings(), {})
        peer = await greeted(server)
        with monkeypatch.context() as broken:
            if where == "handler":
                broken.setitem(dispatch._handlers, "listing.list_processes", fails)
            else:
                broken.setattr(METHODS["process/list"], "decode", fails)
            assert (await peer.ask(1, "process/list"))["error"] == INTERNAL
        assert (await peer.ask(2, "process/list"))["result"] == {"processes": []}
        server.stop()

    runner.run(scenario())
    assert SENSITIVE not in caplog.text
    assert "process/list failed" in caplog.text


def test_fault_outside_of_any_request_ends_the_connection_and_nothing_else(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        server = Server(asyncio.get_running_loop(), ServerSettings(), {})
        peer, other = await greeted(server), await greeted(server)
        with monkeypatch.context() as broken:
            broken.setattr(jsonrpc, "parse", fails)
            peer.transport.send(b'{"id":1,"method":"process/list"}')
            while peer.ended is None:
                await asyncio.sleep(0)
        assert (peer.ended, peer.transport.close_code) == ("internal error", 1011)
        assert (await other.ask(1, "process/list"))["result"] == {"processes": []}
        server.stop()

    runner.run(scenario())
    assert SENSITIVE not in caplog.text
    assert "a message could not be handled" in caplog.text


def test_peer_is_read_again_when_the_last_reason_not_to_is_gone(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        services = Services(loop, ServerSettings(), {}, retains=False, base="daemon", pace=Pace())
        near, far = pair(loop)
        Peer(near)
        connection = Connection(services, far, lambda _: None)
        held = []
        for reason, on in (("a", True), ("b", True), ("a", True), ("a", False), ("a", False), ("b", False)):
            connection.hold(reason, on)
            held.append(far._hold)
        assert held == [True, True, True, True, True, False]
        services.stop()

    runner.run(scenario())


def test_principal_that_does_not_read_its_answers_is_not_read_before_others_are(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_module, "ANSWERS_TOTAL_BYTES", 2 << 20)

    async def scenario() -> list[bool]:
        loop = asyncio.get_running_loop()
        services = Services(
            loop, ServerSettings(), {}, retains=False, base="daemon", pace=Pace(), sharing=Sharing(True)
        )
        connections: list[Connection] = []
        services.connections = connections
        ends = []
        for principal in ("alice", "alice", "bob"):
            near, far = pair(loop)
            Peer(near)
            near.pause_reading()
            far.principal = principal
            ends.append(far)
            connections.append(Connection(services, far, lambda _: None))
        # Alone none of them has too much: a connection may have 4 MiB.
        for connection, size in zip(connections, (550, 550, 300), strict=True):
            connection.reply(b"x" * (size << 10))
        services.stop()
        return [far._hold for far in ends]

    assert runner.run(scenario()) == [False, True, False]
