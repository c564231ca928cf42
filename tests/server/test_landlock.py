"""Commands confined by Landlock, by a server on a machine without bubblewrap."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.host.sandbox.landlocked import lack, version
from tests.support.machine import SECOND, running, wait_until
from tests.support.networks import network
from tests.support.sandbox import READ_ONLY, WORKSPACE, finish, managed, path, run, sandbox, special, start
from tests.support.servers import WITHOUT_BUBBLEWRAP, Server, environment, serving
from tests.support.wire import Wire, b64, start_params

pytestmark = pytest.mark.skipif(bool(lack(version())), reason="needs Landlock")
KIND = "outfitter without bubblewrap"
TRAP = "trap 'echo trapped; exit 7' INT; echo ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    (home / ".profile").write_text("export FROM_PROFILE=1\n")
    with serving(KIND, home, "--sandbox-landlock", env={"SERVER_SECRET": "hush"}) as server:
        yield server


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def test_a_command_that_only_reads_is_confined(wire: Wire, ws: Path) -> None:
    (ws / "file").write_text("text\n")
    ran = run(wire, ["/bin/sh", "-c", "cat file; echo x > new"], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
    assert (ran.kind, ran.code, ran.stdout, ran.denied) == ("linuxSeccomp", 2, "text\n", True)
    assert not (ws / "new").exists()


def test_what_is_readable_may_be_little(wire: Wire, ws: Path) -> None:
    (ws / "file").write_text("")
    profile = managed(special("minimal", "read"))
    assert run(wire, ["/bin/cat", "/etc/passwd"], cwd=ws, sandbox=sandbox(profile, ws)).code == 0
    ran = run(wire, ["/bin/cat", f"{ws}/file"], cwd=ws, sandbox=sandbox(profile, ws))
    assert (ran.code, "Permission denied" in ran.stderr) == (1, True)


def test_a_single_file_may_be_written(wire: Wire, ws: Path) -> None:
    (ws / "file").write_text("")
    profile = managed(special("root", "read"), path(ws / "file", "write"))
    ran = run(wire, ["/bin/sh", "-c", "echo x > file; echo x > other"], cwd=ws, sandbox=sandbox(profile, ws))
    assert ((ws / "file").read_text(), (ws / "other").exists(), ran.code) == ("x\n", False, 2)


@pytest.mark.parametrize(
    ("profile", "more", "said"),
    [
        (WORKSPACE, {}, "it cannot keep "),
        (managed(special("root", "read"), path("/etc/passwd", "deny")), {}, "it cannot hide /etc/passwd"),
        (managed(special("root", "read"), network="enabled"), {}, "only from all of the network"),
        (READ_ONLY, network({"example.com": "allow"}), "only from all of the network"),
        ({"type": "external", "network": "restricted"}, {}, "files of this command are not confined"),
    ],
)
def test_nothing_runs_that_it_cannot_enforce(
    wire: Wire, ws: Path, profile: Any, more: dict[str, Any], said: str
) -> None:
    asked = start_params("p", ["touch", "new"], cwd=ws.as_uri(), env={}, sandbox=sandbox(profile, ws), **more)
    error = wire.error("process/start", asked)
    assert error["code"] == -32602 and "bubblewrap is not installed" in error["message"]
    assert said in error["message"].partition("Landlock cannot be used instead (--sandbox-landlock): ")[2]
    assert not (ws / "new").exists()


def test_the_servers_own_files_and_startup_files_are_not_read(wire: Wire, ws: Path, home: Path) -> None:
    state = home / ".local/state/outfitter"
    state.mkdir(parents=True, exist_ok=True)
    (state / "key").write_text("secret")
    asked = ["/bin/sh", "-lc", f'echo "[$FROM_PROFILE]"; cat {state}/key; cat /proc/$PPID/environ']
    ran = run(wire, asked, cwd=ws, sandbox=sandbox(READ_ONLY, ws), env={"HOME": str(home)})
    assert ran.stdout == "[]\n"


def test_how_a_command_ended(wire: Wire, ws: Path) -> None:
    for text, code in (("exit 3", 3), ("kill -TERM $$", 143)):
        assert run(wire, ["/bin/sh", "-c", text], cwd=ws, sandbox=sandbox(READ_ONLY, ws)).code == code
    ran = run(wire, ["/no/such/program"], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
    assert (ran.code, ran.stderr) == (127, "outfitter: /no/such/program: No such file or directory\n")


def test_an_interrupt_reaches_the_command(wire: Wire, ws: Path) -> None:
    process, started = start(wire, ["/bin/bash", "-c", TRAP], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
    wire.until(lambda one: one["method"] == "process/output")
    wire.call("process/signal", {"processId": process, "signal": "interrupt"})
    ran = finish(wire, process, started)
    assert (ran.code, ran.stdout) == (7, "ready\ntrapped\n")


def test_what_a_command_leaves_ends_with_it(wire: Wire, ws: Path) -> None:
    mark = f"{ws}-left"
    text = f'(exec -a {mark} sleep 600) & setsid sh -c "sleep 600; : {mark}" & echo up'
    ran = run(wire, ["/bin/bash", "-c", text], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
    assert (ran.code, ran.stdout) == (0, "up\n")
    wait_until(lambda: not running(mark), "all of it has ended")


def test_a_command_that_is_terminated_leaves_nothing(wire: Wire, ws: Path) -> None:
    mark = f"{ws}-ended"
    text = f"echo up; (exec -a {mark} sleep 600)"
    process, started = start(wire, ["/bin/bash", "-c", text], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
    wire.until(lambda one: one["method"] == "process/output")
    wire.call("process/terminate", {"processId": process})
    finish(wire, process, started)
    wait_until(lambda: not running(mark), "all of it has ended")


def test_an_upgrade_keeps_a_command(ws: Path, tmp_path: Path) -> None:
    with serving(KIND, tmp_path / "home", "--sandbox-landlock") as server:
        with Wire(server.url) as wire:
            session = wire.handshake()["sessionId"]
            process, _ = start(wire, ["/bin/bash", "-c", TRAP], cwd=ws, sandbox=sandbox(READ_ONLY, ws))
            wire.until(lambda one: one["method"] == "process/output")
            os.kill(server.pid, signal.SIGUSR2)
            wire.ended()
        with Wire(server.url) as wire:
            wire.handshake(session)
            wire.call("process/signal", {"processId": process, "signal": "interrupt"})
            params = {"processId": process, "afterSeq": 0, "maxBytes": None, "waitMs": 0}
            wait_until(lambda: wire.call("process/read", params)["closed"], "it has closed", 20 * SECOND)
            assert wire.call("process/read", params)["exitCode"] == 7


def test_a_terminal_is_the_commands_own(wire: Wire, ws: Path) -> None:
    argv = ["/bin/bash", "-c", TRAP.replace("ready", "ready >/dev/tty")]
    for how in ("typed", "asked"):
        process, started = start(wire, argv, cwd=ws, sandbox=sandbox(READ_ONLY, ws), tty=True)
        wanted = ("process/output", process)
        wire.until(lambda one, wanted=wanted: (one["method"], one["params"]["processId"]) == wanted)
        if how == "typed":
            wire.call("process/write", {"processId": process, "chunk": b64(b"\x03"), "writeId": "c"})
        else:
            wire.call("process/signal", {"processId": process, "signal": "interrupt"})
        ran = finish(wire, process, started)
        assert (ran.code, "trapped" in ran.terminal) == (7, True), ran


def test_without_the_option_nothing_runs(ws: Path, tmp_path: Path) -> None:
    with serving(KIND, tmp_path / "home") as server, Wire(server.url) as wire:
        wire.handshake()
        asked = start_params("p", ["true"], cwd=ws.as_uri(), env={}, sandbox=sandbox(READ_ONLY, ws))
        said = wire.error("process/start", asked)["message"]
        assert "bubblewrap is not installed" in said and "Landlock" not in said


def test_a_kernel_without_it_is_said_at_the_start(tmp_path: Path) -> None:
    old = "from outfitter.host.sandbox import landlocked; landlocked.version = lambda: 3; "
    argv = [sys.executable, "-c", old + WITHOUT_BUBBLEWRAP, "serve", "--sandbox-landlock"]
    env = environment(tmp_path)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--sandbox-landlock cannot be used: Landlock 6 is needed (Linux 6.12)" in done.stderr
