"""Bad links, slow readers, long lives and hostile peers."""

from __future__ import annotations

import asyncio
import base64
import random
import re
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

import outfitter
from outfitter.client import session
from outfitter.system import LINUX
from tests.support.machine import (
    PROC,
    SECOND,
    alive,
    children,
    descriptors,
    peak_kib,
    resident_kib,
    wait_until,
)
from tests.support.proxy import Cutter, cutting
from tests.support.raw import UPGRADE, Raw, frame
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64, start_params

LOST = (ConnectionClosed, InvalidHandshake, OSError, EOFError)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("outfitter", tmp_path_factory.mktemp("home")) as server:
        yield server


def assert_serves(server: Server) -> None:
    """A newcomer gets what it asks for."""
    with Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/echo", "hello"])
        assert [notice["method"] for notice in wire.closed("p")][-2:] == ["process/exited", "process/closed"]
        assert wire.output("p") == b"hello\n"


# Cut connections (X1, X2)


LINES = 400
WRITES = 40
# Prints numbered lines, slowly enough to be cut in the middle, quickly enough to be done in two seconds.
PRINTER = (
    f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); [ $((i % 20)) -gt 0 ] || sleep 0.02; done"
)


class Survivor:
    """A client that keeps going: redials, resumes, reads on from its last number, writes again."""

    def __init__(self, cutter: Cutter, chance: random.Random) -> None:
        self._cutter = cutter
        self._chance = chance
        self._wire: Wire | None = None
        self._session: str | None = None
        self.cuts = 0
        self.chunks: dict[str, dict[int, bytes]] = {"printer": {}, "echo": {}}
        self.closed: set[str] = set()

    def _connected(self) -> Wire:
        if self._wire is None:
            # Small budgets cut inside handshakes and frames; now and then one is left alone.
            self._cutter.budget = self._chance.choice([300, 700, 1500, 4000, 20_000, None])
            if self._cutter.budget is not None:
                self._cutter.budget = self._chance.randint(1, self._cutter.budget)
            wire = Wire(self._cutter.url)
            try:
                answer = wire.answer(
                    wire.request("initialize", {"clientName": "test", "resumeSessionId": self._session})
                )
                if "error" in answer:
                    # The server has not noticed the cut yet, or the answer with the first id was lost.
                    raise ConnectionError(answer["error"]["message"])
                self._session = answer["result"]["sessionId"]
                wire.send({"method": "initialized"})
            except BaseException:
                drop(wire)
                raise
            self._wire = wire
        return self._wire

    def call(self, method: str, params: Message) -> Message:
        """The answer, asked for until it comes. Every method used here may be repeated."""
        deadline = time.monotonic() + 60 * SECOND
        while time.monotonic() < deadline:
            try:
                wire = self._connected()
                return wire.answer(wire.request(method, params))
            except LOST:
                self.cuts += 1
                self._lose()
        raise AssertionError(f"{method} was not answered")

    def _lose(self) -> None:
        if self._wire is not None:
            drop(self._wire)
            self._wire = None

    def start(self, process: str, argv: list[str], **params: object) -> None:
        answer = self.call("process/start", start_params(process, argv, **params))
        # A lost answer makes the second try find it there.
        assert "result" in answer or answer["error"]["message"] == f"process {process} already exists"

    def read(self, process: str) -> None:
        """Reads what there is after the last number seen, waiting a little."""
        seen = self.chunks[process]
        params = {"processId": process, "afterSeq": max(seen, default=0), "waitMs": 50}
        page = self.call("process/read", params)["result"]
        for chunk in page["chunks"]:
            assert chunk["seq"] not in seen
            seen[chunk["seq"]] = base64.b64decode(chunk["chunk"])
        if page["closed"] and not page["chunks"]:
            self.closed.add(process)

    def output(self, process: str) -> bytes:
        return b"".join(data for _, data in sorted(self.chunks[process].items()))

    def end(self) -> None:
        self._lose()


def drop(wire: Wire) -> None:
    try:
        wire.abort()
        wire.close()
    except LOST:
        pass


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_doubled_over_a_link_that_keeps_breaking(seed: int, server: Server) -> None:
    # X1, X2: cursors for output, write ids for input.
    with cutting(server) as cutter:
        client = Survivor(cutter, random.Random(seed))
        client.start("printer", ["/bin/sh", "-c", PRINTER])
        client.start("echo", ["/bin/cat"], pipeStdin=True)
        for number in range(WRITES):
            data = f"write {number}\n".encode()
            params = {"processId": "echo", "chunk": b64(data), "writeId": f"w{number}"}
            assert client.call("process/write", params)["result"] == {"status": "accepted"}
            client.read("printer" if number % 2 else "echo")
        client.call("process/write", {"processId": "echo", "chunk": "", "writeId": "end", "eof": True})
        while client.closed != {"printer", "echo"}:
            for process in {"printer", "echo"} - client.closed:
                client.read(process)
        client.end()
    assert client.cuts > 0
    assert client.output("printer") == b"".join(b"line %d\n" % number for number in range(LINES))
    assert client.output("echo") == b"".join(b"write %d\n" % number for number in range(WRITES))


