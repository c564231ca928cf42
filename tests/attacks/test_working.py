"""What must keep working in a sandbox that lets a command write its workspace: the tools of a day's work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sandbox import WORKSPACE, Ran, finish, managed, run, sandbox, special, start
from tests.support.servers import serving
from tests.support.wire import Wire, b64


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def shell(wire: Wire, ws: Path, text: str) -> Ran:
    env = {"HOME": os.environ.get("HOME", "/"), "TMPDIR": str(ws), "CARGO_TARGET_DIR": str(ws / "target")}
    ran = run(wire, ["/bin/bash", "-c", f"set -e; {text}"], cwd=ws, sandbox=sandbox(WORKSPACE, ws), env=env)
    assert ran.code == 0, ran
    return ran


def test_git_reads_its_repository(wire: Wire, ws: Path) -> None:
    need("git")
    name = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    for words in (["init", "-q"], [*name, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=ws, check=True)
    (ws / "new").write_text("x")
    ran = shell(wire, ws, "git -c safe.directory='*' status --short; git log --format=%s; git diff --stat")
    assert ran.stdout == "?? new\nfirst\n"


def test_git_makes_a_repository_below_the_workspace(wire: Wire, ws: Path) -> None:
    need("git")
    name = "-c user.name=n -c user.email=e@example.com"
    text = f"git init -q sub; cd sub; git {name} commit -q --allow-empty -m one; git log --format=%s"
    assert shell(wire, ws, text).stdout == "one\n"


def test_pytest(wire: Wire, ws: Path) -> None:
    (ws / "test_one.py").write_text("def test_one(tmp_path): (tmp_path / 'x').write_text('y')\n")
    ran = shell(wire, ws, f"{sys.executable} -m pytest -q -p no:cacheprovider test_one.py")
    assert "1 passed" in ran.stdout


def test_npm_runs_scripts(wire: Wire, ws: Path) -> None:
    need("npm")
    (ws / "package.json").write_text('{"name": "x", "scripts": {"hello": "node -e \'console.log(41 + 1)\'"}}')
    ran = shell(wire, ws, "npm --cache .cache --offline run --silent hello")
    assert ran.stdout == "42\n"


def test_cargo_builds(wire: Wire, ws: Path) -> None:
    need("cargo")
    (ws / "src").mkdir()
    (ws / "src/main.rs").write_text('fn main() { println!("built"); }')
    (ws / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    assert shell(wire, ws, "cargo run -q --offline").stdout == "built\n"


def test_make_and_a_compiler(wire: Wire, ws: Path) -> None:
    need("make")
    need("cc")
    (ws / "x.c").write_text('#include <stdio.h>\nint main(void) { return puts("made") < 0; }\n')
    (ws / "Makefile").write_text("all: x\n\t./x\n")
    assert shell(wire, ws, "make -s -j4").stdout == "made\n"


def test_archives_and_environments(wire: Wire, ws: Path) -> None:
    make = f"{sys.executable} -m venv --without-pip v; v/bin/python -c 'print(1)'"
    text = f"{make}; tar cf x.tar v; mkdir t; tar xf x.tar -C t"
    assert shell(wire, ws, text).stdout == "1\n"


def test_background_jobs_and_process_substitution(wire: Wire, ws: Path) -> None:
    both = "coproc cat; echo x >&${COPROC[1]}; read y <&${COPROC[0]}; echo $y"
    text = f"sleep 0.05 & (echo one; echo two) | cat; wait; diff <(echo a) <(echo a); {both}"
    assert shell(wire, ws, text).stdout == "one\ntwo\nx\n"


def test_a_program_on_a_terminal(wire: Wire, ws: Path) -> None:
    code = (
        "import tty, sys; tty.setcbreak(0); print('up', flush=True); print('key', ascii(sys.stdin.read(1)))"
    )
    argv = [sys.executable, "-I", "-c", code]
    more = {"tty": True, "env": {"TERM": "xterm"}}
    process, started = start(wire, argv, cwd=ws, sandbox=sandbox(WORKSPACE, ws), **more)
    wire.until(lambda one: one["method"] == "process/output")
    wire.call("process/write", {"processId": process, "chunk": b64(b"q"), "writeId": "1"})
    ran = finish(wire, process, started)
    assert (ran.code, "key 'q'" in ran.terminal) == (0, True)


def test_pseudo_terminals_of_its_own(wire: Wire, ws: Path) -> None:
    need("script")
    assert "inner" in shell(wire, ws, "script -qec 'echo inner' /dev/null </dev/null").stdout


def test_the_network_where_it_is_allowed(wire: Wire, ws: Path) -> None:
    code = (
        "import socket; one = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen(); "
        "two = socket.create_connection(one.getsockname()); print(two.getpeername()[0])"
    )
    profile = managed(special("root", "read"), network="enabled")
    ran = run(wire, [sys.executable, "-I", "-c", code], cwd=ws, sandbox=sandbox(profile))
    assert ran.stdout == "127.0.0.1\n", ran


OPTIONS = {
    "--sandbox-loopback": (
        "import socket; one = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen(); "
        "socket.create_connection(one.getsockname()); print('done')"
    ),
    "--sandbox-ptrace": (
        "import ctypes, os, signal; libc = ctypes.CDLL(None)\n"
        "if (pid := os.fork()) == 0: signal.pause()\n"
        "print('done' if libc.ptrace(16, pid, None, None) == 0 else 'no'); os.kill(pid, 9)"
    ),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_what_an_operator_can_allow(option: str, wire: Wire, ws: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", "-c", OPTIONS[option]]
    more = {"cwd": ws, "sandbox": sandbox(WORKSPACE, ws)}
    assert run(wire, argv, **more).stdout in ("", "no\n")
    with serving("outfitter", tmp_path / "home", option) as server, Wire(server.url) as other:
        other.handshake()
        assert run(other, argv, **more).stdout == "done\n"
