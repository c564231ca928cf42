"""--json of commands that run until they are stopped: a program reads one line and knows where to connect."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import VERSION
from tests.support.machine import SECOND, children, wait_gone
from tests.support.pipes import piping
from tests.support.relays import Rendezvous, meeting
from tests.support.servers import serving
from tests.support.wire import Wire

from .commandline import Popen, User, read_line, read_rest


def first(popen: Popen) -> dict[str, Any]:
    line = read_line(popen)
    assert line.endswith(b"\n") and popen.poll() is None, read_rest(popen)
    told = json.loads(line)
    assert isinstance(told, dict)
    return told


def ended(popen: Popen, pid: int | None = None) -> None:
    """By the signal that its caller sends, in order, and without another line on stdout."""
    os.kill(popen.pid if pid is None else pid, signal.SIGTERM)
    status, stdout, stderr = read_rest(popen)
    assert (status, stdout, b"Traceback" in stderr) == (0, b"", False), stderr


def run_there(url: str, token: str | None = None) -> bytes:
    async def scenario() -> bytes:
        async with outfitter.connect(url, token=token) as client:
            return (await client.run(["echo", "hello"])).stdout

    return asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


# serve


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "ws://[::1]:0", "unix:socket"])
def test_a_client_connects_to_the_url_of_the_first_line(user: User, listen: str) -> None:
    user.home.chmod(0o700)
    serve = user.start("serve", "--json", "--listen", listen.replace(":socket", f":{user.home}/socket"))
    told = first(serve)
    url = told.pop("url")
    assert url.startswith(listen.removesuffix("0").removesuffix("socket"))
    assert told == {"pid": serve.pid, "version": VERSION}
    assert run_there(url) == b"hello\n"
    ended(serve)


def test_the_pid_is_the_server_s_whoever_has_started_it(user: User) -> None:
    serve = user.start("serve", "--json", through=("/bin/sh", "-c", '"$@"; exit $?', "sh"))
    told = first(serve)
    assert told["pid"] != serve.pid
    with Wire(told["url"]) as wire:
        assert wire.handshake()["sessionId"]
    ended(serve, told["pid"])
    wait_gone([told["pid"]])


def test_by_what_commands_are_limited_is_in_the_same_line(user: User) -> None:
    serve = user.start("serve", "--json", "--limits", "processes=4096")
    assert first(serve)["limits"] in ("cgroup1", "cgroup2", "rlimit")
    ended(serve)


def test_without_it_the_lines_are_those_of_before(user: User) -> None:
    serve = user.start("serve", "--limits", "processes=4096")
    assert read_line(serve).startswith(b"ws://127.0.0.1:")
    word, _, by = read_line(serve).decode().partition(" ")
    assert (word, by.endswith("\n"), by.strip() in ("cgroup1", "cgroup2", "rlimit")) == (
        "limits:",
        True,
        True,
    )
    ended(serve)


def test_stdio_has_nothing_but_messages(tmp_path: Path) -> None:
    with piping(tmp_path, "--json") as pipes:
        pipes.handshake()
        assert pipes.call("environment/status") == {"status": "ready"}


def test_a_server_that_replaces_itself_says_no_second_first_line(user: User) -> None:
    serve = user.start("serve", "--json")
    told = first(serve)
    done = user.run("upgrade", "--on", told["url"], "--json")
    assert json.loads(done.stdout)["outcome"] == "upgraded", done.stderr
    assert run_there(told["url"]) == b"hello\n"
    ended(serve)


def test_an_error_is_told_on_stderr_as_by_every_command(user: User) -> None:
    """stdout has JSON or nothing: a program that waits for the first line reads its end."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"outfitter: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        for command in (("serve",), ("rendezvous", "serve")):
            done = user.run(*command, "--json", "--listen", f"ws://127.0.0.1:{port}")
            assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", text)
            assert user.run(*command, "--listen", f"ws://127.0.0.1:{port}").stderr == done.stderr


# The relay


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendezvous]:
    pytest.importorskip("cryptography")
    with meeting(tmp_path_factory.mktemp("service")) as running:
        yield running


def test_a_rendezvous_says_its_url_and_where_it_listens(user: User) -> None:
    pytest.importorskip("cryptography")
    serve = user.start("rendezvous", "serve", "--json")
    told = first(serve)
    url = told.pop("url")
    assert told == {"listen": url.replace("http", "ws", 1), "pid": serve.pid, "version": VERSION}
    with urllib.request.urlopen(f"{url}/readyz", timeout=20 * SECOND) as answer:
        assert answer.status == 200
    ended(serve)


def test_behind_a_proxy_the_port_is_told_too(user: User) -> None:
    pytest.importorskip("cryptography")
    serve = user.start("rendezvous", "serve", "--json", "--url", "https://relay.example/at/")
    told = first(serve)
    assert told["url"] == "https://relay.example/at"
    with urllib.request.urlopen(
        f"{told['listen'].replace('ws', 'http', 1)}/readyz", timeout=20 * SECOND
    ) as answer:
        assert answer.status == 200
    ended(serve)