# Slow readers (rows 29, 42)


FLOOD_KIB = 48 << 10  # what a stalled reader may cost above what the server had


def stalled(server: Server) -> Raw:
    raw = Raw(server, receive_buffer=4096)
    raw.handshake_unread()
    return raw


def flooding(pids: list[int]) -> list[int]:
    return [pid for pid in pids if name_of(pid) == "yes"]


def name_of(pid: int) -> str:
    """What a process is called; nothing when it has gone meanwhile."""
    try:
        return Path(f"{PROC}/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_reader_that_stalls_costs_bounded_memory_and_can_still_terminate(tmp_path: Path) -> None:
    # Row 42.
    with serving("outfitter", tmp_path) as server:
        assert_serves(server)
        before = resident_kib(server.pid)
        with stalled(server) as raw:
            raw.call_unread("process/start", start_params("flood", ["yes"]))
            wait_until(lambda: len(flooding(children(server.pid))) == 1, "the flood has begun")
            [flood] = flooding(children(server.pid))
            wait_until(lambda: not_running(flood), "the flood is held back")
            assert_serves(server)
            assert peak_kib(server.pid) - before < FLOOD_KIB
            raw.call_unread("process/terminate", {"processId": "flood"})
            wait_until(lambda: not alive(flood), "the flood is ended")


def not_running(pid: int) -> bool:
    """Whether it used no processor time for a while."""

    def spent() -> list[str]:
        return Path(f"{PROC}/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]

    before = spent()
    time.sleep(0.2 * SECOND)  # an absence has no event
    return spent() == before


def test_stalled_reader_can_terminate_many_floods(tmp_path: Path) -> None:
    # Row 42: however many there are.
    count = 100
    with serving("outfitter", tmp_path) as server, stalled(server) as raw:
        for number in range(count):
            raw.call_unread("process/start", start_params(f"flood-{number}", ["yes"]))
        wait_until(lambda: len(flooding(children(server.pid))) == count, "all floods have begun")
        for number in range(count):
            raw.call_unread("process/terminate", {"processId": f"flood-{number}"})
        wait_until(lambda: not flooding(children(server.pid)), "all floods are ended")


def test_stalled_reader_of_answers_costs_bounded_memory(tmp_path: Path) -> None:
    # Row 29: a short request with a long answer, sent again and again, never read.
    with serving("outfitter", tmp_path) as server, stalled(server) as raw:
        raw.call_unread("process/start", start_params("p", ["/bin/sh", "-c", "head -c 1000000 /dev/zero"]))
        wait_until(lambda: not children_named(server, "head"), "the output is there")
        before = resident_kib(server.pid)
        requests = [
            frame(b'{"id":%d,"method":"process/read","params":{"processId":"p"}}' % ident)
            for ident in range(1000, 1500)
        ]
        raw.socket.sendall(b"".join(requests))
        assert_serves(server)
        wait_until(lambda: not_running(server.pid), "the server has done what it does")
        assert peak_kib(server.pid) - before < FLOOD_KIB


def children_named(server: Server, name: str) -> list[int]:
    return [pid for pid in children(server.pid) if name_of(pid) == name]


def test_stalled_reader_that_comes_back_gets_every_answer(server: Server) -> None:
    with stalled(server) as raw:
        raw.call_unread("process/start", start_params("p", ["/bin/sh", "-c", "head -c 300000 /dev/zero"]))
        idents = [raw.call_unread("process/read", {"processId": "p", "waitMs": 50}) for _ in range(60)]
        answered = []
        while len(answered) < len(idents):
            first, payload = raw.frame()
            assert first == 0x81
            match = re.match(rb'\{"id":(\d+),', payload)
            if match is not None and int(match[1]) in idents:
                answered.append(int(match[1]))
        assert sorted(answered) == idents


# Long lives

# Standard streams, listener, its reserve, questions to the kernel, epoll, what wakes it from threads and
# signals, the watchdog's pipe and pidfd.
IDLE_DESCRIPTORS = 12


@pytest.mark.parametrize("flags", [("--process-retention", "0"), ()], ids=["forgets", "default retention"])
def test_thousands_of_commands_leave_nothing_behind(flags: tuple[str, ...], tmp_path: Path) -> None:
    # Retained processes are the session's to keep, so each round here is a session of its own.
    rounds, per_round, width = 4, 750, 25
    with serving("outfitter", tmp_path, "--session-retention", "0", *flags) as server:
        measured = []
        for _ in range(rounds):
            with Wire(server.url) as wire:
                wire.handshake()
                for first in range(0, per_round, width):
                    names = [f"p{number}" for number in range(first, first + width)]
                    for name in names:
                        wire.request("process/start", start_params(name, ["/bin/true"]))
                    for name in names:
                        assert wire.exit_code(name) == 0
                    for name in names:
                        wire.closed(name)
                    wire.notices.clear()
            wait_until(lambda: sockets(server) == OWN_SOCKETS, "the session's connection is gone")
            # The end of a session opens one more for a moment, to look through the process table.
            wait_until(lambda: descriptors(server.pid) <= IDLE_DESCRIPTORS, "its descriptors are closed")
            measured.append(resident_kib(server.pid))
        assert measured[-1] - measured[1] < 2048, measured


OWN_SOCKETS = 2 if LINUX else 1  # the one that listens, and the one for questions to the kernel


def sockets(server: Server) -> int:
    """Open sockets of the server, its own included."""
    found = 0
    for entry in Path(f"{PROC}/{server.pid}/fd").iterdir():
        try:
            found += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return found


def test_closed_processes_of_one_session_are_kept_within_bounds(tmp_path: Path) -> None:
    # Default retention, one session: memory per finished command is small, descriptors none.
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("first", ["/bin/true"])
        wire.closed("first")
        wire.call("environment/status")  # the news come first, the cleaning up right after
        fds, memory = descriptors(server.pid), resident_kib(server.pid)
        count = 1000
        for first in range(0, count, 25):
            for number in range(first, first + 25):
                wire.request("process/start", start_params(f"p{number}", ["/bin/true"]))
            for number in range(first, first + 25):
                wire.closed(f"p{number}")
            wire.notices.clear()
        wire.call("environment/status")
        # Before they are listed: an answer of a megabyte is made and let go of, and says nothing of each.
        assert (resident_kib(server.pid) - memory) / count < 3  # KiB each
        assert len(wire.call("process/list")["processes"]) == count + 1
        wire.call("environment/status")
        assert descriptors(server.pid) == fds


# Hostile peers


GARBAGE = {
    "nothing": b"",
    "zeros": bytes(5000),
    "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50,
    "half a request line": b"GET / HT",
    "half a head": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgr",
    "newlines only": b"\r\n\r\n\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
    "endless header": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
    "bytes above ASCII": "GET / HTTP/1.1\r\nHost: ²²²\r\nX: é\r\n\r\n".encode("latin-1"),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_instead_of_a_request_harms_nobody(data: bytes, server: Server) -> None:
    with Raw(server) as raw:
        try:
            raw.socket.sendall(data)
        except ConnectionError:
            pass  # it has been refused already
        assert_serves(server)


NO_ADDRESSES = [
    "1.2.3.\xb2",
    "\xb2.\xb3.\xb9.\xb2",
    "1.2.3.4\xb9",
    "256.1.1.1",
    "1.2.3",
    "",
    "[",
    "[::1",
    "127.0.0.1.",
    "attacker.example",
]


@pytest.mark.parametrize("host", NO_ADDRESSES, ids=ascii)
def test_host_that_is_no_address_is_refused(host: str, server: Server) -> None:
    # Row 32. Some of these are digits to Python's `isdigit` and not to `int`.
    with Raw(server) as raw:
        head = raw.request(headers={**UPGRADE, "Host": host})
        assert head.startswith(b"HTTP/1.1 403 ")
    assert_serves(server)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "10.1.2.3:9", "[::1]:80"])
def test_host_that_is_an_address_is_served(host: str, server: Server) -> None:
    with Raw(server) as raw:
        raw.upgrade({"Host": host})


FRAMES = {
    "unmasked": frame(b"{}", masked=False),
    "reserved bits": frame(b"{}", 0xF1),
    "unknown opcode": frame(b"{}", 0x83),
    "continuation of nothing": frame(b"{}", 0x80),
    "long ping": frame(bytes(126), 0x89),
    "fragmented ping": frame(b"", 0x09),
    "close of one byte": frame(b"\x03", 0x88),
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_broken_frame_ends_its_connection_with_a_reason(data: bytes, server: Server) -> None:
    # Row 20.
    with Raw(server) as raw:
        raw.upgrade()
        raw.socket.sendall(data)
        code, _ = raw.close_frame()
        assert code == 1002
        assert raw.ended()
    assert_serves(server)


@pytest.mark.parametrize("length", [(64 << 20) + 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_huge_declared_frame_is_refused_before_it_comes(length: int, tmp_path: Path) -> None:
    # Row 19.
    with serving("outfitter", tmp_path) as server, Raw(server) as raw:
        raw.upgrade()
        raw.socket.sendall(frame(b"{", length=length))
        code, reason = raw.close_frame()
        assert (code, reason) == (1009, "message exceeds the limit of 67108864 bytes")
        assert peak_kib(server.pid) < 64 << 10


def test_random_bytes_after_the_upgrade_harm_nobody(server: Server) -> None:
    for seed in range(20):
        with Raw(server) as raw:
            raw.upgrade()
            try:
                raw.socket.sendall(random.Random(seed).randbytes(2000))
                raw.socket.shutdown(socket.SHUT_WR)
                assert raw.ended()
            except ConnectionError:
                pass
    assert_serves(server)


def test_many_idle_connections_harm_nobody(server: Server) -> None:
    raws: list[Raw] = []
    try:
        for number in range(300):
            raws.append(Raw(server))
            if number < 100:
                raws[-1].upgrade()
            elif number < 200:
                raws[-1].socket.sendall(b"GET / HTTP/1.1\r\n")
        assert_serves(server)
    finally:
        for raw in raws:
            raw.close()
    wait_until(lambda: sockets(server) == OWN_SOCKETS, "all of them are gone")


def test_unfinished_message_holds_up_nobody(server: Server) -> None:
    with Raw(server) as raw:
        raw.upgrade()
        raw.socket.sendall(frame(bytes(1 << 20), length=32 << 20))
        assert_serves(server)


def test_descriptors_that_run_out_are_an_error_of_one_request(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("first", ["/bin/true"])
        wire.closed("first")
        limit = descriptors(server.pid) + 10
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        answers = [
            wire.answer(wire.request("process/start", start_params(f"p{number}", ["/bin/sleep", "60"])))
            for number in range(10)
        ]
        failed = [answer["error"] for answer in answers if "error" in answer]
        assert 0 < len(failed) < 10
        assert {(error["code"], error["message"]) for error in failed} == {
            (-32603, "Too many open files (os error 24)")
        }
        # Each one that failed left nothing running.
        listed = {entry["pid"] for entry in wire.call("process/list")["processes"] if not entry["exited"]}
        assert listed == set(children_named(server, "sleep"))


# Other people's sessions


def test_errors_never_tell_of_other_sessions(server: Server) -> None:
    with Wire(server.url) as mine, Wire(server.url) as theirs:
        their_session = theirs.handshake()["sessionId"]
        theirs.start("secret-process", ["/bin/sleep", "60"])
        my_session = mine.handshake()["sessionId"]
        probes: list[tuple[str, Message]] = [
            ("process/read", {}),
            ("process/attach", {}),
            ("process/resize", {"size": {"rows": 10, "cols": 10}}),
            ("process/hold", {"held": True}),
        ]
        for method, params in probes:
            there = mine.error(method, {"processId": "secret-process", **params})
            never = mine.error(method, {"processId": "never-used-id", **params})
            assert there["message"].replace("secret-process", "never-used-id") == never["message"]
            assert {**there, "message": ""} == {**never, "message": ""}
            assert their_session not in str(there)
            assert my_session not in str(there)
        write = {"chunk": "", "writeId": "1"}
        for process in ("secret-process", "never-used-id"):
            assert mine.call("process/write", {"processId": process, **write}) == {"status": "unknownProcess"}
            assert mine.call("process/terminate", {"processId": process}) == {"running": False}
            assert mine.call("process/signal", {"processId": process, "signal": "interrupt"}) == {}
        assert mine.call("process/list") == {"processes": []}
        [listed] = theirs.call("process/list")["processes"]
        assert (listed["processId"], listed["exited"]) == ("secret-process", False)


def test_own_id_does_not_collide_with_that_of_another_session(server: Server) -> None:
    with Wire(server.url) as one, Wire(server.url) as two:
        for wire, text in ((one, "one"), (two, "two")):
            wire.handshake()
            wire.start("same", ["/bin/echo", text])
        for wire, text in ((one, b"one\n"), (two, b"two\n")):
            wire.closed("same")
            assert wire.output("same") == text


@pytest.mark.parametrize("lost", [b"process/output", b"process/exited", b"process/closed"])
@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_a_message_that_is_lost_on_the_way_is_read_again(
    kind: str, lost: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy loses one message of a command, and keeps the connection."""
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.1 * SECOND)  # no later message shows the loss of the last
    gone: list[bytes] = []

    def loses(message: bytes) -> bool:
        if lost not in message or gone:
            return False
        gone.append(message)
        return True

    async def scenario(url: str) -> None:
        async with outfitter.connect(url) as client:
            result = await client.run(["sh", "-c", "echo one; echo two >&2; sleep 0.1; echo three"], cwd="/")
            assert (result.exit_code, result.stdout, result.stderr) == (0, b"one\nthree\n", b"two\n")

    with serving(kind, tmp_path) as server, cutting(server) as cutter:
        cutter.loses = loses
        asyncio.run(asyncio.wait_for(scenario(cutter.url), 20 * SECOND))
    assert len(gone) == 1
