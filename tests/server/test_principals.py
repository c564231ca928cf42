"""Principals: what belongs to one does not exist for another, and none keeps the others out."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.client.client import Client
from outfitter.client.environment import EnvContract
from outfitter.client.session import RemoteSession
from outfitter.contract import overlays
from outfitter.errors import OutfitterError, RequestFailed
from outfitter.server import outbound, sessions
from outfitter.server.server import Server
from outfitter.server.settings import ServerSettings
from outfitter.transport.memory import MemoryTransport, pair
from tests.support.machine import SECOND, wait_until
from tests.support.rawhttp import HOLD, raw_origin
from tests.support.servers import Server as RealServer
from tests.support.servers import serving
from tests.support.wire import Wire, start_params

Scenario = Callable[["Shared"], Awaitable[None]]


class Shared:
    """A server on the running loop, and clients of it for several principals."""

    def __init__(self, **settings: Any) -> None:
        self._loop = asyncio.get_running_loop()
        inherited = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
        self.server = Server(self._loop, ServerSettings(**settings), inherited)
        self.ends: dict[str, MemoryTransport] = {}

    async def client(self, principal: str, resume: str | None = None, *, take_over: bool = False) -> Client:
        near, far = pair(self._loop)
        far.principal = principal
        self.server.connect(far)

        async def reach() -> MemoryTransport:
            return near

        session = RemoteSession(reach, where=principal, resumable=False, same_machine=True)
        await session.open(resume, take_over=take_over)
        self.ends[session.link.session_id] = near
        return Client(session)

    async def refusal(self, principal: str, resume: str, *, take_over: bool = False) -> tuple[object, ...]:
        with pytest.raises(RequestFailed) as caught:
            await self.client(principal, resume, take_over=take_over)
        return caught.value.code, caught.value.message.replace(resume, "ID"), caught.value.data

    def drop(self, client: Client) -> None:
        """The connection is lost without a word."""
        self.ends[client.session_id].close(1006, "")


@pytest.fixture
def run() -> Iterator[Callable[..., None]]:
    def run(scenario: Scenario, **settings: Any) -> None:
        async def whole() -> None:
            shared = Shared(**settings)
            try:
                await scenario(shared)
            finally:
                shared.server.stop()

        runner.run(whole())

    with asyncio.Runner() as runner:
        yield run


async def failure(call: Awaitable[object]) -> OutfitterError:
    with pytest.raises(OutfitterError) as caught:
        await call
    return caught.value


UNKNOWN = (-32600, "unknown session id ID", {"error": "refused"})


# Sessions


@pytest.mark.parametrize("take_over", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_another_s_session_is_as_unknown_as_one_that_never_was(
    run: Callable[..., None], take_over: bool, held: bool
) -> None:
    async def scenario(shared: Shared) -> None:
        alice = await shared.client("jwt:issuer|alice")
        process = await alice.start(["/bin/cat"], stdin=True)
        if not held:
            shared.drop(alice)
        never = await shared.refusal("jwt:issuer|bob", "00000000-0000-4000-8000-000000000000")
        theirs = await shared.refusal("jwt:issuer|bob", alice.session_id, take_over=take_over)
        assert (never, theirs) == (UNKNOWN, UNKNOWN)
        # And it is unharmed: its holder was neither asked nor ended.
        if held:
            assert await process.write(b"still here\n") == "accepted"
        again = await shared.client("jwt:issuer|alice", alice.session_id, take_over=held)
        assert [one.process_id for one in await again.processes()] == [process.process_id]

    run(scenario)


def test_process_ids_are_each_session_s_own(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        alice, bob = await shared.client("alice"), await shared.client("bob")
        await alice.call("process/start", start_params("p", ["/bin/sleep", "60"]))
        assert (await bob.call("process/list", None)) == {"processes": []}
        assert (await bob.call("process/terminate", {"processId": "p"})) == {"running": False}
        assert str(await failure(bob.call("process/read", {"processId": "p"}))).startswith(
            "unknown process id"
        )
        await bob.call("process/start", start_params("p", ["/bin/true"]))
        [left] = (await alice.call("process/list", None))["processes"]
        assert (left["processId"], left["exited"]) == ("p", False)

    run(scenario)


# Overlay scopes


async def put(client: Client, scope: str, **values: str) -> object:
    params = {"scope": scope, "producer": "user", "set": values}
    return await client.call("environment/overlay/put", params)


async def listed(client: Client, scope: str) -> int:
    """How many have said something about a scope."""
    return len((await client.call("environment/overlay/list", {"scope": scope}))["contributions"])


async def printed(client: Client, scope: str, script: str) -> bytes:
    return (await client.run(["/bin/sh", "-c", script], contract=EnvContract(scope=scope))).stdout


def test_scopes_with_the_same_id_are_each_principal_s_own(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        alice, bob = await shared.client("alice"), await shared.client("bob")
        await put(alice, "thread", A_TOKEN="alices")
        scope = {"scope": "thread"}
        assert await listed(bob, "thread") == 0
        assert await printed(bob, "thread", 'echo "[$A_TOKEN]"') == b"[]\n"
        # Bob's own words change nothing of hers, nor does his end of it.
        await put(bob, "thread", A_TOKEN="bobs")
        assert await printed(bob, "thread", 'echo "[$A_TOKEN]"') == b"[bobs]\n"
        assert await printed(alice, "thread", 'echo "[$A_TOKEN]"') == b"[alices]\n"
        assert await bob.call("environment/overlay/drop", scope) == {"dropped": True}
        assert await bob.call("environment/overlay/drop", scope) == {"dropped": False}
        assert await printed(alice, "thread", 'echo "[$A_TOKEN]"') == b"[alices]\n"
        # A fork of hers is one that bob's server does not have.
        await alice.call("environment/overlay/event", {"scope": "thread", "event": "fork", "to": "thread/1"})
        error = await failure(bob.call("environment/overlay/list", {"scope": "thread/1"}))
        assert isinstance(error, RequestFailed)
        assert error.data == {"error": "scope-unknown"}
        # Another session of hers has it.
        assert await printed(await shared.client("alice"), "thread/1", 'echo "[$A_TOKEN]"') == b"[alices]\n"

    run(scenario)


def test_one_principal_cannot_take_all_scopes(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlays, "SCOPES", 6)

    async def scenario(shared: Shared) -> None:
        alice, bob = await shared.client("alice"), await shared.client("bob")
        for number in range(3):
            await put(alice, f"thread{number}", A="1")
        error = await failure(put(alice, "thread3", A="1"))
        assert isinstance(error, RequestFailed)
        assert error.data == {"error": "overlays-full"}
        said = "you already have 3 scopes, your share of the 6 of this exec-server: free some with "
        assert str(error).startswith(said)
        await put(bob, "thread0", A="1")
        # A scope whose maker has gone makes room: for its own principal, and for the other.
        await alice.aclose()
        for number in range(2):
            await put(bob, f"more{number}", A="1")
        error = await failure(put(bob, "more2", A="1"))
        assert isinstance(error, RequestFailed)
        carol = await shared.client("carol")
        await put(carol, "thread", A="1")
        assert (await listed(carol, "thread"), await listed(bob, "more1")) == (1, 1)
        # The oldest was the first to go; what a person has said in it is there again for who comes back.
        assert await listed(await shared.client("alice"), "thread0") == 1

    run(scenario)


# Quotas


def test_one_principal_cannot_take_all_sessions(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        for number in range(7):
            await shared.client("alice" if number != 1 else "bob")
            if number == 5:
                error = await failure(shared.client("alice"))
                assert isinstance(error, RequestFailed)
                assert (error.code, error.data) == (-32600, {"error": "quota-reached"})
                assert error.message == (
                    "you already have 5 sessions in use, your share of this exec-server: close one"
                )
                break
        for _ in range(2):
            await shared.client("bob")
        await shared.client("carol")

    run(scenario, max_sessions=11)


def test_the_only_principal_may_have_every_session(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        for _ in range(5):
            await shared.client("alice")
        error = await failure(shared.client("alice"))
        assert isinstance(error, RequestFailed)
        assert error.message.startswith("this exec-server already keeps 5 sessions")

    run(scenario, max_sessions=5)


def test_what_yields_to_a_newcomer_is_of_who_has_the_most(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        left = {}
        for name in ("bob", "alice1", "alice2", "alice3"):
            client = await shared.client(name.rstrip("123"))
            shared.drop(client)
            left[name] = client.session_id
        await settle()
        await shared.client("carol")
        assert await shared.refusal("alice", left["alice1"]) == UNKNOWN
        await shared.client("bob", left["bob"])

    run(scenario, max_sessions=4)


def test_one_principal_cannot_run_all_processes(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PROCESSES", 4)

    async def scenario(shared: Shared) -> None:
        alice, more, bob = [await shared.client(name) for name in ("alice", "alice", "bob")]
        await alice.start(["/bin/sleep", "60"])
        second = await more.start(["/bin/sleep", "60"])
        error = await failure(alice.start(["/bin/sleep", "60"]))
        assert isinstance(error, RequestFailed)
        assert (error.data, error.message) == (
            {"error": "quota-reached"},
            "you already have 2 running processes, your share of this exec-server: end one",
        )
        await bob.start(["/bin/sleep", "60"])
        await second.terminate()
        await second.wait()
        await alice.start(["/bin/sleep", "60"])

    run(scenario)


@pytest.mark.parametrize("method", ["list", "walk"])
def test_slow_files_of_one_principal_hold_up_no_other(
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """As those on a disk that does not answer: it takes all threads that it may have."""
    slow, may_end, waiting = tmp_path / "slow", threading.Event(), threading.Semaphore(0)
    slow.mkdir()
    scandir = os.scandir

    def stuck(path: Any) -> Any:
        if os.fsdecode(path) == str(slow):
            waiting.release()
            assert may_end.wait(60 * SECOND)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", stuck)

    async def scenario(shared: Shared) -> None:
        bob = await shared.client("bob")
        tasks = []
        for _ in range(5):
            alice = await shared.client("alice")
            tasks += [asyncio.ensure_future(_look(alice, slow, method)) for _ in range(16)]
        for _ in range(8):  # more than one of her connections may have
            assert await asyncio.to_thread(waiting.acquire, timeout=20 * SECOND)
        try:
            await asyncio.wait_for(_look(bob, tmp_path / "other", method), 20 * SECOND)
        finally:
            may_end.set()
            await asyncio.gather(*tasks)

    (tmp_path / "other").mkdir()
    run(scenario)


async def _look(client: Client, folder: Path, method: str) -> None:
    if method == "list":
        await client.files.list(folder)
    else:
        await client.files.walk(folder)


def test_one_principal_cannot_have_all_descriptors(run: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def scenario(shared: Shared) -> None:
        descriptors = shared.server.services.sessions.descriptors
        descriptors.limit = 20
        bob, alice = await shared.client("bob"), await shared.client("alice")
        held = [await alice.files.open(tmp_path / "file") for _ in range(5)]  # two each
        with pytest.raises(RequestFailed, match="have 10 of this server's open files, your share"):
            await alice.start(["/bin/true"])
        assert (await bob.run(["/bin/true"])).exit_code == 0
        for one in held:
            await one.close()
        while descriptors.held:  # nobody waits for the answer to that
            await asyncio.sleep(0.01)
        assert (await alice.run(["/bin/true"])).exit_code == 0
        while descriptors._mine:
            await asyncio.sleep(0.01)

    run(scenario)


def test_bodies_of_one_principal_leave_room_for_another_s(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies that do not come to their end are held for as long as nobody gives them up."""
    monkeypatch.setattr(outbound, "HTTP_BODIES_TOTAL_BYTES", 100)

    async def scenario(shared: Shared) -> None:
        bob, alice = await shared.client("bob"), await shared.client("alice")
        held = asyncio.ensure_future(alice.http.request("GET", f"{origin.url}/60"))
        bodies = shared.server.services.http._bodies
        while bodies.held != 60:
            await asyncio.sleep(0.01)
        error = await failure(alice.http.request("GET", f"{origin.url}/40", timeout=20 * SECOND))
        assert "holds as much of such bodies as it may" in str(error)
        assert (await bob.http.request("GET", f"{origin.url}/ok")).body == b"ok"
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        while bodies.held:
            await asyncio.sleep(0.01)

    with raw_origin() as origin:
        origin.answers["/ok"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]
        for size in (60, 40):
            head = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"
            origin.answers[f"/{size}"] = [head + bytes(size), HOLD]
        run(scenario)


