"""A server on a unix socket, and our client in all its forms."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfitter
from outfitter import Completed
from outfitter.errors import DialFailed
from tests.end_to_end.test_users import as_root, ask_as_other
from tests.support.machine import SECOND
from tests.support.servers import Server, command, end, environment, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(0o700)
    return made


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[Server]:
    with serving("outfitter", tmp_path, listen=f"unix:{folder}/x.sock") as server:
        yield server


def outfitter_run(server: Server, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "outfitter", "run", *args],
        env=environment(server.home),
        cwd=cwd or server.home,
        capture_output=True,
        timeout=30 * SECOND,
        check=False,
    )


def test_server_prints_its_url_and_takes_its_socket_along(server: Server, folder: Path) -> None:
    path = folder / "x.sock"
    assert server.url == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.kill(server.pid, signal.SIGTERM)
    assert server.popen.wait(10 * SECOND) == 0
    assert list(folder.iterdir()) == []


def test_client_runs_commands_and_recovers(server: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            assert await client.run(["echo", "in"]) == Completed(0, b"in\n", b"")
            large = bytes(range(256)) * 4096
            assert await client.run(["cat"], input=large) == Completed(0, large, b"")

    asyncio.run(scenario())


def test_command_line_reaches_it_by_path_and_by_name(server: Server, folder: Path) -> None:
    done = outfitter_run(server, "--on", server.url, "--", "echo", "in")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"in\n", b"")
    done = outfitter_run(server, "--on", "unix:x.sock", "--", "echo", "in", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"in\n", b"")
    home = server.home / ".codex"
    (home / "environments.toml").write_text(f'[[environments]]\nid = "box"\nurl = "{server.url}"\n')
    done = outfitter_run(server, "--codex-home", str(home), "--on", "box", "--", "echo", "in")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"in\n", b"")


def test_our_environment_may_go_there(server: Server) -> None:
    done = outfitter_run(server, "--on", server.url, "--from", "client", "--", "sh", "-c", "echo $LANG")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"C.UTF-8\n", b"")


def test_nobody_there_is_told(folder: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(DialFailed) as raised:
            async with outfitter.connect(f"unix:{folder}/none.sock"):
                pass
        assert str(raised.value) == f"cannot connect to unix:{folder}/none.sock: No such file or directory"

    asyncio.run(scenario())


def test_second_server_does_not_take_the_place_of_the_first(server: Server) -> None:
    popen = subprocess.Popen(
        command("outfitter", "--listen", server.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(server.home),
    )
    try:
        out, err = popen.communicate(timeout=20 * SECOND)
    finally:
        end(popen)
    assert (popen.returncode, out) == (1, b"")
    assert err.decode() == f"outfitter: cannot listen on {server.url}: a server already listens there\n"
    assert outfitter_run(server, "--on", server.url, "--", "true").returncode == 0


def test_server_after_one_that_was_killed_takes_its_place(folder: Path, tmp_path: Path) -> None:
    listen = f"unix:{folder}/x.sock"
    with serving("outfitter", tmp_path, listen=listen) as first:
        first.popen.kill()
        first.popen.wait()
        assert (folder / "x.sock").is_socket()
        with serving("outfitter", tmp_path, listen=listen) as second:
            assert outfitter_run(second, "--on", second.url, "--", "true").returncode == 0


@as_root
def test_other_user_cannot_open_it(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        with serving("outfitter", tmp_path, listen=f"unix:{folder}/x.sock") as server:
            assert b"PermissionError" in ask_as_other(server.url)


@as_root
def test_user_who_is_let_in_can_and_others_are_refused(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o711)
        listen = f"unix:{folder}/x.sock"
        with serving("outfitter", tmp_path, "--allow-user", "4711", listen=listen) as server:
            said = ask_as_other(server.url)
            assert said.startswith(b"HTTP/1.1 403 ")
            assert b"you are uid 65534" in said
        with serving("outfitter", tmp_path, "--allow-user", "65534", listen=listen) as server:
            assert ask_as_other(server.url).startswith(b"HTTP/1.1 101 ")


def test_token_may_be_demanded_as_well(folder: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("0123456789abcdef")
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path, *flags, listen=f"unix:{folder}/x.sock") as server:
        done = outfitter_run(server, "--on", server.url, "--", "true")
        assert b"401 Unauthorized: missing websocket bearer token" in done.stderr
        done = outfitter_run(server, "--on", server.url, "--token-file", str(token), "--", "true")
        assert (done.returncode, done.stderr) == (0, b"")
