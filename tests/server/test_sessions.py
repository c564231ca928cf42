"""Sessions: what survives a connection, for how long, and what is forgotten."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfitter
from outfitter.client.client import Client
from outfitter.client.session import RemoteSession
from outfitter.core.launch import Launch
from outfitter.core.marks import SESSION_NUMBERS
from outfitter.core.session import FOREVER
from outfitter.errors import Refused, RequestFailed
from outfitter.loop import EpollLoop
from outfitter.pace import Pace
from outfitter.protocol.process import ReadParams
from outfitter.protocol.results import Result
from outfitter.protocol.session import LEFT
from outfitter.server.limits import CATCH_UP_SECONDS
from outfitter.server.server import Server as ExecServer
from outfitter.server.sessions import Sessions
from outfitter.server.settings import ServerSettings
from outfitter.transport.memory import MemoryTransport, pair
from tests.support.handloop import HandLoop
from tests.support.machine import SECOND, alive, own_children, own_descriptors, wait_gone, wait_until
from tests.support.raw import Raw
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64, start_params


def refused_resume(server: Server, session: str) -> Message:
    with Wire(server.url) as wire:
        return wire.error("initialize", {"clientName": "test", "resumeSessionId": session})


def resumed(server: Server, session: str, seconds: float = 5 * SECOND) -> Wire:
    """A connection that holds the session, tried until the server has noticed the end of the old one."""
    held: list[Wire] = []

    def attached() -> bool:
        wire = Wire(server.url)
        answer = wire.answer(wire.request("initialize", {"clientName": "test", "resumeSessionId": session}))
        if "error" in answer:
            assert answer["error"]["code"] == -32010
            wire.close()
            return False
        wire.send({"method": "initialized"})
        held.append(wire)
        return True

    wait_until(attached, "the session is free", seconds)
    return held[0]


# The handshake


def test_session_id_is_a_fresh_random_uuid(server: Server) -> None:
    ids = []
    for _ in range(3):
        with Wire(server.url) as wire:
            ids.append(wire.handshake()["sessionId"])
    assert len(set(ids)) == 3
    assert [(uuid.UUID(ident).version, str(uuid.UUID(ident)) == ident) for ident in ids] == [(4, True)] * 3


FAMILIES = [
    ("process/list", None, "exec"),
    ("process/read", {"processId": "p"}, "exec"),
    ("environment/info", None, "environment info"),
    ("environment/status", None, "environment status"),
]


@pytest.mark.parametrize(("method", "params", "family"), FAMILIES, ids=[row[0] for row in FAMILIES])
def test_methods_wait_for_both_steps_of_the_handshake(
    method: str, params: Message, family: str, server: Server
) -> None:
    with Wire(server.url) as wire:
        assert wire.error(method, params) == {
            "code": -32600,
            "message": f"client must call initialize before using {family} methods",
            "data": {"error": "refused"},
        }
        wire.call("initialize", {"clientName": "test"})
        assert wire.error(method, params) == {
            "code": -32600,
            "message": f"client must send initialized before using {family} methods",
            "data": {"error": "refused"},
        }


def test_bad_params_are_bad_before_the_handshake_too(server: Server) -> None:
    with Wire(server.url) as wire:
        assert wire.error("process/read", {})["code"] == -32602


def test_second_initialize_is_refused_and_the_session_goes_on(wire: Wire) -> None:
    assert wire.error("initialize", {"clientName": "test"}) == {
        "code": -32600,
        "message": "initialize may only be sent once per connection",
        "data": {"error": "refused"},
    }
    assert wire.call("process/list") == {"processes": []}


def test_failed_initialize_may_be_tried_again(server: Server) -> None:
    with Wire(server.url) as wire:
        unknown = str(uuid.uuid4())
        error = wire.error("initialize", {"clientName": "test", "resumeSessionId": unknown})
        assert (error["code"], error["message"]) == (-32600, f"unknown session id {unknown}")
        assert wire.handshake()["sessionId"] != unknown


def test_initialized_may_be_repeated(wire: Wire) -> None:
    wire.send({"method": "initialized", "params": {"anything": 1}})
    assert wire.call("environment/status") == {"status": "ready"}


# Resuming (X1)


@pytest.mark.parametrize("how", ["abort", "close"])
def test_resumed_session_has_its_processes_output_and_input(how: str, server: Server) -> None:
    wire = Wire(server.url)
    session = wire.handshake()["sessionId"]
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    wire.call("process/write", {"processId": "p", "chunk": b64(b"one"), "writeId": "1"})
    wire.until(lambda m: m["method"] == "process/output")
    wire.abort() if how == "abort" else wire.close()
    with resumed(server, session) as again:
        # The answer to the first write may have been lost; sending it again is harmless.
        again.call("process/write", {"processId": "p", "chunk": b64(b"one"), "writeId": "1"})
        again.call("process/write", {"processId": "p", "chunk": b64(b"two"), "writeId": "2", "eof": True})
        again.closed("p")
        page = again.call("process/read", {"processId": "p"})
        assert page == {
            "chunks": [
                {"seq": 1, "stream": "stdout", "chunk": b64(b"one")},
                {"seq": 2, "stream": "stdout", "chunk": b64(b"two")},
            ],
            "nextSeq": 5,
            "exited": True,
            "exitCode": 0,
            "closed": True,
            "failure": None,
            "sandboxDenied": False,
        }


def test_events_while_detached_are_kept_not_sent(server: Server) -> None:
    wire = Wire(server.url)
    session = wire.handshake()["sessionId"]
    wire.start("p", ["/bin/sh", "-c", "read go; echo while away"], pipeStdin=True)
    wire.call("process/write", {"processId": "p", "chunk": b64(b"go\n"), "writeId": "1"})
    wire.abort()
    with resumed(server, session) as again:
        page = again.call("process/read", {"processId": "p", "waitMs": 5000})
        assert page["chunks"][0]["chunk"] == b64(b"while away\n")


def test_attached_session_is_refused_to_others_and_unharmed(server: Server, wire: Wire) -> None:
    # X8
    with Wire(server.url) as holder:
        session = holder.handshake()["sessionId"]
        assert refused_resume(server, session) == {
            "code": -32010,
            "message": f"session {session} is already attached to another connection",
            "data": {"error": "session-attached"},
        }
        assert holder.call("environment/status") == {"status": "ready"}


def test_two_that_resume_at_once_get_one_session(server: Server) -> None:
    for _ in range(10):
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.abort()
        rivals = [Wire(server.url) for _ in range(4)]
        try:
            got: list[Message] = []
            while not any("result" in answer for answer in got):
                params = {"clientName": "test", "resumeSessionId": session}
                idents = [rival.request("initialize", params) for rival in rivals]
                got = [rival.answer(ident) for rival, ident in zip(rivals, idents, strict=True)]
            assert sorted("result" in answer for answer in got) == [False, False, False, True]
            assert {answer["error"]["code"] for answer in got if "error" in answer} == {-32010}
        finally:
            for rival in rivals:
                rival.close()


def test_half_open_holder_loses_its_session_to_one_that_asks(server: Server) -> None:
    # Row 21: the holder's machine is gone, its socket is not; it answers no ping.
    with Raw(server) as dead:
        dead.upgrade()
        dead.call_unread("initialize", {"clientName": "dead"})
        _, payload = dead.frame()
        session = payload.decode().partition('"sessionId":"')[2].partition('"')[0]
        with resumed(server, session, 12 * SECOND) as heir:
            assert heir.call("process/list") == {"processes": []}


def test_living_holder_keeps_its_session_however_often_others_ask(server: Server) -> None:
    # Row 21, the other side: the holder answers pings.
    with Wire(server.url) as holder:
        session = holder.handshake()["sessionId"]
        for _ in range(5):
            assert refused_resume(server, session)["code"] == -32010
            assert holder.call("environment/status") == {"status": "ready"}


# Retention


def test_session_expires_after_the_time_that_was_set(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "1") as server:
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.start("p", ["/bin/sleep", "60"])
        [listed] = wire.call("process/list")["processes"]
        wire.abort()
        with resumed(server, session) as again:  # in time
            assert again.call("process/list")["processes"][0]["pid"] == listed["pid"]
            again.abort()
        wait_gone([listed["pid"]])
        assert refused_resume(server, session) == {
            "code": -32600,
            "message": f"unknown session id {session}",
            "data": {"error": "refused"},
        }


def test_retention_of_no_time_ends_the_session_with_its_connection(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "0") as server:
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.start("p", ["/bin/sleep", "60"])
        [listed] = wire.call("process/list")["processes"]
        wire.abort()
        wait_gone([listed["pid"]])
        assert refused_resume(server, session)["message"] == f"unknown session id {session}"


@pytest.mark.parametrize("retention", ["31536000", "999999999", "1e15"])
def test_retention_of_years_is_a_setting_like_any_other(retention: str, tmp_path: Path) -> None:
    # Longer than the longest wait of the kernel's call.
    flags = ("--session-retention", retention, "--process-retention", retention)
    with serving("outfitter", tmp_path, *flags) as server:
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.start("p", ["/bin/true"])
        wire.closed("p")
        wire.abort()
        with resumed(server, session) as again:
            assert again.call("process/read", {"processId": "p"})["closed"] is True
        assert "callback failed" not in (tmp_path / "outfitter.stderr").read_text()


def test_closed_process_is_readable_for_the_time_that_was_set_then_its_id_is_free(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--process-retention", "1") as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/echo", "kept"])
        wire.closed("p")
        assert wire.call("process/read", {"processId": "p"})["chunks"][0]["chunk"] == b64(b"kept\n")
        assert wire.error("process/start", start_params("p", ["/bin/true"])) == {
            "code": -32600,
            "message": "process p already exists",
            "data": {"error": "refused"},
        }
        wait_until(lambda: wire.call("process/list") == {"processes": []}, "it is forgotten")
        assert wire.error("process/read", {"processId": "p"}) == {
            "code": -32600,
            "message": "unknown process id p",
            "data": {"error": "refused"},
        }
        assert wire.start("p", ["/bin/true"]) == {"processId": "p", "sandboxType": "none"}


def test_dropped_output_is_a_gap_that_says_so(server: Server, wire: Wire) -> None:
    # X3, row 16: 3,000,000 bytes, a window of 1 MiB.
    wire.start("p", ["/bin/sh", "-c", "head -c 3000000 /dev/zero"])
    wire.closed("p")
    page = wire.call("process/read", {"processId": "p"})
    kept = sum(len(chunk["chunk"]) // 4 * 3 - chunk["chunk"].count("=") for chunk in page["chunks"])
    assert page["droppedBytes"] + kept == 3_000_000
    assert kept <= 1 << 20
    # A reader whose cursor is past the gap has lost nothing.
    cursor = page["chunks"][0]["seq"]
    assert "droppedBytes" not in wire.call("process/read", {"processId": "p", "afterSeq": cursor})


# Limits (row 38)


def test_too_many_sessions_are_refused_and_one_that_ends_makes_room(tmp_path: Path) -> None:
    flags = ("--max-sessions", "2", "--session-retention", "0")
    with serving("outfitter", tmp_path, *flags) as server, Wire(server.url) as one, Wire(server.url) as three:
        one.handshake()
        two = Wire(server.url)
        two.handshake()
        assert three.error("initialize", {"clientName": "test"}) == {
            "code": -32600,
            "message": "this exec-server already keeps 2 sessions; close one, or start it with a larger "
            "--max-sessions",
            "data": {"error": "refused"},
        }
        two.close()
        wait_until(lambda: admitted(three), "there is room")


@pytest.mark.parametrize("how", ["abort", "close"])
def test_sessions_in_which_nothing_runs_make_room_and_the_oldest_goes_first(how: str, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--max-sessions", "3") as server:
        sessions = []
        for argv in (["/bin/sleep", "60"], ["/bin/echo", "one"], ["/bin/echo", "two"]):
            wire = Wire(server.url)
            sessions.append(wire.handshake()["sessionId"])
            wire.start("p", argv)
            if argv[0] == "/bin/echo":
                wire.closed("p")
            wire.abort() if how == "abort" else wire.close()
        with Wire(server.url) as newcomer:
            wait_until(lambda: admitted(newcomer), "there is room")
            assert refused_resume(server, sessions[1])["message"] == f"unknown session id {sessions[1]}"
            resumed(server, sessions[2]).close()
            with resumed(server, sessions[0]) as again:  # something runs in it, so it never does
                assert again.call("process/list")["processes"][0]["exited"] is False


def test_sessions_in_which_something_runs_never_make_room(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--max-sessions", "2") as server, Wire(server.url) as newcomer:
        sessions = []
        for _ in range(2):
            wire = Wire(server.url)
            sessions.append(wire.handshake()["sessionId"])
            wire.start("p", ["/bin/sleep", "60"])
            wire.abort()
        assert newcomer.error("initialize", {"clientName": "test"})["message"] == (
            "this exec-server already keeps 2 sessions; close one, or start it with a larger --max-sessions"
        )
        for session in sessions:
            resumed(server, session).close()


def admitted(wire: Wire) -> bool:
    return "result" in wire.answer(wire.request("initialize", {"clientName": "test"}))


# Leaving


def test_client_that_leaves_takes_its_session_along(server: Server) -> None:
    wire = Wire(server.url)
    session = wire.handshake()["sessionId"]
    wire.start("p", ["/bin/true"])
    wire.closed("p")
    wire.socket.close(LEFT)
    assert refused_resume(server, session)["message"] == f"unknown session id {session}"


def test_session_that_was_left_waits_for_what_runs_in_it(server: Server) -> None:
    wire = Wire(server.url)
    session = wire.handshake()["sessionId"]
    wire.start("p", ["/bin/sleep", "60"])
    wire.socket.close(LEFT)
    with resumed(server, session) as again:
        assert again.call("process/list")["processes"][0]["exited"] is False
        # Whoever comes back has not left: the end of the command is not that of the session.
        again.call("process/terminate", {"processId": "p"})
        again.closed("p")
        again.abort()
    resumed(server, session).close()


@pytest.mark.parametrize("code", [1000, 1001, 4000, 4001])
def test_any_other_close_leaves_the_session_to_be_resumed(code: int, server: Server) -> None:
    wire = Wire(server.url)
    session = wire.handshake()["sessionId"]
    wire.socket.close(code)
    resumed(server, session).close()


def test_more_sessions_than_there_is_room_for_one_after_the_other(tmp_path: Path) -> None:
    async def one(url: str) -> int:
        async with outfitter.connect(url) as client:
            return (await client.run(["/bin/true"])).exit_code

    async def many(url: str) -> list[int]:
        return [await one(url) for _ in range(80)]

    with serving("outfitter", tmp_path, "--max-sessions", "64", "--session-retention", "14400") as server:
        assert asyncio.run(many(server.url)) == [0] * 80


# Detached commands


DETACHED: Message = {"detached": {}}


def test_detached_command_outlives_its_client_where_others_do_not(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "0") as server:
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.start("p", ["/bin/sh", "-c", "read go; echo over"], pipeStdin=True, **DETACHED)
        wire.abort()
        with resumed(server, session) as again:
            again.call("process/write", {"processId": "p", "chunk": b64(b"go\n"), "writeId": "1"})
            again.closed("p")
            again.abort()
        with resumed(server, session) as again:  # and can be read after its end
            assert again.call("process/read", {"processId": "p"})["chunks"][0]["chunk"] == b64(b"over\n")


def test_session_goes_some_time_after_the_end_of_its_detached_command(tmp_path: Path) -> None:
    flags = ("--session-retention", "0", "--detached-retention", "1")
    with serving("outfitter", tmp_path, *flags) as server:
        wire = Wire(server.url)
        session = wire.handshake()["sessionId"]
        wire.start("p", ["/bin/sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"], **DETACHED)
        wire.abort()
        resumed(server, session).close()
        (tmp_path / "go").touch()

        def gone() -> bool:
            with Wire(server.url) as wire:
                params = {"clientName": "test", "resumeSessionId": session}
                return wire.answer(wire.request("initialize", params)).get("error", {}).get("code") == -32600

        wait_until(gone, "the session is gone")


def test_detached_command_ends_after_the_time_that_was_asked_for(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "0", "--max-detached", "1") as server:
        wire = Wire(server.url)
        wire.handshake()
        error = wire.error("process/start", start_params("p", ["/bin/true"], **DETACHED))
        assert (error["code"], error["data"]) == (-32600, {"error": "detach-refused"})
        error = wire.error("process/start", start_params("p", ["/bin/true"], detached={"forMs": 1001}))
        assert error["message"].startswith("this server ends a command 1 s after its client has gone")
        wire.start("p", ["/bin/sleep", "60"], detached={"forMs": 1000})
        [listed] = wire.call("process/list")["processes"]
        wire.abort()
        wait_gone([listed["pid"]])


def test_detached_command_needs_a_carrier_that_can_be_dialled_again(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            with pytest.raises(RequestFailed, match="this connection cannot be resumed"):
                await client.start(["/bin/true"], detach=True)

    runner.run(scenario())


def test_too_many_processes_are_refused_and_one_that_closes_makes_room(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--max-processes", "2") as server, Wire(server.url) as wire:
        wire.handshake()
        for process in ("a", "b"):
            wire.start(process, ["/bin/sleep", "60"])
        assert wire.error("process/start", start_params("c", ["/bin/sleep", "60"])) == {
            "code": -32600,
            "message": "this session already runs 2 processes; end one, or start the server with a larger "
            "--max-processes",
            "data": {"error": "refused"},
        }
        wire.call("process/terminate", {"processId": "a"})
        wire.closed("a")
        wire.start("c", ["/bin/sleep", "60"])
        with Wire(server.url) as other:  # the limit is each session's own
            other.handshake()
            other.start("c", ["/bin/sleep", "60"])


# In this process, for settings that have no flag


class Local:
    """A server and clients of it on the running asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **settings: int) -> None:
        self._loop = loop
        self.server = ExecServer(loop, ServerSettings(**settings), {"PATH": "/usr/bin:/bin"})  # type: ignore[arg-type]

    async def client(self) -> Client:
        near, far = pair(self._loop)
        self.server.connect(far)

        async def reach() -> MemoryTransport:
            return near

        session = RemoteSession(reach, where="here", resumable=False, same_machine=True)
        await session.open()
        return Client(session)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def test_closed_processes_are_bounded_and_the_oldest_goes_first(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        local = Local(asyncio.get_running_loop(), closed_processes=3)
        client = await local.client()
        try:
            for number in range(8):
                await client.call("process/start", start_params(f"p{number}", ["/bin/true"]))
                page = await client.call("process/read", {"processId": f"p{number}", "waitMs": 5000})
                while not page["closed"]:
                    cursor = page["nextSeq"] - 1
                    params = {"processId": f"p{number}", "afterSeq": cursor, "waitMs": 5000}
                    page = await client.call("process/read", params)
            listed = (await client.call("process/list", None))["processes"]
            assert [entry["processId"] for entry in listed] == ["p5", "p6", "p7"]
            with pytest.raises(RequestFailed, match="unknown process id p4"):
                await client.call("process/read", {"processId": "p4"})
        finally:
            local.server.stop()

    runner.run(scenario())


def test_numbers_of_sessions_never_run_out_before_the_limit(runner: asyncio.Runner) -> None:
    # A mark has room for 4096 sessions; an operator may ask for more.
    async def scenario() -> None:
        local = Local(asyncio.get_running_loop(), max_sessions=5000)
        try:
            for number in range(4100):
                try:
                    await local.client()
                except RequestFailed as error:
                    assert error.code == -32600, f"session {number}: {error}"  # a limit is a clear answer
                    break
        finally:
            local.server.stop()

    runner.run(scenario())


def test_output_of_all_sessions_shares_one_budget(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        local = Local(asyncio.get_running_loop(), retained_total_bytes=300_000)
        clients = [await local.client() for _ in range(3)]
        try:
            for client in clients:
                done = await client.run(["/bin/sh", "-c", "head -c 250000 /dev/zero"])
                assert (done.exit_code, len(done.stdout)) == (0, 250_000)  # what is pushed is not affected
            retained = []
            for client in clients:
                [entry] = (await client.call("process/list", None))["processes"]
                retained.append(250_000 - entry["droppedBytes"])
            assert retained[0] == 250_000
            assert retained[1:] == [size for size in retained[1:] if size <= 64 << 10]
        finally:
            local.server.stop()

    runner.run(scenario())


def test_stopped_server_leaves_no_process_and_no_descriptor(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        local = Local(asyncio.get_running_loop())
        client = await local.client()
        process = await client.start(["/bin/sleep", "60"])
        [entry] = (await client.call("process/list", None))["processes"]
        assert process.process_id == entry["processId"]
        local.server.stop()
        assert not alive(entry["pid"])

    runner.run(scenario())


# The registry alone


class Outlet:
    """A connection that takes everything."""

    full = False
    principal = "uid:0"
    address = "nowhere"

    def push(self, *messages: bytes) -> bool:
        return True

    push_parts = push

    def probe(self, seconds: float) -> None: ...
    def close(self, code: int, reason: str) -> None: ...


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


def registry(loop: EpollLoop, retention: float) -> Sessions:
    return Sessions(loop, ServerSettings(session_retention=retention), Pace())


SLEEP = Launch("/bin/sleep", ["sleep", "60"], "/", {"PATH": "/usr/bin:/bin"})


def test_each_session_that_nobody_comes_back_to_expires(
    loop: EpollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = registry(loop, 0.05 * SECOND)
    for _ in range(3):
        outlet = Outlet()
        sessions.detach(sessions.create(outlet), outlet)
    assert len(sessions) == 3
    loop.call_later(5 * SECOND, loop.stop)

    def look() -> None:
        loop.stop() if not len(sessions) else loop.call_later(0.01, look)

    look()
    loop.run()
    sessions.stop()
    assert (len(sessions), caplog.text) == (0, "")


def test_as_many_sessions_as_there_are_numbers_make_room_for_more() -> None:
    loop = HandLoop()
    sessions = Sessions(loop, ServerSettings(session_retention=600, max_sessions=SESSION_NUMBERS), Pace())

    def come_and_go() -> str:
        outlet = Outlet()
        session = sessions.create(outlet)
        sessions.detach(session, outlet)
        return session.id

    kept = -1
    while kept < len(sessions):  # until one has to go for the next
        kept = len(sessions)
        come_and_go()
    last = ""
    with pytest.raises(Refused, match="try again in a moment"):
        for _ in range(SESSION_NUMBERS):
            last = come_and_go()
    assert (len(sessions), sessions.knows(last)) == (kept, True)
    loop.advance(1.0)
    assert sessions.knows(come_and_go())
    assert (len(sessions), sessions.knows(last)) == (kept, True)
    sessions.stop()


def test_stopped_server_has_no_command_of_an_ended_session_either(loop: EpollLoop) -> None:
    """Killed just before, and not seen to end yet: nobody else would close its descriptors."""

    def use() -> int:
        sessions, outlet = registry(loop, 0), Outlet()
        session = sessions.create(outlet)
        session.start("p", SLEEP)
        pid = session.processes["p"].pid
        sessions.end(session)
        sessions.stop()
        return pid

    use()  # what is opened once stays open
    before = len(own_descriptors())
    pid = use()
    assert (len(own_descriptors()), str(pid) in own_children()) == (before, False)


def test_session_that_was_left_ends_with_its_last_command(loop: EpollLoop) -> None:
    sessions, outlet = registry(loop, 600), Outlet()
    session = sessions.create(outlet)
    ends = Launch("/bin/sh", ["sh", "-c", "exit"], "/", {"PATH": "/usr/bin:/bin"})
    session.start("p", ends)
    sessions.detach(session, outlet, left=True)
    assert len(sessions) == 1
    loop.call_later(5 * SECOND, loop.stop)

    def look() -> None:
        loop.stop() if not len(sessions) else loop.call_later(0.01, look)

    look()
    loop.run()
    assert len(sessions) == 0
    sessions.stop()


def test_session_that_was_resumed_in_time_leaves_no_end_behind(
    loop: EpollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    sessions, outlet = registry(loop, 0.02 * SECOND), Outlet()
    session = sessions.create(outlet)
    sessions.detach(session, outlet)
    sessions.resume(session.id, Outlet(), 1.0)
    loop.call_later(0.05 * SECOND, loop.stop)  # after the time at which it would have ended
    loop.run()
    assert (len(sessions), caplog.text) == (1, "")
    sessions.stop()


def test_who_comes_back_twice_in_a_second_has_its_whole_time_to_catch_up() -> None:
    loop = HandLoop()
    sessions = Sessions(loop, ServerSettings(session_retention=60), Pace())
    outlet = Outlet()
    session = sessions.create(outlet)
    streams = set(session.start("p", SLEEP)._fds)
    for _ in range(2):
        sessions.detach(session, outlet)
        outlet = Outlet()
        sessions.resume(session.id, outlet, 1.0)
        loop.advance(0.9 * CATCH_UP_SECONDS)
        assert not streams & set(loop.readers)
    loop.advance(0.2 * CATCH_UP_SECONDS)
    assert streams <= set(loop.readers)
    sessions.stop()


def test_session_that_was_resumed_is_in_use_for_as_long_as_its_client_holds_it() -> None:
    """Else a server that drains would end while somebody is there."""
    loop = HandLoop()
    sessions = Sessions(loop, ServerSettings(session_retention=60), Pace())
    outlet = Outlet()
    session = sessions.create(outlet)
    sessions.detach(session, outlet)
    loop.advance(30)
    assert [one.detached_ms for one in sessions.overview(None)] == [30_000]
    sessions.resume(session.id, Outlet(), 1.0)
    assert [one.detached_ms for one in sessions.overview(None)] == [None]
    assert sessions.in_use(loop.time() + 3600) == 1
    sessions.stop()


class FullOutlet(Outlet):
    """A connection whose peer reads nothing."""

    full = True

    def push(self, *messages: bytes) -> bool:
        return False

    push_parts = push


class Waits:
    """A call that is answered later, by nobody."""

    def later(self) -> None: ...

    def answer(self, result: Result) -> None:
        raise AssertionError(result)


def printing(text: str) -> Launch:
    return Launch("/bin/sh", ["sh", "-c", text], "/", {"PATH": "/usr/bin:/bin"})


def test_command_that_a_slow_client_held_up_goes_on_when_the_client_is_gone() -> None:
    loop = HandLoop()
    sessions, outlet = Sessions(loop, ServerSettings(session_retention=600), Pace()), FullOutlet()
    session = sessions.create(outlet)
    process = session.start("p", printing("head -c 10000000 /dev/zero"))
    streams = set(process._fds)
    loop.serve(lambda: not streams & set(loop.readers))
    assert not process.closed
    sessions.detach(session, outlet)
    loop.serve(lambda: process.closed)
    assert process.log.exit_code == 0
    sessions.stop()


def test_read_that_waited_leaves_no_timer_behind_when_its_client_is_gone() -> None:
    loop = HandLoop()
    sessions, outlet = Sessions(loop, ServerSettings(session_retention=600), Pace()), Outlet()
    session = sessions.create(outlet)
    process = session.start("p", SLEEP)
    before = loop.waiting
    for _ in range(3):
        assert session.read(process, Waits(), ReadParams("p", wait_ms=3_600_000)) is None
    assert loop.waiting == before + 3
    sessions.detach(session, outlet)
    assert loop.waiting == before + 1  # for the end of the session
    sessions.stop()


def test_output_of_a_session_that_has_ended_counts_for_nobody() -> None:
    loop = HandLoop()
    sessions = Sessions(loop, ServerSettings(), Pace())
    session = sessions.create(Outlet())
    done = session.start("done", printing("echo done"))
    runs = session.start("runs", printing("echo runs; exec sleep 60"))
    loop.serve(lambda: done.closed and sessions.budget_of("uid:0").used == 10)
    sessions.end(session)
    loop.serve(lambda: runs.closed)
    assert sessions.budget_of("uid:0").used == 0
    sessions.stop()


def test_earlier_end_is_not_missed_because_of_a_later_one(loop: EpollLoop) -> None:
    # The timer is set for a session that may run for an hour; one that waits for a moment comes after it.
    sessions = registry(loop, 0.05)
    for seconds in (3600.0, None):
        outlet = Outlet()
        session = sessions.create(outlet)
        if seconds is not None:
            session.start("p", SLEEP, unattended=seconds)
        sessions.detach(session, outlet)
    loop.call_later(5 * SECOND, loop.stop)

    def look() -> None:
        loop.stop() if len(sessions) == 1 else loop.call_later(0.01, look)

    look()
    loop.run()
    assert len(sessions) == 1
    sessions.stop()


def test_session_that_waits_for_ever_comes_after_one_that_was_resumed() -> None:
    # The timer that was set for the first one is still there, and there is no other time to set it to.
    loop = HandLoop()
    sessions = Sessions(loop, ServerSettings(session_retention=60), Pace())
    outlet = Outlet()
    first = sessions.create(outlet)
    sessions.detach(first, outlet)
    sessions.resume(first.id, Outlet(), 1.0)
    outlet = Outlet()
    second = sessions.create(outlet)
    second.start("p", SLEEP, unattended=FOREVER)
    sessions.detach(second, outlet)
    loop.advance(3600)
    assert sessions.knows(first.id) and sessions.knows(second.id)
    sessions.stop()


def test_the_end_of_a_session_comes_once_though_its_number_is_used_again(loop: EpollLoop) -> None:
    sessions = registry(loop, 60)
    first = sessions.create(Outlet())
    sessions.end(first)
    assert sessions.create(Outlet()).number != first.number  # what it left may run still
    loop.call_later(0.1 * SECOND, loop.stop)
    loop.run()
    second = sessions.create(Outlet())
    assert second.number == first.number
    process = second.start("p", SLEEP)
    sessions.end(first)
    loop.call_later(0.1 * SECOND, loop.stop)  # as long as it took when it did end
    loop.run()
    assert alive(process.pid)
    assert sessions.create(Outlet()).number != second.number
    sessions.stop()
    assert not alive(process.pid)