def test_output_of_one_principal_does_not_shorten_another_s(run: Callable[..., None]) -> None:
    async def scenario(shared: Shared) -> None:
        alice, bob = await shared.client("alice"), await shared.client("bob")
        for _ in range(8):
            await alice.run(["/bin/sh", "-c", "head -c 250000 /dev/zero"])
        await bob.run(["/bin/sh", "-c", "head -c 250000 /dev/zero"])
        kept = [
            250_000 - one["droppedBytes"] for one in (await alice.call("process/list", None))["processes"]
        ]
        assert kept[0] == 250_000
        assert max(kept[5:]) <= 64 << 10
        [his] = (await bob.call("process/list", None))["processes"]
        assert his["droppedBytes"] == 0

    run(scenario, retained_total_bytes=2_000_000)


async def settle() -> None:
    """Lets what was sent through memory arrive."""
    for _ in range(10):
        await asyncio.sleep(0)


# Over real sockets, with signed tokens


SECRET = b"a secret of at least thirty-two bytes"


def token(subject: str) -> dict[str, str]:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = {"iss": "here", "sub": subject, "exp": int(time.time()) + 3600}
    text = part(b'{"alg":"HS256","typ":"JWT"}') + "." + part(json.dumps(claims).encode())
    return {"Authorization": f"Bearer {text}.{part(hmac.digest(SECRET, text.encode(), 'sha256'))}"}


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[RealServer]:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    flags = ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", str(secret))
    with serving("outfitter", tmp_path, *flags, "--max-sessions", "8") as server:
        yield server


