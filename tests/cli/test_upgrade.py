"""outfitter upgrade: by name, URL or process id; what it says, and whom it does not touch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfitter
from tests.support.machine import alive, wait_until
from tests.support.servers import Server, environment, serving
from tests.support.wire import Wire


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving("outfitter", tmp_path / "home") as server:
        yield server


def upgrade(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outfitter", "upgrade", *args],
        capture_output=True,
        text=True,
        env=environment(home),
        cwd=home,
        timeout=60,
    )


def test_url_is_upgraded_and_both_versions_are_told(server: Server) -> None:
    done = upgrade(server.home, server.url)
    version = outfitter.VERSION
    said = f"upgraded {server.url} from {version} to {version} (process id {server.pid})\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_process_id_is_asked(server: Server) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        count = wire.call("server/upgrades", {})["count"]
        done = upgrade(server.home, str(server.pid))
        assert (done.returncode, done.stdout) == (0, "")
        assert "asked the server with process id" in done.stderr
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake()
        assert wire.call("server/upgrades", {"after": count})["outcome"] == "upgraded"


def test_named_environment_is_upgraded(server: Server) -> None:
    folder = server.home / ".config" / "outfitter"
    folder.mkdir(parents=True)
    (folder / "environments.toml").write_text(f'[[environments]]\nid = "build"\nurl = "{server.url}"\n')
    done = upgrade(server.home, "build")
    assert done.stdout.startswith("upgraded build from ")
    told = json.loads(upgrade(server.home, "build", "--json").stdout)
    assert (told["outcome"], told["before"], told["pid"]) == ("upgraded", outfitter.VERSION, server.pid)
    assert done.returncode == 0


def test_refusal_is_told_with_its_reason(server: Server) -> None:
    """The server's own directory has a package of the same name, which is found first."""
    upgrade(server.home, server.url)
    broken = server.home / "outfitter"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('no such version')\n")
    done = subprocess.run(
        [sys.executable, "-m", "outfitter", "upgrade", server.url],
        capture_output=True,
        text=True,
        env=environment(server.home),
        cwd="/",
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("the new version cannot take over: RuntimeError: no such version\n")
    assert f"goes on as version {outfitter.VERSION}" in done.stderr


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    """SIGUSR2 would end them."""
    others = [["sleep", "1000"], ["bash", "-c", "trap : USR2; echo up; while :; do sleep 1000 & wait; done"]]
    for argv in others:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as other:
            try:
                assert other.stdout is not None
                if argv[0] == "bash":
                    assert other.stdout.readline() == b"up\n"
                done = upgrade(tmp_path, str(other.pid))
                assert done.returncode == 1
                said = f"outfitter: process {other.pid} is not an Outfitter server that can replace itself\n"
                assert done.stderr == said
                assert alive(other.pid)
            finally:
                os.killpg(other.pid, signal.SIGKILL)


def test_process_that_does_not_exist(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    wait_until(lambda: not os.path.exists(f"/proc/{gone.pid}"), "it is gone")
    done = upgrade(tmp_path, str(gone.pid))
    assert (done.returncode, done.stderr) == (1, f"outfitter: no process has the id {gone.pid}\n")


def test_this_machine_is_no_server(tmp_path: Path) -> None:
    done = upgrade(tmp_path, "local")
    assert done.returncode == 1
    assert "there is no server behind `local`" in done.stderr


def test_server_that_is_not_there(server: Server) -> None:
    server.popen.terminate()
    server.popen.wait()
    done = upgrade(server.home, server.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot connect" in done.stderr or "refused" in done.stderr
