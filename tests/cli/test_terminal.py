"""outfitter run --tty on a real terminal: raw mode, size, keys, colours; the spinner of a long wait."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import SECOND, alive, status, stop, wait_until
from tests.support.proxy import Cutter, cutting
from tests.support.servers import Server, serving
from tests.support.tools import program

from .commandline import SECONDS, Popen, Terminal, User, stopped

FRAMES = ["⠋".encode(), "⠙".encode()]  # the first two
CTRL_C, CTRL_D = b"\x03", b"\x04"


def start_shell(screen: Terminal, user: User, url: str, script: str, *flags: str) -> Popen:
    return screen.start(user, "run", "--on", url, "--tty", *flags, "--", "sh", "-c", script)


# The terminal itself


def test_far_terminal_has_our_size_and_is_resized_with_ours(server: Server, user: User) -> None:
    screen = Terminal(31, 97)
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done"
    try:
        popen = start_shell(screen, user, server.url, script)
        screen.until(b"31 97\r\n")
        screen.resize(40, 120)
        screen.until(b"40 120\r\n")
        screen.type(CTRL_C)
        assert screen.rest(popen)[0] == 130
    finally:
        screen.close()


def test_without_a_terminal_of_ours_the_far_one_has_24_by_80(any_server: Server, user: User) -> None:
    done = user.run(
        "run", "--on", any_server.url, "--tty", "--", "sh", "-c", "test -t 1 && stty size; cat", input=b"x\n"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    # The terminal's echo, the size, what cat made of the input up to a Ctrl-D: the echo may be anywhere.
    assert sorted(done.stdout.split(b"\r\n")) == [b"", b"24 80", b"x", b"x"]


@pytest.mark.parametrize("typed", [b"", b"x\n", b"x", b"x\x04"])
def test_end_of_our_input_is_the_end_of_the_far_ones(typed: bytes, any_server: Server, user: User) -> None:
    # On a terminal, the Ctrl-D behind an unfinished line only passes the line on.
    script = "stty -echo; echo ready; cat; exit 6"
    done = user.run("run", "--on", any_server.url, "--tty", "--", "sh", "-c", script, input=typed)
    assert (done.returncode, done.stderr) == (6, b"")


def test_our_terminal_is_raw_while_the_command_runs(any_server: Server, user: User, screen: Terminal) -> None:
    before = screen.mode
    popen = start_shell(screen, user, any_server.url, "echo ready; read x; echo got $x; exit 5")
    screen.until(b"ready")
    wait_until(lambda: screen.is_raw, "the terminal is raw")
    screen.type(b"word\r")
    code, shown = screen.rest(popen)
    assert (code, shown) == (5, b"\r\nword\r\ngot word\r\n")  # echoed once, by the far terminal
    assert screen.mode == before


@pytest.mark.parametrize("way", ["SIGTERM", "the end of the server"])
def test_our_terminal_is_restored_whatever_happens(
    way: str, user: User, screen: Terminal, tmp_path: Path
) -> None:
    before = screen.mode
    with serving("outfitter", tmp_path / "server") as server:
        popen = start_shell(screen, user, server.url, "echo ready; exec sleep 60")
        screen.until(b"ready")
        wait_until(lambda: screen.is_raw, "the terminal is raw")
        if way == "SIGTERM":
            popen.send_signal(signal.SIGTERM)
            assert screen.rest(popen)[0] == 143
        else:
            server.popen.kill()
            server.popen.wait()
            # A new one in its place says at once that the session is gone.
            with serving("outfitter", tmp_path / "server", listen=server.url):
                code, shown = screen.rest(popen)
            assert code == 125
            assert b"failed to resume" in shown
            assert shown.endswith(b"\r\n")
    assert screen.mode == before


def test_our_terminal_is_raw_again_after_a_stop(server: Server, user: User, screen: Terminal) -> None:
    before = screen.mode
    popen = start_shell(screen, user, server.url, "echo ready; read x; echo got $x; exit 5")
    screen.until(b"ready\r\n")
    wait_until(lambda: screen.is_raw, "the terminal is raw")
    stop(popen.pid)
    wait_until(lambda: status(popen.pid).get("State", "")[:1] == "T", "it has stopped")
    screen.mode = before  # as a shell does, which has the terminal until somebody types `fg`
    popen.send_signal(signal.SIGCONT)
    wait_until(lambda: screen.is_raw, "the terminal is raw again")
    screen.type(b"word\r")
    assert screen.rest(popen) == (5, b"word\r\ngot word\r\n")
    assert screen.mode == before


def test_keys_go_to_the_far_command(any_server: Server, user: User, screen: Terminal) -> None:
    script = "trap 'echo int' INT; echo ready; cat; cat; exit 6"
    popen = start_shell(screen, user, any_server.url, script)
    screen.until(b"ready\r\n")
    screen.type(b"one\r")
    screen.until(b"one\r\none\r\n")
    screen.type(CTRL_C)  # ends the first cat
    screen.until(b"int\r\n")
    assert popen.poll() is None
    screen.type(b"two\r")
    screen.until(b"two\r\ntwo\r\n")
    screen.type(CTRL_D)  # ends the second
    assert screen.rest(popen)[0] == 6


def test_colours_pass_unchanged_and_the_terminals_names_reach_the_command(
    any_server: Server, user: User, screen: Terminal
) -> None:
    script = r"printf '\033[38;5;208m%s\033[0m %s|%s' orange $TERM $COLORTERM"
    env = {"COLORTERM": "truecolor", "TERM": "xterm-direct"}
    args = ("run", "--on", any_server.url, "--tty", "--", "sh", "-c", script)
    popen = screen.start(user, *args, env=env)
    assert screen.rest(popen) == (0, b"\x1b[38;5;208morange\x1b[0m xterm-direct|truecolor")


def test_terminals_names_are_explained_as_the_callers(server: Server, user: User) -> None:
    args = ("run", "--on", server.url, "--tty", "--explain", "--inherit", "none", "--", "true")
    done = user.run(*args, env={"TERM": "xterm-direct"})
    assert done.stderr.splitlines()[0].endswith(b", request=request(applied, 1)"), done.stderr


def test_this_machine_gives_a_terminal_too(user: User, screen: Terminal) -> None:
    popen = screen.start(user, "run", "-t", "--", "sh", "-c", "stty size; read x; exit $x")
    screen.until(b"24 80\r\n")
    screen.type(b"7\r")
    assert screen.rest(popen)[0] == 7


def test_hung_up_terminal_leaves_the_command_running(server: Server, user: User) -> None:
    screen = Terminal()
    popen = start_shell(screen, user, server.url, "trap '' HUP; while :; do echo $$; sleep 0.01; done")
    screen.until(b"\r\n")
    screen.close()
    assert popen.wait(SECONDS) == 129
    [record] = user.records()
    assert b"running" in user.run("ps").stdout
    wait_until(lambda: not alive(popen.pid), "it is gone")
    taken = user.start("attach", record.stem)
    assert taken.stdout is not None
    assert alive(int(taken.stdout.readline()))


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["plain", "json"])
def test_job_in_the_background_leaves_what_is_typed_to_others(
    flags: tuple[str, ...], user: User, screen: Terminal, tmp_path: Path
) -> None:
    # Who reads from a terminal that is another job's is stopped.
    script = f"echo ready; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo do''ne"
    shell = '"$@" & while kill -0 $! 2>/dev/null; do sleep 0.05; done'
    popen = user.start(
        *("run", *flags, "--", "sh", "-c", script),
        stdin=screen.theirs,
        stdout=screen.theirs,
        stderr=screen.theirs,
        through=(program("setsid"), "--ctty", program("bash"), "-mc", shell, "bash"),
    )
    screen.until(b"ready")
    screen.type(b"for the shell\n")
    (tmp_path / "go").touch()
    screen.until(b"done")
    screen.rest(popen)


# Waiting


@pytest.fixture
def deaf() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"


def test_spinner_turns_while_connecting_and_ctrl_c_ends_it(deaf: str, user: User, screen: Terminal) -> None:
    popen = screen.start(user, "run", "--on", deaf, "--", "true")
    screen.until(FRAMES[1] + f" connecting to {deaf}".encode())
    screen.type(CTRL_C)
    code, shown = screen.rest(popen)
    assert code == 130
    assert shown.endswith(b"\r\x1b[2K")  # nothing of it is left
    assert b"Traceback" not in shown


def test_spinner_is_as_narrow_as_the_terminal(deaf: str, user: User) -> None:
    # One that goes on in the next line would leave a line behind with each turn.
    screen = Terminal(24, 20)
    try:
        popen = screen.start(user, "run", "--on", deaf, "--", "true")
        screen.until(b" connecting to ws:\r\x1b[2K")
        screen.type(CTRL_C)
        assert screen.rest(popen)[0] == 130
    finally:
        screen.close()


def test_waiting_shows_nothing_in_a_pipe(deaf: str, user: User) -> None:
    user.declare(f'[[environments]]\nid = "deaf"\nurl = "{deaf}"\nconnect_timeout_sec = 0.5\n')
    done = user.run("run", "--on", "deaf", "--", "true")
    told = f"outfitter: {deaf} did not answer within 0.5 s\n".encode()
    assert (done.returncode, done.stdout, done.stderr) == (125, b"", told)


@pytest.mark.parametrize(
    ("env", "text"),
    [({"TERM": "dumb"}, b"outfitter: "), ({"PYTHONIOENCODING": "ascii"}, b"/ connecting")],
    ids=["dumb terminal", "no Unicode"],
)
def test_spinner_is_as_plain_as_the_terminal(
    env: dict[str, str], text: bytes, deaf: str, user: User, screen: Terminal
) -> None:
    user.declare(f'[[environments]]\nid = "deaf"\nurl = "{deaf}"\nconnect_timeout_sec = 0.5\n')
    popen = screen.start(user, "run", "--on", "deaf", "--", "true", env=env)
    code, shown = screen.rest(popen)
    assert code == 125
    assert text in shown
    assert shown.isascii()
    assert (b"\x1b" in shown) is (env.get("TERM") != "dumb")


def lose_connection(screen: Terminal, user: User, cutter: Cutter, go: Path) -> Popen:
    """A command on a terminal, whose connection is cut in the middle of its output and cannot come back."""
    user.declare(f'[[environments]]\nid = "build"\nurl = "{cutter.url}"\n')
    cutter.budget = 20_000
    script = f"echo ready; while [ ! -e {go} ]; do sleep 0.01; done; seq 9999; printf prompt; read x; exit $x"
    popen = screen.start(user, "run", "--on", "build", "--tty", "--", "sh", "-c", script)
    screen.until(b"ready")
    cutter.budget = 0
    go.touch()
    screen.until(
        b"\r\n\r\x1b[2K" + FRAMES[0]
    )  # a line of its own: what the command printed last is not wiped out
    screen.until(FRAMES[1] + b" reconnecting to build")
    return popen


def test_spinner_turns_while_recovering_and_one_line_follows(
    server: Server, user: User, screen: Terminal, tmp_path: Path
) -> None:
    with cutting(server) as cutter:
        popen = lose_connection(screen, user, cutter, tmp_path / "go")
        cutter.budget = None
        wait_until(lambda: screen.sees(b"prompt", 0) and screen.sees(b" s\r\n", 0), "it goes on")
        # The rest of the output, and one line: which of them is first is chance.
        told = rb"(\r\n)?outfitter: the connection to build was lost and recovered after \d+\.\d s\r\n"
        # Each frame begins by wiping out the one before; nothing else is shown until the last is wiped out.
        frames, _, rest = screen.shown.rpartition(b"\r\x1b[2K")
        assert b"\n" not in frames
        output, count = re.subn(told, b"", rest)
        assert count == 1
        assert output.endswith(b"9998\r\n9999\r\nprompt")
        screen.shown = b""
        screen.type(b"4\r")
        assert screen.rest(popen) == (4, b"4\r\n")


def test_ctrl_c_while_recovering_leaves_the_command(
    server: Server, user: User, screen: Terminal, tmp_path: Path
) -> None:
    before = screen.mode
    with cutting(server) as cutter:
        popen = lose_connection(screen, user, cutter, tmp_path / "go")
        screen.type(b"x")  # waits for the connection, and Ctrl-C does not wait behind it
        screen.type(CTRL_C)
        code, shown = screen.rest(popen)
    [record] = user.records()
    assert code == 130
    assert b"gave up waiting for the server; the command may still run" in shown
    assert f"outfitter attach {record.stem}\r".encode() in shown
    assert screen.mode == before


def test_ctrl_c_again_and_again_leaves_a_server_that_does_not_answer(
    server: Server, user: User, screen: Terminal
) -> None:
    popen = start_shell(screen, user, server.url, "echo ready; exec sleep 60")
    screen.until(b"ready")
    with stopped(server):
        for _ in range(30):
            screen.type(CTRL_C)
            if screen.sees(b"gave up waiting for the server", 0.5 * SECOND):
                break
        assert screen.rest(popen)[0] == 130
