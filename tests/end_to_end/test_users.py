"""Whom a server without tokens serves: its own user, over real sockets from processes of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine import SECOND
from tests.support.networks import network
from tests.support.origin import origin
from tests.support.sandbox import run, start
from tests.support.servers import serving
from tests.support.wire import Wire

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

ASK = """
import encodings.idna, os, socket, sys  # before it may read no more of the library
os.setgroups([]); os.setgid(65534); os.setuid(65534)
where = sys.argv[1]
if where.startswith("unix:"):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(where[5:])
else:
    host, _, port = where.removeprefix("ws://").rpartition(":")
    sock = socket.create_connection((host.strip("[]"), int(port)))
sock.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n"
             b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n" +
             sys.argv[2].encode() + b"\\r\\n")
said = b""
while b"\\r\\n\\r\\n" not in said or not said.startswith(b"HTTP/1.1 101"):
    more = sock.recv(4096)
    if not more:
        break
    said += more
sys.stdout.buffer.write(said)
"""


def ask_as_other(url: str, header: str = "") -> bytes:
    """What a process of another user is answered when it asks for an upgrade."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, url, header], capture_output=True, timeout=20 * SECOND, check=False
    )
    return done.stdout or done.stderr.splitlines()[-1]


@as_root
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_other_user_is_refused_and_told_what_to_do(host: str, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, listen=f"ws://{host}:0") as server:
        said = ask_as_other(server.url)
        assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert said.endswith(
            b"this server serves only the user who started it, and you are uid 65534: its owner can add "
            b"--allow-user 65534, or use tokens (--ws-auth)"
        )
        with Wire(server.url) as wire:  # and its own user is served
            wire.handshake()
            assert wire.call("environment/status") == {"status": "ready"}


@as_root
def test_users_may_be_added(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--allow-user", "65534") as server:
        assert ask_as_other(server.url).startswith(b"HTTP/1.1 101 ")
        with Wire(server.url) as wire:
            wire.handshake()


@as_root
def test_every_user_may_be_accepted(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--allow-unauthenticated") as server:
        assert ask_as_other(server.url).startswith(b"HTTP/1.1 101 ")


@as_root
def test_a_token_is_good_for_every_user(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("0123456789abcdef")
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path, *flags) as server:
        assert ask_as_other(server.url).startswith(b"HTTP/1.1 401 ")
        header = "Authorization: Bearer 0123456789abcdef\r\n"
        assert ask_as_other(server.url, header).startswith(b"HTTP/1.1 101 ")


# Asks a proxy for a page, as whoever its second argument says.
FETCH = """
import http.client, os, socket, sys, encodings.idna, email.parser
proxy, page, uid = os.environ.get("HTTP_PROXY") or sys.argv[3], sys.argv[1], int(sys.argv[2])
if uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
asking = http.client.HTTPConnection("127.0.0.1", int(proxy.rpartition(":")[2]))
try:
    asking.request("GET", page)
    print(asking.getresponse().status)
except (ConnectionError, http.client.RemoteDisconnected) as error:
    print("refused")
"""


@as_root
def test_the_proxy_of_a_command_serves_no_other_user(tmp_path: Path) -> None:
    fetch = [sys.executable, "-I", "-c", FETCH]
    allowed = network({"127.0.0.1": "allow"})
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire, origin() as port:
        wire.handshake()
        page = f"http://127.0.0.1:{port}/x"
        process_id, _ = start(wire, ["/bin/sh", "-c", "echo $HTTP_PROXY; exec sleep 600"], **allowed)
        wire.until(lambda one: one["method"] == "process/output")
        proxy = wire.output(process_id).decode().strip()

        def as_user(uid: int) -> str:
            done = subprocess.run(
                [*fetch, page, str(uid), proxy],
                env={},
                capture_output=True,
                text=True,
                timeout=20 * SECOND,
                check=False,
            )
            return done.stdout.strip() or done.stderr

        assert (as_user(0), as_user(65534)) == ("200", "refused")


@as_root
def test_a_command_that_becomes_another_user_has_its_proxy(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire, origin() as port:
        wire.handshake()
        fetch = [sys.executable, "-I", "-c", FETCH, f"http://127.0.0.1:{port}/x", "65534"]
        assert run(wire, fetch, **network({"127.0.0.1": "allow"})).stdout.strip() == "200"