def test_two_subjects_of_one_issuer_have_nothing_in_common(signed: RealServer) -> None:
    with Wire(signed.url, headers=token("alice")) as alice, Wire(signed.url, headers=token("bob")) as bob:
        session = alice.handshake()["sessionId"]
        alice.start("p", ["/bin/sh", "-c", "echo secret; exec sleep 60"])
        alice.until(lambda m: m["method"] == "process/output")
        alice.call("environment/overlay/put", {"scope": "s", "producer": "user", "set": {"A": "alices"}})
        for take_over in (False, True):
            params = {"clientName": "bob", "resumeSessionId": session, "takeOver": take_over}
            assert bob.error("initialize", params)["message"] == f"unknown session id {session}"
        bob.handshake()
        assert bob.call("environment/overlay/list", {"scope": "s"})["contributions"] == []
        bob.start("p", ["/bin/sh", "-c", "echo [$A]"], contract={"author": "user", "scope": "s"})
        bob.closed("p")
        assert bob.output("p") == b"[]\n"
        assert alice.call("environment/status") == {"status": "ready"}
    with Wire(signed.url, headers=token("alice")) as alice:
        wait_until(lambda: "result" in alice.answer(alice.request("initialize", resuming(session))), "free")


def resuming(session: str) -> dict[str, str]:
    return {"clientName": "test", "resumeSessionId": session}


