"""Who is asked which hosts a command may reach, and hears what was decided."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import outfitter
from outfitter import Sandbox
from outfitter.client.answers import NetworkDecision, NetworkTarget
from outfitter.client.connection import MAX_QUESTIONS
from outfitter.errors import SettingInvalid
from tests.client.peer import Peer, with_a_peer
from tests.support.machine import SECOND
from tests.support.sandbox import need_sandbox
from tests.support.sandboxes import elsewhere
from tests.support.servers import Server, serving
from tests.support.wire import Message

if TYPE_CHECKING:
    from outfitter.client.session import Decide

QUESTION = {"protocol": "https_connect", "host": "a.test", "port": 443}


async def said(peer: Peer) -> Message:
    """The next message of the client."""
    while not peer.requests:
        await asyncio.sleep(0)
    return peer.requests.pop(0)


async def started(peer: Peer, decide: Decide | None) -> str:
    """Starts a command that asks; its id."""
    process, process_id = await peer.started()
    process._feed.decide = decide
    return process_id


def ask(peer: Peer, process_id: str, ident: int = 7) -> None:
    params = {"processId": process_id, "request": QUESTION}
    peer.say({"id": ident, "method": "network/policyRequest", "params": params})


ALLOW = {"id": 7, "result": {"decision": {"type": "allow"}}}
DENY = {"id": 7, "result": {"decision": {"type": "deny", "reason": "not_allowed"}}}


@with_a_peer()
async def test_whoever_started_the_command_decides(peer: Peer) -> None:
    asked: list[NetworkTarget] = []
    answers: list[bool] = [True, False]

    def decide(wanted: NetworkTarget) -> bool:
        asked.append(wanted)
        return answers.pop(0)

    process_id = await started(peer, decide)
    for answer in (ALLOW, DENY):
        ask(peer, process_id)
        assert await said(peer) == answer
    assert asked == [NetworkTarget("https_connect", "a.test", 443)] * 2


@with_a_peer(resumable=True)
async def test_a_decision_that_nobody_waits_for_any_more_is_given_up(peer: Peer) -> None:
    asked, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    def decide(wanted: NetworkTarget) -> Awaitable[bool]:
        asked.set()
        return answer

    ask(peer, await started(peer, decide))
    await asked.wait()
    peer.cut()
    await asyncio.wait([answer])
    assert answer.cancelled()


@with_a_peer()
async def test_a_decision_may_take_its_time_and_holds_up_nobody(peer: Peer) -> None:
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def decide(wanted: NetworkTarget) -> Awaitable[bool]:
        return answer

    ask(peer, await started(peer, decide))
    call = asyncio.ensure_future(peer.client.call("other", None))
    peer.answer(await peer.request("other"), "fine")
    assert await call == "fine"
    answer.set_result(True)
    assert await said(peer) == ALLOW


@with_a_peer()
async def test_nobody_to_ask_is_a_refusal(peer: Peer) -> None:
    ask(peer, "unknown")
    assert await said(peer) == DENY
    ask(peer, await started(peer, None))
    assert await said(peer) == DENY


@with_a_peer()
async def test_a_decision_that_fails_is_no_decision(peer: Peer) -> None:
    def decide(wanted: NetworkTarget) -> bool:
        raise RuntimeError("no idea")

    ask(peer, await started(peer, decide))
    assert await said(peer) == {"error": {"code": -32603, "message": "internal error"}, "id": 7}


@with_a_peer()
async def test_what_waits_for_a_decision_is_bounded(peer: Peer) -> None:
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    process_id = await started(peer, lambda wanted: asyncio.shield(answer))
    for ident in range(MAX_QUESTIONS + 1):
        ask(peer, process_id, ident)
    refused = await said(peer)
    assert (refused["id"], refused["error"]["code"]) == (MAX_QUESTIONS, -32601)
    answer.set_result(False)
    assert [(await said(peer))["id"] for _ in range(3)] == [0, 1, 2]


@with_a_peer()
async def test_a_question_that_the_end_of_the_connection_overtakes_is_dropped_quietly(peer: Peer) -> None:
    process_id = await started(peer, lambda wanted: True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ask(peer, process_id)
        await asyncio.sleep(0)  # it has come, and is to be answered next
        peer.near.receiver.lost("the cable was pulled")
        for _ in range(3):
            await asyncio.sleep(0)
    assert (told, peer.requests) == ([], [])


# On real servers


@pytest.fixture(scope="module", params=["codex", "outfitter"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    need_sandbox()
    with elsewhere() as folder, serving(request.param, folder) as server:
        yield server


CURL = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://nope.invalid/"]


@pytest.mark.parametrize("later", [False, True])
def test_a_host_is_asked_about_and_refused(server: Server, later: bool) -> None:
    asked: list[NetworkTarget] = []
    told: list[NetworkDecision] = []

    async def thinking(wanted: NetworkTarget) -> bool:
        asked.append(wanted)
        await asyncio.sleep(0)
        return False

    def at_once(wanted: NetworkTarget) -> bool:
        asked.append(wanted)
        return False

    decide: Callable[[NetworkTarget], Any] = thinking if later else at_once

    async def run() -> str:
        async with asyncio.timeout(30 * SECOND), outfitter.connect(server.url) as client:
            process = await client.start(
                CURL,
                sandbox=Sandbox.read_only(),
                policy=None,
                env={"PATH": "/usr/bin:/bin"},
                decide=decide,
                on_network=told.append,
            )
            output = b""
            async for event in process:
                output += getattr(event, "data", b"")
            return output.decode()

    assert asyncio.run(run()) == "403"
    assert asked == [NetworkTarget("http", "nope.invalid", 80)]
    assert [(one.decision, one.source, one.reason, one.host) for one in told] == [
        ("deny", "decider", "not_allowed", "nope.invalid")
    ]


def test_decisions_are_about_sandboxes_without_the_network(server: Server) -> None:
    async def run() -> None:
        async with outfitter.connect(server.url) as client:
            with pytest.raises(SettingInvalid, match="give it one"):
                await client.start(["true"], decide=lambda wanted: True)
            with pytest.raises(SettingInvalid, match="network=True"):
                await client.start(
                    ["true"], sandbox=Sandbox.read_only(network=True), decide=lambda wanted: True
                )

    asyncio.run(run())


def test_the_plain_client_decides_too(server: Server) -> None:
    asked: list[NetworkTarget] = []

    def decide(wanted: NetworkTarget) -> bool:
        asked.append(wanted)
        return False

    with outfitter.sync.connect(server.url) as client:
        process = client.start(
            CURL, sandbox=Sandbox.read_only(), policy=None, env={"PATH": "/usr/bin:/bin"}, decide=decide
        )
        assert process.wait() == 0
    assert [one.host for one in asked] == ["nope.invalid"]
