"""What somebody without credentials can do to a server: be refused, slowly, and be seen in its log."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import SECOND
from tests.support.raw import UPGRADE, Raw
from tests.support.servers import Server, serving
from tests.support.wire import Wire

TOKEN = "a-capability-of-enough-length"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server that demands a token."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path, *flags) as server:
        yield server


def log_of(server: Server) -> str:
    """All that the server has written, after its end."""
    os.kill(server.pid, signal.SIGTERM)
    server.popen.wait(10 * SECOND)
    return (server.home / "outfitter.stderr").read_text()


def test_idle_connections_lock_nobody_out(guarded: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(600):  # twice the budget
            stack.enter_context(socket.create_connection(("127.0.0.1", guarded.port)))
        for _ in range(3):
            with Wire(guarded.url, headers={"Authorization": f"Bearer {TOKEN}"}) as wire:
                wire.handshake()
                assert wire.call("environment/status") == {"status": "ready"}
    assert "dropped a connection of 127.0.0.1 that asked for nothing" in log_of(guarded)


def test_refusals_are_in_the_log_with_peer_and_reason(guarded: Server) -> None:
    ports = []
    for headers in (
        {},
        {"Authorization": "Bearer wrong-and-secret"},
        {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"},
        {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"},
        {"Authorization": "Bearer \x1b[31m"},
    ):
        with Raw(guarded) as raw:
            ports.append(raw.socket.getsockname()[1])
            raw.request(headers={**UPGRADE, **headers})
            raw.body()
    lines = re.findall(r"refused 127\.0\.0\.1:(\d+): (.*)", log_of(guarded))
    assert [int(port) for port, _ in lines] == ports
    reasons = [reason for _, reason in lines]
    assert reasons[:3] == [
        "401 missing websocket bearer token",
        "401 invalid websocket bearer token",
        "403 the request has an Origin header, as browsers send it",
    ]
    assert reasons[3].startswith("403 this server does not accept this Host: ")
    assert reasons[4] == "401 invalid websocket bearer token"
    said = (guarded.home / "outfitter.stderr").read_text()
    assert not any(secret in said for secret in (TOKEN, "wrong-and-secret", "\x1b"))


def test_guesses_leave_few_lines_and_clients_do_not_wait(guarded: Server) -> None:
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(guarded)) for _ in range(60)]
        head = "\r\n".join(["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in UPGRADE.items())])
        for raw in raws:
            raw.socket.sendall(f"{head}\r\nAuthorization: Bearer guess\r\n\r\n".encode())
        answered = [raw.head()[:12] for raw in raws[:3]]
        with Wire(guarded.url, headers={"Authorization": f"Bearer {TOKEN}"}) as wire:
            wire.handshake()  # from the same address
            for raw in raws[20:]:  # which still wait for their answers
                raw.socket.setblocking(False)
                with pytest.raises(BlockingIOError):
                    raw.socket.recv(100)
        assert answered == [b"HTTP/1.1 401"] * 3
    assert log_of(guarded).count("refused 127.0.0.1:") == 10


def test_a_host_of_many_digits_is_refused_like_any_other(guarded: Server) -> None:
    for host in ("9" * 5000, "1.1.1." + "1" * 5000):
        with Raw(guarded) as raw:
            assert raw.request(headers={**UPGRADE, "Host": host}).startswith(b"HTTP/1.1 403 ")
