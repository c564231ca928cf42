"""server/*: who sees what runs on a server, who may end it, and the end of the server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.client.client import Client
from outfitter.errors import RequestFailed
from outfitter.protocol.operating import KillParams, SessionsResult
from tests.support.machine import SECOND, alive, wait_gone, wait_until
from tests.support.raw import Raw
from tests.support.servers import Server, serving

ALICE, BOB, CAROL = "alice's own token", "bob has another one", "carol looks after it"
SECONDS = 20 * SECOND


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Server]:
    """A server with three tokens, of which the third is an operator's."""
    home = tmp_path / "server"
    home.mkdir()
    tokens = home / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{ALICE}\n{BOB}\n{CAROL}\n")
    flags: tuple[str, ...] = ("--ws-auth", "capability-token", "--ws-token-file", str(tokens))
    with serving("outfitter", home, *flags) as one:
        operator = asyncio.run(whoami(one.url, CAROL))
    with serving(
        "outfitter",
        home,
        *flags,
        "--operator",
        operator,
        "--audit",
        str(home / "audit"),
        "--session-retention",
        "1",
    ) as one:
        yield one


async def whoami(url: str, token: str) -> str:
    async with outfitter.connect(url, token=token, operate=True) as client:
        return (await overview(client)).principal


async def overview(client: Client) -> SessionsResult:
    return SessionsResult.decode(await client.call("server/sessions", None))


async def kill(client: Client, **params: Any) -> Any:
    return await client.call("server/kill", KillParams(**params).encode())


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(SECONDS):
            await scenario()

    asyncio.run(in_time())


def audited(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (server.home / "audit").read_bytes().splitlines()]


def noted(server: Server, event: str) -> list[dict[str, Any]]:
    return [one for one in audited(server) if one["event"] == event]


async def pid_of(client: Client) -> int:
    [process] = await client.processes()
    return process.pid


# Who sees what


def test_everybody_sees_their_own_and_an_operator_sees_all(shared: Server) -> None:
    async def scenario() -> None:
        async with (
            outfitter.connect(shared.url, token=ALICE) as alice,
            outfitter.connect(shared.url, token=BOB) as bob,
            outfitter.connect(shared.url, token=CAROL, operate=True) as carol,
        ):
            await alice.start(["sleep", "60"])
            seen = {
                name: await overview(one) for name, one in (("alice", alice), ("bob", bob), ("carol", carol))
            }
        mine = seen["alice"]
        assert (mine.operator, mine.pid, mine.version) == (False, shared.pid, outfitter.__version__)
        assert mine.draining_since_ms is None
        [session] = mine.sessions
        assert session.session_id == alice.session_id
        assert (session.principal, session.client) == (mine.principal, "outfitter")
        assert re.fullmatch(r"127\.0\.0\.1:\d+", session.peer or "")
        assert (session.detached_for_ms, session.operates) == (None, False)
        assert [(one.program, one.exited) for one in session.processes] == [("sleep", False)]
        assert [one.session_id for one in seen["bob"].sessions] == [bob.session_id]
        assert seen["carol"].operator
        assert {one.session_id for one in seen["carol"].sessions} == {
            alice.session_id,
            bob.session_id,
            carol.session_id,
        }
        assert [one.operates for one in seen["carol"].sessions] == [False, False, True]

    run(scenario)


def test_command_of_another_does_not_exist_except_for_an_operator(shared: Server) -> None:
    async def scenario() -> None:
        async with (
            outfitter.connect(shared.url, token=ALICE) as alice,
            outfitter.connect(shared.url, token=BOB) as bob,
            outfitter.connect(shared.url, token=CAROL, operate=True) as carol,
        ):
            process = await alice.start(["sh", "-c", "sleep 60 & wait"])
            pid = await pid_of(alice)
            named = {"session_id": alice.session_id, "process_id": process.process_id}
            for params in ({"pid": pid}, named):
                with pytest.raises(RequestFailed, match="no running command of yours has the") as refused:
                    await kill(bob, **params)
                assert refused.value.data == {"error": "refused"}
            assert alive(pid)
            whose = (await overview(alice)).principal
            with pytest.raises(RequestFailed) as refused:
                await bob.call("server/drain", None)
            assert refused.value.data == {"error": "operator-only"}
            # Its number is not enough to take it, even for an operator.
            with pytest.raises(RequestFailed, match="unknown session id"):
                await outfitter.connect(shared.url, token=CAROL, resume=alice.session_id, take_over=True)
            told = await kill(carol, pid=pid)
            assert told == {
                "sessionId": alice.session_id,
                "processId": process.process_id,
                "pid": pid,
                "running": True,
            }
            assert await process.wait() == 137
            with pytest.raises(RequestFailed, match=f"no running command of yours has the pid {pid}"):
                await kill(carol, pid=pid)
        await asyncio.to_thread(wait_until, lambda: noted(shared, "killed") != [], "the audit log has it")
        [killed] = noted(shared, "killed")
        assert (killed["ofSession"], killed["process"], killed["pid"], killed["signal"]) == (
            alice.session_id[:8],
            process.process_id,
            pid,
            None,
        )
        assert killed["principal"] != killed["of"] == whose
        events = [(one["event"], one.get("method"), one.get("error")) for one in audited(shared)]
        assert events.count(("refused", "server/kill", "refused")) >= 2
        assert ("refused", "server/drain", "operator-only") in events

    run(scenario)