def test_another_gets_in_and_is_served_beside_one_who_asks_without_end(signed: RealServer) -> None:
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(Wire(signed.url, headers=token("alice"))) for _ in range(40)]
        for wire in flood[:4]:
            wire.handshake()
        error = flood[4].error("initialize", {"clientName": "test"})
        assert error["data"] == {"error": "quota-reached"}
        for wire in flood[:4]:
            for _ in range(500):
                wire.request("fs/getMetadata", {"path": "file:///etc/passwd"})
        bob = stack.enter_context(Wire(signed.url, headers=token("bob")))
        bob.handshake()
        bob.start("p", ["/bin/true"])
        assert bob.exit_code("p") == 0
        for wire in flood[:4]:  # who takes no answers would wait ten seconds to be let go
            wire.socket.socket.shutdown(socket.SHUT_RDWR)


def test_two_tokens_are_two_principals(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-of-alice-0123456789 # alice\na-token-of-bob-0123456789 # bob\n")
    tokens.chmod(0o600)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(tokens), "--max-sessions", "4")
    alices = {"Authorization": "Bearer a-token-of-alice-0123456789"}
    bobs = {"Authorization": "Bearer a-token-of-bob-0123456789"}
    with serving("outfitter", tmp_path, *flags) as server, contextlib.ExitStack() as stack:
        alice = [stack.enter_context(Wire(server.url, headers=alices)) for _ in range(3)]
        session = alice[0].handshake()["sessionId"]
        alice[1].handshake()
        # Before bob has ever been there, half of the sessions are kept for others.
        assert alice[2].error("initialize", {"clientName": "test"})["data"] == {"error": "quota-reached"}
        bob = stack.enter_context(Wire(server.url, headers=bobs))
        params = {**resuming(session), "takeOver": True}
        assert bob.error("initialize", params)["message"] == f"unknown session id {session}"
        bob.handshake()
        assert alice[0].call("environment/status") == {"status": "ready"}
