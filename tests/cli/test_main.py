"""The outfitter command: what becomes of output that cannot be written, and of what its parent ignores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import command, end, environment
from tests.support.wire import Wire

from .commandline import SECONDS, User

PRINTING = (("ps",), ("--version",), ("help",), ("env",), ("completion", "bash"))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_output_that_nobody_reads_is_no_news(words: tuple[str, ...], unbuffered: str, user: User) -> None:
    # outfitter ps | true
    reader, writer = os.pipe()
    os.close(reader)
    popen = user.start(*words, stdout=writer, env={"PYTHONUNBUFFERED": unbuffered})
    os.close(writer)
    assert popen.wait(SECONDS) in (0, 1)
    assert popen.stderr is not None
    assert popen.stderr.read() == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING[2:], ids=" ".join)
def test_output_that_finds_no_room_is_told(words: tuple[str, ...], unbuffered: str, user: User) -> None:
    with open("/dev/full", "wb") as full:
        popen = user.start(*words, stdout=full.fileno(), env={"PYTHONUNBUFFERED": unbuffered})
    assert popen.wait(SECONDS) == 1
    assert popen.stderr is not None
    assert popen.stderr.read() == b"outfitter: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("agent", "run", "codex", "--dry-run", "--", "go"), 125),
        (("contract", "check"), 1),
        (("config", "show"), 1),
        (("serve", "--listen", "unix:socket"), 1),
        (("serve", "--listen", "ws://127.0.0.1:0", "--audit", "log"), 1),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else None,
)
def test_directory_that_is_gone_is_told(words: tuple[str, ...], status: int, tmp_path: Path) -> None:
    line = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    shell = ["sh", "-c", line, "sh", sys.executable, "-m", "outfitter", *words]
    ran = subprocess.run(shell, cwd=tmp_path, env=environment(tmp_path), capture_output=True, timeout=SECONDS)
    told = b"outfitter: the current directory no longer exists: change to another one\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, b"", told)


# Starts a program as a parent does that wants to hear nothing of its children.
IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_command_of_a_parent_that_ignores_its_children_has_its_exit_status(tmp_path: Path) -> None:
    words = [sys.executable, "-c", IGNORING, sys.executable, "-m", "outfitter", "run", "--"]
    ran = subprocess.run([*words, "/bin/sh", "-c", "exit 3"], env=environment(tmp_path), timeout=SECONDS)
    assert ran.returncode == 3


def test_server_of_a_parent_that_ignores_its_children_tells_exit_codes(tmp_path: Path) -> None:
    words = [sys.executable, "-c", IGNORING, *command("outfitter", "--listen", "ws://127.0.0.1:0")]
    popen = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(tmp_path))
    try:
        assert popen.stdout is not None
        with Wire(popen.stdout.readline().decode().strip()) as wire:
            wire.handshake()
            wire.start("three", ["/bin/sh", "-c", "exit 3"])
            assert wire.exit_code("three") == 3
    finally:
        end(popen)