def test_signal_and_grace_reach_the_command(shared: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(shared.url, token=ALICE) as alice:
            script = "trap 'echo usr1' USR1; trap 'exit 7' TERM; echo ready; while :; do :; done"
            process = await alice.start(["sh", "-c", script])
            events = aiter(process)
            assert await anext(events) == outfitter.Output("stdout", b"ready\n")
            pid = await pid_of(alice)
            await kill(alice, pid=pid, signal="USR1")
            assert await anext(events) == outfitter.Output("stdout", b"usr1\n")
            await kill(alice, session_id=alice.session_id, process_id=process.process_id, grace_ms=20_000)
            assert await process.wait() == 7

    run(scenario)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"pid": 1, "sessionId": "a", "processId": "b"},
        {"sessionId": "a"},
        {"pid": 1, "signal": "SEGV"},
        {"pid": -1},
    ],
)
def test_kill_without_one_clear_command_is_refused(params: Any, shared: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(shared.url, token=ALICE, operate=True) as alice:
            with pytest.raises(RequestFailed) as refused:
                await alice.call("server/kill", params)
            assert refused.value.code == -32602

    run(scenario)


def test_session_that_operates_starts_nothing_and_ends_with_its_connection(shared: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(shared.url, token=CAROL, operate=True) as first:
            with pytest.raises(RequestFailed, match="opened to operate the server and can start nothing"):
                await first.start(["true"])
        async with outfitter.connect(shared.url, token=CAROL, operate=True) as second:
            assert [one.session_id for one in (await overview(second)).sessions] == [second.session_id]

    run(scenario)


# The end


def ready(server: Server) -> tuple[int, bytes, bytes]:
    """Status, Server header and body of /readyz."""
    raw = Raw(server)
    head = raw.request("GET /readyz HTTP/1.1", {"Host": "localhost"})
    body = raw.body()
    raw.socket.close()
    status = int(head.split(b" ", 2)[1])
    named = re.search(rb"\r\nserver: ([^\r]*)", head)
    assert named is not None
    return status, named[1], body


def test_readyz_says_the_version_and_whether_it_drains(shared: Server) -> None:
    software = f"outfitter/{outfitter.__version__}".encode()
    assert ready(shared) == (200, software, b"")

    async def scenario() -> None:
        async with (
            outfitter.connect(shared.url, token=ALICE),
            outfitter.connect(shared.url, token=CAROL) as carol,
        ):
            await carol.call("server/drain", None)
            status, named, body = await asyncio.to_thread(ready, shared)
            assert (status, named) == (503, software)
            assert re.fullmatch(rb"draining since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body)
        log = (shared.home / "outfitter.stderr").read_text()
        assert "refused 127.0.0.1" not in log  # who asks is not turned away

    run(scenario)


@pytest.mark.parametrize("way", ["signal", "request"])
def test_drain_takes_no_new_sessions_and_ends_when_the_old_ones_have(way: str, shared: Server) -> None:
    async def scenario() -> None:
        alice = await outfitter.connect(shared.url, token=ALICE)
        process = await alice.start(["sh", "-c", "read x; echo $x"], stdin=True)
        process.keep()
        if way == "signal":
            os.kill(shared.pid, signal.SIGUSR1)
            await asyncio.to_thread(wait_until, lambda: ready(shared)[0] == 503, "it drains")
        else:
            async with outfitter.connect(shared.url, token=CAROL, operate=True) as carol:
                told = await carol.call("server/drain", None)
                assert told["sessions"] == 1
                await asyncio.to_thread(wait_until, lambda: noted(shared, "draining") != [], "it is logged")
                assert await carol.call("server/drain", None) == told  # once is enough
        with pytest.raises(
            RequestFailed, match=r"has been draining since .*Z and takes no new sessions"
        ) as refused:
            await outfitter.connect(shared.url, token=BOB)
        assert refused.value.data == {"error": "draining"}
        # Who has a session goes on, and may come back to it.
        assert (await alice.run(["echo", "on"])).stdout == b"on\n"
        session = alice.session_id
        await alice.aclose()
        alice = await outfitter.connect(shared.url, token=ALICE, resume=session)
        process = await alice.attach(process.process_id)
        await process.write("done\n")
        assert await process.wait() == 0
        async with outfitter.connect(shared.url, token=CAROL, operate=True) as carol:
            found = await overview(carol)
            assert found.draining_since_ms is not None
            assert [one.session_id for one in found.sessions] == [session, carol.session_id]
        await alice.aclose()

    run(scenario)
    assert shared.popen.wait(SECONDS) == 0
    events = [one["event"] for one in audited(shared)]
    assert events.count("draining") == 1
    assert events[-1] == "session-closed"


def test_server_that_drains_and_has_nothing_to_do_ends(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server") as server:
        os.kill(server.pid, signal.SIGUSR1)
        assert server.popen.wait(SECONDS) == 0


def test_server_inside_a_program_does_not_drain() -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            assert (await overview(client)).operator
            with pytest.raises(RequestFailed, match="part of a program and ends with it"):
                await client.call("server/drain", None)

    run(scenario)


# The log


def test_audit_tells_who_came_and_what_they_did(shared: Server) -> None:
    async def scenario() -> None:
        with pytest.raises(outfitter.DialFailed):
            await outfitter.connect(shared.url, token="a token of nobody")
        alice = await outfitter.connect(shared.url, token=ALICE)
        await alice.run(["sh", "-c", "exit 3"], env={"SECRET": "hunter2"})
        again = await outfitter.connect(shared.url, token=ALICE, resume=alice.session_id, take_over=True)
        with pytest.raises(RequestFailed):
            await again.start(["/nowhere/nothing"])
        await again.aclose()
        await alice.aclose()

    run(scenario)
    os.kill(shared.pid, signal.SIGTERM)
    assert shared.popen.wait(SECONDS) == 0
    raw = (shared.home / "audit").read_bytes()
    assert b"hunter2" not in raw
    assert b"alice" not in raw
    found = audited(shared)
    assert all(one["time"] for one in found)
    told = [(one["event"], one.get("reason") or one.get("program") or one.get("error")) for one in found]
    assert told[:-1] == [
        ("refused", "401 invalid websocket bearer token"),
        ("session-opened", None),
        ("command-started", "sh"),
        ("command-ended", None),
        ("session-taken-over", None),
        ("session-resumed", None),
        ("refused", "launch-failed"),
    ]
    assert found[-1]["event"] == "session-closed"
    assert found[3]["exit"] == 3
    [principal] = {one["principal"] for one in found[1:]}
    assert principal.startswith("token:")
    [session] = {one["session"] for one in found[1:]}
    assert len(session) == 8


def test_audit_is_opened_again_on_sighup(shared: Server) -> None:
    async def come() -> None:
        async with outfitter.connect(shared.url, token=ALICE):
            pass

    run(come)
    old, new = shared.home / "audit.1", shared.home / "audit"
    new.rename(old)
    os.kill(shared.pid, signal.SIGHUP)
    wait_until(new.exists, "the new file is there")
    run(come)
    wait_until(lambda: b"session-closed" in new.read_bytes(), "it is written to")
    assert [one["event"] for one in audited(shared)] == ["session-opened", "session-closed"]


def test_full_disk_of_the_audit_log_ends_nothing(tmp_path: Path) -> None:
    home = tmp_path / "server"
    with serving("outfitter", home, "--audit", "/dev/full") as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                for _ in range(3):
                    assert (await client.run(["true"])).exit_code == 0

        run(scenario)
        log = home / "outfitter.stderr"
        wait_until(lambda: b"audit log /dev/full cannot be written" in log.read_bytes(), "it is told")
        run(scenario)
    assert (home / "outfitter.stderr").read_text().count("cannot be written") == 1


def test_log_at_info_tells_peer_and_session_and_no_more(tmp_path: Path) -> None:
    home = tmp_path / "server"
    with serving("outfitter", home, "--log-level", "info") as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                await client.run(["true"])

        run(scenario)
    told = [
        line.partition(" outfitter.server ")[2]
        for line in (home / "outfitter.stderr").read_text().splitlines()
        if "nothing else was served" not in line  # on a busy machine
    ]
    uid = os.getuid()
    assert len(told) == 2
    opened = re.fullmatch(
        rf"= session ([0-9a-f]{{8}}) opened by uid:{uid} at 127\.0\.0\.1:\d+ \(outfitter\)", told[0]
    )
    assert opened is not None
    assert told[1] == f"= session {opened[1]} of uid:{uid} closed: left"


def test_process_group_of_a_killed_command_is_gone(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server") as server:

        async def scenario() -> None:
            async with (
                outfitter.connect(server.url) as client,
                outfitter.connect(server.url, operate=True) as operator,
            ):
                process = await client.start(["sh", "-c", "setsid sleep 60 & echo $!; wait"])
                child = int((await anext(aiter(process))).data)  # type: ignore[union-attr]
                assert alive(child)
                await kill(operator, pid=await pid_of(client))
                await asyncio.to_thread(wait_gone, [child])

        run(scenario)