def test_an_executor_that_dials_out_says_how_its_users_reach_it(user: User, service: Rendezvous) -> None:
    where = ("--remote", f"{service.url}/", "--environment-id", "box")
    token = {"CODEX_API_KEY": service.token("box", "execute")}
    serve = user.start("serve", "--json", *where, "--limits", "processes=4096", env=token)
    told = first(serve)
    key, limits = told.pop("key"), told.pop("limits")
    assert told == {
        "url": f"noise+{service.url}/box",
        "environment": "box",
        "registry": service.url,
        "pid": serve.pid,
        "version": VERSION,
    }
    assert len(bytes.fromhex(key)) == 16 and limits in ("cgroup1", "cgroup2", "rlimit")
    assert run_there(told["url"], service.token("box", "use")) == b"hello\n"
    ended(serve)


def test_a_forwarder_says_where_streams_go_to(user: User, service: Rendezvous, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server") as server:
        where = ("--remote", service.url, "--environment-id", "far", "--connect", server.url)
        forward = user.start(
            "forward", "--json", *where, env={"CODEX_API_KEY": service.token("far", "execute")}
        )
        told = first(forward)
        assert told.pop("key")
        assert told == {
            "url": f"noise+{service.url}/far",
            "environment": "far",
            "registry": service.url,
            "connect": server.url,
            "pid": forward.pid,
            "version": VERSION,
        }
        assert run_there(told["url"], service.token("far", "use")) == b"hello\n"
        ended(forward)


def test_a_forwarder_that_cannot_start_says_why_on_stderr(user: User) -> None:
    pytest.importorskip("cryptography")
    where = ("--remote", "http://127.0.0.1:9", "--environment-id", "far", "--connect", "unix:/nowhere")
    done = user.run("forward", "--json", *where)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"outfitter: --connect takes ws://HOST:PORT or wss://HOST:PORT\n"


def test_up_says_where_commands_run_and_what_the_first_has_printed(user: User) -> None:
    pytest.importorskip("cryptography")
    up = user.start("up", "--json", "--environment", "mine")
    told = first(up)
    commands, key, registry = told.pop("commands"), told.pop("key"), told.pop("registry")
    url = f"noise+{registry}/mine"
    assert told == {"url": url, "environment": "mine", "pid": up.pid, "version": VERSION}
    assert [line.split()[:2] for line in commands] == [
        ["outfitter", word] for word in ("rendezvous", "rendezvous", "rendezvous", "serve", "run")
    ]
    assert len(key) == 32
    name = f"{os.uname().nodename}\n"
    assert json.loads(read_line(up)) == {"command": ["uname", "-n"], "exitCode": 0, "stdout": name}
    done = user.run("run", "--on", url, "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    # The parts of it end with it, and the pipes that they hold.
    up.send_signal(signal.SIGTERM)
    assert read_rest(up)[:2] == (0, b"")
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{registry}/readyz", timeout=5 * SECOND)


def test_a_second_up_leaves_the_first_alone(user: User) -> None:
    pytest.importorskip("cryptography")
    up = user.start("up", "--json")
    url = first(up)["url"]
    read_line(up)
    for again in (("up",), ("rendezvous", "serve")):
        done = user.run(*again, "--json")
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"another service uses the store" in done.stderr
    done = user.run("run", "--on", url, "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    up.send_signal(signal.SIGTERM)
    assert read_rest(up)[:2] == (0, b"")


def test_an_up_that_is_killed_leaves_nothing_behind(user: User) -> None:
    pytest.importorskip("cryptography")
    up = user.start("up", "--json")
    first(up)
    read_line(up)
    left = children(up.pid)
    assert len(left) == 2
    up.kill()
    up.communicate()
    wait_gone(left)


def test_up_that_cannot_start_says_why_on_stderr(user: User) -> None:
    pytest.importorskip("cryptography")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = user.run("up", "--json", "--listen", f"ws://127.0.0.1:{taken.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Address already in use" in done.stderr


@pytest.mark.parametrize("flags", [(), ("--limits", "processes=4096")], ids=str)
def test_nothing_is_loaded_for_it_unless_it_is_asked_for(user: User, flags: tuple[str, ...]) -> None:
    """Whoever starts a server waits for its first line."""
    script = (
        "import sys; from outfitter.server import listen; from outfitter.cli.main import main\n"
        "names = ('json', 'outfitter.cli.announce')\n"
        "def run(*_): print([name for name in names if name in sys.modules], flush=True)\n"
        "listen.run = run; main()"
    )
    for more, loaded in (((), b"[]"), (("--json",), b"['outfitter.cli.announce']")):
        command = [sys.executable, "-c", script, "serve", *flags, *more]
        done = subprocess.run(command, capture_output=True, env=user.env(), timeout=30 * SECOND)
        assert done.stdout.splitlines()[-1] == loaded, done.stderr
