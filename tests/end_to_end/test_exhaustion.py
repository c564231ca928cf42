"""No descriptor is left: whoever wants another is told so, and everybody else is served."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.machine import descriptors, running, wait_until
from tests.support.raw import Raw
from tests.support.servers import Server, serving
from tests.support.session import Gone, Peer, Refusal
from tests.support.wire import Wire, start_params

FILES = 256
TOKEN = "a-token-that-nobody-guesses-because-it-is-long"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving("outfitter", tmp_path, "--session-retention", "0", files=FILES) as server:
        yield server


def assert_serves(server: Server, headers: dict[str, str] | None = None) -> None:
    with Wire(server.url, headers=headers) as wire:
        wire.handshake()
        wire.start("p", ["/bin/echo", "hello"])
        wire.closed("p")
        assert wire.output("p") == b"hello\n"


def answer(raw: Raw) -> bytes:
    """The head of the answer; nothing when the connection ends before it could be read."""
    try:
        return raw.request()
    except ConnectionError:  # who is turned away before his request has come sees no more than that
        return b""


def test_flood_of_strangers_does_not_end_a_server(tmp_path: Path) -> None:
    # More than it has descriptors, none with a token.
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path, *flags, files=FILES) as server, ExitStack() as open_:
        for _ in range(FILES + 50):
            stranger = socket.create_connection(("127.0.0.1", server.port))
            open_.callback(stranger.close)
        with Raw(server) as raw:
            assert not answer(raw).startswith(b"HTTP/1.1 101 ")  # whatever it says, and whenever
        assert server.popen.poll() is None
        # They came before the server had imported what it needs, and they are still there.
        assert_serves(server, {"Authorization": f"Bearer {TOKEN}"})
        open_.close()
        wait_until(lambda: descriptors(server.pid) < 50, "the strangers are gone")
        assert_serves(server, {"Authorization": f"Bearer {TOKEN}"})


def test_connections_leave_descriptors_for_commands(server: Server) -> None:
    with ExitStack() as open_:
        peers = []
        while len(peers) < FILES:
            try:
                peers.append(open_.enter_context(Peer(server)))
            except Gone:
                break
        # A quarter of what is not kept in reserve.
        assert len(peers) == (FILES - FILES // 8) // 4
        peers[0].start("p", ["/bin/true"])
        assert peers[0].closed("p") == 0


def test_handles_of_one_client_leave_others_their_connections(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with ExitStack() as open_:
        peers = [open_.enter_context(Peer(server)) for _ in range(2)]
        refusals = []
        for peer in peers:
            for number in range(100):
                try:
                    peer.ask("fs/open", handleId=str(number), path=f"file://{tmp_path}/file")
                except Refusal as refusal:
                    refusals.append(str(refusal))
        assert refusals
        assert set(refusals) == {refusals[0]}
        assert refusals[0].startswith(
            "this server may open 256 files, and commands, file handles and searches"
        )
        assert "ulimit -n" in refusals[0]
        with Wire(server.url) as newcomer:
            newcomer.handshake()
            error = newcomer.error("process/start", start_params("p", ["/bin/true"]))
            assert (error["code"], error["data"]) == (-32603, {"error": "exhausted", "errno": "EMFILE"})
            newcomer.call("fs/readFile", {"path": f"file://{tmp_path}/file"})
            for number in range(4):
                peers[0].ask("fs/close", handleId=str(number))
            newcomer.start("p", ["/bin/true"])
            assert newcomer.exit_code("p") == 0


def test_commands_are_refused_before_descriptors_run_out(server: Server) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        answers = [
            wire.answer(wire.request("process/start", start_params(f"p{number}", ["/bin/sleep", "60"])))
            for number in range(60)
        ]
        refused = [answer["error"]["data"]["error"] for answer in answers if "error" in answer]
        assert set(refused) == {"exhausted"}
        assert len(refused) < 30
        wire.call("process/terminate", {"processId": "p0"})
        wire.closed("p0")
        wire.start("again", ["/bin/true"])
        assert wire.exit_code("again") == 0


def test_whoever_connects_when_none_is_left_is_told(tmp_path: Path) -> None:
    # Below what the server counts on: as if the machine had none left.
    with serving("outfitter", tmp_path) as server:
        assert_serves(server)
        before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (20, before[1]))
        told = []
        with ExitStack() as open_:
            for _ in range(20):
                told.append(answer(open_.enter_context(Raw(server))))
        assert {one.partition(b"\r\n")[0] for one in told} <= {
            b"HTTP/1.1 101 Switching Protocols",
            b"HTTP/1.1 503 Service Unavailable",
            b"",
        }
        assert told.count(b"") + sum(one.startswith(b"HTTP/1.1 503 ") for one in told) > 3
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        assert_serves(server)
        said = (tmp_path / "outfitter.stderr").read_text()
        assert said.count("cannot accept a connection now: Too many open files") == 1  # and not once for each


def test_session_ends_with_its_commands_when_no_descriptor_is_left(tmp_path: Path) -> None:
    nap = f"sleep {100_000 + os.getpid()}"
    with serving("outfitter", tmp_path, "--session-retention", "0") as server:
        with Wire(server.url) as wire:
            wire.handshake()
            wire.start("p", ["/bin/sh", "-c", f"setsid {nap} & {nap}"])
            wait_until(lambda: len(running(nap)) >= 2, "it has begun")
            before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        said = tmp_path / "outfitter.stderr"
        wait_until(lambda: "cannot look for processes" in said.read_text(), "it cannot look")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: not running(nap), "the whole tree is gone")
