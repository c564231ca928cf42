"""outfitter run as a shell sees it: exit status, streams, Ctrl-C, JSON lines, explanations."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.cli.follow import _JsonLines
from outfitter.core.events import Output
from tests.support.machine import SECOND, alive, children, running, wait_gone, wait_until
from tests.support.portable import unmarked
from tests.support.servers import environment

from .commandline import User

RUN = [sys.executable, "-m", "outfitter", "run"]


def run(tmp_path: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*RUN, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path, env),
        timeout=30 * SECOND,
        check=False,
    )
    done.stdout = unmarked(done.stdout)
    return done


# Exit status


@pytest.mark.parametrize("code", [0, 1, 2, 124, 255])
def test_exit_status_is_the_commands(code: int, tmp_path: Path) -> None:
    done = run(tmp_path, "--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, b"out\n", b"err\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
def test_command_ended_by_a_signal_exits_with_128_more(number: signal.Signals, tmp_path: Path) -> None:
    assert run(tmp_path, "--", "sh", "-c", f"kill -{number.value} $$").returncode == 128 + number


def test_time_that_is_up_exits_with_124_and_ends_the_tree(tmp_path: Path) -> None:
    script = f"setsid sleep {31000 + os.getpid()} & exec sleep 60"
    done = run(tmp_path, "--timeout", "0.5", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (124, b"")
    assert done.stderr == b"outfitter: sh was ended after 0.5 s\n"
    assert running(f"sleep {31000 + os.getpid()}") == []


def test_command_that_cannot_be_started_exits_with_125_126_or_127(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "plain").chmod(0o755)
    (tmp_path / "closed").write_text("#!/bin/sh\n")
    (tmp_path / "closed").chmod(0o644)
    (tmp_path / "loop").symlink_to("loop")
    cases = {
        ("nonesuch",): 127,
        ("./nonesuch",): 127,
        ("./closed",): 126,
        ("./plain",): 126,
        ("/",): 126,
        ("./loop",): 125,
    }
    found = {args: run(tmp_path, "--", *args) for args in cases}
    assert {args: done.returncode for args, done in found.items()} == cases
    for args, done in found.items():
        assert done.stderr.decode().startswith(f"outfitter: cannot start {args[0]}: ")


def test_missing_directory_is_no_missing_command(tmp_path: Path) -> None:
    done = run(tmp_path, "--cwd", "nonesuch", "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(b"outfitter: cannot start true in nonesuch: the working directory ")


def test_usage_error_exits_with_2(tmp_path: Path) -> None:
    for args in ([], ["--nonesuch", "--", "true"], ["--timeout", "-1", "--", "true"], ["--set", "x", "true"]):
        assert run(tmp_path, *args).returncode == 2


# The command's surroundings


def test_directory_and_variables_are_those_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    args = ("--cwd", "sub", "--inherit", "none", "--set", "A=1", "--set", "B=x=y")
    done = run(tmp_path, *args, "--", "/usr/bin/env", "-0")
    assert done.stdout == b"A=1\0B=x=y\0"
    assert run(tmp_path, "--cwd", "sub", "--", "pwd").stdout == f"{tmp_path}/sub\n".encode()


def test_withheld_variables_do_not_reach_the_command(tmp_path: Path) -> None:
    secrets = {"API_KEY": "k", "GONE": "g", "KEPT": "v"}
    done = run(tmp_path, "--default-excludes", "--exclude", "GO*", "--", "/usr/bin/env", env=secrets)
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert names & set(secrets) == {"KEPT"}


def test_options_after_the_command_are_the_commands(tmp_path: Path) -> None:
    assert run(tmp_path, "echo", "--json", "--explain").stdout == b"--json --explain\n"


def test_large_output_arrives_whole(tmp_path: Path) -> None:
    done = run(tmp_path, "--", "sh", "-c", "head -c 30000000 /dev/zero")
    assert (done.returncode, done.stdout == bytes(30_000_000)) == (0, True)


def test_reader_that_leaves_ends_the_run(tmp_path: Path) -> None:
    # outfitter run -- yes | head -1
    popen = subprocess.Popen([*RUN, "--", "yes"], stdout=subprocess.PIPE, env=environment(tmp_path))
    try:
        assert popen.stdout is not None
        assert popen.stdout.readline() == b"y\n"
        popen.stdout.close()
        popen.wait(8 * SECOND)
    finally:
        popen.kill()
        popen.wait()


# --json


def test_json_lines_are_the_events(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "--", "sh", "-c", "printf 'h\\303\\251'; exit 3")
    assert (done.returncode, done.stderr) == (3, b"")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"event": "output", "stream": "stdout", "text": "hé"},
        {"event": "exited", "exitCode": 3},
    ]


def test_json_lines_lose_no_byte(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "--", "printf", r"\377a\303")
    *pieces, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert last == {"event": "exited", "exitCode": 0}
    assert b"".join(b64decode(one["base64"]) for one in pieces) == b"\377a\303"


def test_json_lines_join_a_character_and_tell_what_is_left_of_one() -> None:
    lines = _JsonLines()
    told = [lines.line(Output("stdout", data)) for data in (b"h\303", b"\251", b"\303", b"\377", b"\342\202")]
    assert [json.loads(line) for line in (*told, lines.rest()) if line] == [
        {"event": "output", "stream": "stdout", "text": "h"},
        {"event": "output", "stream": "stdout", "text": "é"},
        {"event": "output", "stream": "stdout", "base64": "w/8="},
        {"event": "output", "stream": "stdout", "base64": "4oI="},
    ]


# --explain (K4)


def test_explain_says_what_the_environment_was_made_of_but_never_a_value(tmp_path: Path) -> None:
    env = {"API_TOKEN": "hush-token", "PLAIN": "hush-plain"}
    args = ("--explain", "--default-excludes", "--set", "ADDED=hush-added", "--env", "GIVEN=hush-given")
    done = run(tmp_path, *args, "--", "true", env=env)
    assert (done.returncode, done.stdout) == (0, b"")
    # No terminal, no colour.
    assert done.stderr.decode() == (
        "env: base=launcher, policy=envPolicy, provider=none, setup=none, request=request(applied, 1)\n"
    )


def test_explain_has_a_line_for_each_flag(tmp_path: Path) -> None:
    done = run(tmp_path, "--explain", "--", "nice", "sh", "-c", "exec bash -lc true")
    assert done.stderr.decode().splitlines()[-2:] == [
        "shell: sh, startup files off, behind nice",
        "flagged login-shell: the command text starts a login shell (`bash -lc`)",
    ]


def test_explain_has_a_line_for_each_refused_entry(tmp_path: Path) -> None:
    args = ("--author", "model", "--env", "LD_PRELOAD=/hush.so", "--unset", "HOME", "--explain")
    done = run(tmp_path, *args, "--", "sh", "-c", 'echo "$LD_PRELOAD"; test -n "$HOME"')
    assert (done.returncode, done.stdout) == (0, b"\n")
    *told, summary, first, second, last = done.stderr.decode().splitlines()
    lines = [first, second, last]
    assert [line.split()[1] for line in told] == ["HOME", "LD_PRELOAD"]
    assert summary.endswith(", request=request(applied, 2), 2 refused")
    assert [line.partition(":")[0] for line in lines] == [
        "  refused HOME of L7 request",
        "  refused LD_PRELOAD of L7 request",
        "shell",
    ]
    assert lines[-1] == "shell: sh, startup files off"
    assert "hush" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_colour_on_a_terminal_unless_it_is_not_wanted(
    env: dict[str, str], coloured: bool, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    try:
        popen = subprocess.Popen(
            [*RUN, "--explain", "--", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=environment(tmp_path, env),
        )
        os.close(theirs)
        assert popen.wait(20 * SECOND) == 0
        text = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not more:
                break
            text += more
        assert (b"\x1b[" in text) is coloured
    finally:
        os.close(ours)


def test_colour_may_be_forced(tmp_path: Path) -> None:
    done = run(tmp_path, "--explain", "--", "true", env={"FORCE_COLOR": "1"})
    assert b"\x1b[" in done.stderr


# Ctrl-C


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose command notes each interrupt and goes on."""
    script = "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done"
    popen = subprocess.Popen(
        [*RUN, "--", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"ready\n"
    yield popen
    popen.kill()
    popen.wait()
    popen.stdout.close()


def test_ctrl_c_interrupts_and_a_second_one_terminates(stubborn: subprocess.Popen[bytes]) -> None:
    assert stubborn.stdout is not None
    stubborn.send_signal(signal.SIGINT)
    assert stubborn.stdout.readline() == b"interrupted\n"
    assert stubborn.poll() is None
    stubborn.send_signal(signal.SIGINT)
    assert stubborn.wait(10 * SECOND) == 137


def test_ctrl_c_of_an_ordinary_command_exits_with_130(tmp_path: Path) -> None:
    popen = subprocess.Popen(
        [*RUN, "--", "sh", "-c", "echo ready; exec sleep 60"],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
    )
    assert popen.stdout is not None
    try:
        assert popen.stdout.readline() == b"ready\n"
        popen.send_signal(signal.SIGINT)
        assert popen.wait(10 * SECOND) == 130
    finally:
        popen.kill()
        popen.wait()
        popen.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_end_of_the_run_is_the_end_of_its_command(
    number: signal.Signals, stubborn: subprocess.Popen[bytes]
) -> None:
    # Row 43, for the command line.
    wait_until(lambda: len(children(stubborn.pid)) >= 2, "command and watchdog run")
    descendants = children(stubborn.pid)
    stubborn.send_signal(number)
    stubborn.wait(10 * SECOND)
    wait_gone(descendants)
    assert [pid for pid in descendants if alive(pid)] == []


def test_a_directory_that_has_gone_is_told_in_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *RUN, "--", "true"],
        capture_output=True,
        cwd=gone,
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 125
    assert (
        done.stderr.decode().splitlines()[-1].startswith("outfitter: the current directory no longer exists")
    )


def test_a_variable_that_the_command_does_not_get_is_told(user: User) -> None:
    given = ("--env", "OUTFITTER_X=1", "--env", "A-B=1", "--env", "PWD=/", "--env", "OK=1")
    done = user.run("run", *given, "--", "env")
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    assert lines == [
        "outfitter: OUTFITTER_X is not as the request says: only Outfitter sets this",
        "outfitter: A-B is not as the request says: some shells drop variables with this name",
    ]
    assert b"\nOK=1\n" in b"\n" + done.stdout
