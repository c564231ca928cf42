"""Every owner's end takes every descendant with it, however it hides, and nobody else.

Rows 5, 6 and 43 of the specification's table of weaknesses, and its rule that what a *finished* command
left running belongs to the session.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import pytest

from tests.support.machine import SECOND, alive, command, running, wait_gone, wait_until
from tests.support.pipes import piping
from tests.support.servers import Server, end, environment, serving
from tests.support.servers import command as server_command
from tests.support.wire import Message, Wire

# Each script leaves `sleep NAP` somewhere and stays itself. NAP is unique, so that /proc tells who is whose.
HIDING = {
    "plain child": 'sh -c "exec sleep NAP"; :',
    "background child": "sleep NAP & wait",
    "setsid": "setsid sleep NAP & exec sleep NAP",
    "double fork and setsid": '(setsid sh -c "sleep NAP & sleep NAP &" &); exec sleep NAP',
    "nohup, output redirected": "nohup sleep NAP >/dev/null 2>&1 </dev/null & exec sleep NAP",
    "daemon without our descriptors": "(setsid sleep NAP >/dev/null 2>&1 </dev/null &); exec sleep NAP",
}
# A shell with job control puts each job into a group of its own.
JOB_CONTROL = "set -m; sleep NAP & sleep NAP & wait"
# How many processes each of them is, shells that stay included.
SIZE = {
    "plain child": 2,
    "background child": 2,
    "setsid": 2,
    "double fork and setsid": 3,
    "nohup, output redirected": 2,
    "daemon without our descriptors": 2,
    "job control": 3,
}

_naps = itertools.count(1)


class Starter(Protocol):
    def start(self, process: str, argv: list[str], **params: object) -> Message: ...


def nap() -> str:
    """A number of seconds that nobody else sleeps."""
    return f"{20_000 + os.getpid()}.{next(_naps):05}"


def hide_everywhere(wire: Starter) -> dict[str, tuple[str, list[int]]]:
    """Starts one command for each way to hide; returns NAP and the pids of each."""
    naps = {}
    for way, script in HIDING.items():
        naps[way] = nap()
        wire.start(way, ["/bin/sh", "-c", script.replace("NAP", naps[way])])
    naps["job control"] = nap()
    shell = ["/bin/bash", "-c", JOB_CONTROL.replace("NAP", naps["job control"])]
    wire.start("job control", shell, tty=True)
    return {way: (text, settled(text, SIZE[way])) for way, text in naps.items()}


def settled(text: str, size: int) -> list[int]:
    """Waits until `size` processes carry this text, each of them where it wanted to be."""

    def complete() -> bool:
        found = running(text)
        # `setsid` has the text among its arguments too: wait until it is what it shall become.
        return len(found) == size and not any("setsid sleep" in command(pid) for pid in found[1:])

    wait_until(complete, f"{size} processes with {text}, not {[command(pid) for pid in running(text)]}")
    return running(text)


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process that is none of the server's business."""
    popen = subprocess.Popen(["sleep", nap()])
    yield popen.pid
    popen.kill()
    popen.wait()


def pids(hidden: dict[str, tuple[str, list[int]]]) -> list[int]:
    return [pid for _, found in hidden.values() for pid in found]


def assert_all_gone(hidden: dict[str, tuple[str, list[int]]]) -> None:
    wait_gone(pids(hidden))
    late = {way: [command(pid) for pid in running(text)] for way, (text, _) in hidden.items()}
    assert late == {way: [] for way in hidden}


class Neighbour:
    """Another session of the same server, with a command that must live on."""

    def __init__(self, server: Server) -> None:
        self.wire = Wire(server.url)
        self.wire.handshake()
        text = nap()
        self.wire.start("theirs", ["/bin/sh", "-c", f"setsid sleep {text} & exec sleep {text}"])
        self.pids = settled(text, 2)

    def assert_unharmed(self) -> None:
        assert [pid for pid in self.pids if not alive(pid)] == []
        self.wire.call("process/terminate", {"processId": "theirs"})
        wait_gone(self.pids)
        self.wire.close()


def test_terminate_ends_the_whole_tree_of_a_running_command(tmp_path: Path, bystander: int) -> None:
    # Row 6.
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        neighbour = Neighbour(server)
        hidden = hide_everywhere(wire)
        for way in hidden:
            assert wire.call("process/terminate", {"processId": way}) == {"running": True}
        assert_all_gone(hidden)
        for way in hidden:
            assert wire.closed(way)[-2]["params"]["exitCode"] == 137  # row 8: terminals as well
        assert alive(bystander)
        neighbour.assert_unharmed()


def test_terminate_of_one_command_leaves_the_others_of_its_session_alone(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        hidden = hide_everywhere(wire)
        for way in list(hidden):
            _, found = hidden.pop(way)
            wire.call("process/terminate", {"processId": way})
            wait_gone(found)
            assert [command(pid) for pid in pids(hidden) if not alive(pid)] == []


def test_terminate_with_grace_ends_the_whole_tree_as_well(tmp_path: Path, bystander: int) -> None:
    # Row 4: the grace is for traps, not for an escape.
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        hidden = hide_everywhere(wire)
        for way in hidden:
            wire.call("process/terminate", {"processId": way, "graceMs": int(200 * SECOND)})
        assert_all_gone(hidden)
        assert alive(bystander)


@pytest.mark.parametrize(
    "script",
    ["sleep NAP & :", "setsid sleep NAP & :", '(setsid sh -c "sleep NAP & :" &) ; :'],
    ids=["background child", "setsid", "double fork and setsid"],
)
def test_terminate_after_the_leader_exited_ends_who_holds_the_pipes(
    script: str, tmp_path: Path, bystander: int
) -> None:
    # Row 5.
    text = nap()
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        neighbour = Neighbour(server)
        wire.start("p", ["/bin/sh", "-c", script.replace("NAP", text)])
        assert wire.exit_code("p") == 0
        found = settled(text, 1)
        assert wire.call("process/terminate", {"processId": "p"}) == {"running": False}
        wait_gone(found)
        assert [notice["method"] for notice in wire.closed("p")] == ["process/exited", "process/closed"]
        assert alive(bystander)
        neighbour.assert_unharmed()


def test_expiry_of_a_session_ends_its_trees(tmp_path: Path, bystander: int) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "1") as server:
        wire = Wire(server.url)
        wire.handshake()
        neighbour = Neighbour(server)
        hidden = hide_everywhere(wire)
        wire.abort()
        assert_all_gone(hidden)
        assert alive(bystander)
        neighbour.assert_unharmed()


@pytest.mark.parametrize("how", ["input ends", "both ends close"])
def test_end_of_a_stdio_connection_ends_its_trees(how: str, tmp_path: Path, bystander: int) -> None:
    with piping(tmp_path) as pipes:
        pipes.handshake()
        hidden = hide_everywhere(pipes)
        pipes.end_input()
        if how == "both ends close":
            assert pipes.popen.stdout is not None
            pipes.popen.stdout.close()
        assert pipes.exit_code() == 0
        assert_all_gone(hidden)
        assert alive(bystander)


def unread(stream: IO[bytes] | None) -> int:
    """Bytes waiting in a pipe."""
    assert stream is not None
    [count] = struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4)))
    return int(count)


def is_full(stream: IO[bytes] | None) -> bool:
    """Whether a pipe that is being flooded takes no more.

    Its bytes do not say so: it is full when its pages are, which may be partly filled.
    """
    before = unread(stream)
    time.sleep(0.1 * SECOND)  # an absence has no event
    return before > 0 and unread(stream) == before


def test_end_of_a_stdio_connection_that_reads_nothing_ends_its_trees(tmp_path: Path) -> None:
    # The answers nobody takes must not keep the server, and with it the commands, alive.
    with piping(tmp_path) as pipes:
        pipes.handshake()
        hidden = hide_everywhere(pipes)
        text = nap()
        pipes.start("flood", ["/bin/sh", "-c", f"sleep {text} & exec yes"])
        found = settled(text, 1)
        wait_until(lambda: is_full(pipes.popen.stdout), "the pipe is full")
        pipes.end_input()
        assert pipes.exit_code() == 0
        assert_all_gone(hidden)
        wait_gone(found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_orderly_end_of_the_server_ends_its_trees(
    number: signal.Signals, tmp_path: Path, bystander: int
) -> None:
    with serving("outfitter", tmp_path) as other, serving("outfitter", tmp_path) as server:
        neighbour = Neighbour(other)
        wire = Wire(server.url)
        wire.handshake()
        hidden = hide_everywhere(wire)
        os.kill(server.pid, number)
        assert server.popen.wait(5 * SECOND) == 0
        assert_all_gone(hidden)
        assert alive(bystander)
        neighbour.assert_unharmed()
        wire.abort()


def test_killed_server_leaves_no_descendant_behind(tmp_path: Path, bystander: int) -> None:
    # Row 43.
    with serving("outfitter", tmp_path) as other, serving("outfitter", tmp_path) as server:
        neighbour = Neighbour(other)
        wire = Wire(server.url)
        wire.handshake()
        hidden = hide_everywhere(wire)
        os.kill(server.pid, signal.SIGKILL)
        assert_all_gone(hidden)
        assert alive(bystander)
        neighbour.assert_unharmed()
        wire.abort()


def test_killed_stdio_server_leaves_no_descendant_behind(tmp_path: Path, bystander: int) -> None:
    with piping(tmp_path) as pipes:
        pipes.handshake()
        hidden = hide_everywhere(pipes)
        os.kill(pipes.popen.pid, signal.SIGKILL)
        assert_all_gone(hidden)
        assert alive(bystander)


def left_behind(wire: Wire) -> list[int]:
    """The pids that a command, closed by now, left running on purpose."""
    text = nap()
    script = f"setsid sleep {text} >/dev/null 2>&1 </dev/null & :"
    wire.start("daemon", ["/bin/sh", "-c", script])
    wire.closed("daemon")
    return settled(text, 1)


def test_daemon_of_a_closed_command_survives_its_terminate_but_not_its_session(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--session-retention", "1") as server:
        wire = Wire(server.url)
        wire.handshake()
        daemon = left_behind(wire)
        assert wire.call("process/terminate", {"processId": "daemon"}) == {"running": False}
        wire.call("environment/status")
        assert [pid for pid in daemon if not alive(pid)] == []
        wire.abort()
        wait_gone(daemon)


def test_daemon_of_a_forgotten_command_ends_with_its_session(tmp_path: Path) -> None:
    flags = ("--session-retention", "1", "--process-retention", "0")
    with serving("outfitter", tmp_path, *flags) as server:
        wire = Wire(server.url)
        wire.handshake()
        daemon = left_behind(wire)
        assert wire.call("process/list") == {"processes": []}
        assert [pid for pid in daemon if not alive(pid)] == []
        wire.abort()
        wait_gone(daemon)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_daemon_of_a_closed_command_ends_with_the_server(number: signal.Signals, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server:
        wire = Wire(server.url)
        wire.handshake()
        daemon = left_behind(wire)
        os.kill(server.pid, number)
        wait_gone(daemon)
        wire.abort()


UNMARKED = "prlimit --pid $$ --rttime=unlimited; setsid sleep NAP >/dev/null 2>&1 </dev/null & :"


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit (util-linux)")
def test_orderly_end_finds_a_daemon_that_removed_its_mark(tmp_path: Path) -> None:
    text = nap()
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/sh", "-c", UNMARKED.replace("NAP", text)])
        wire.closed("p")
        daemon = settled(text, 1)
        os.kill(server.pid, signal.SIGTERM)
        assert server.popen.wait(5 * SECOND) == 0
        wait_gone(daemon)


@pytest.mark.parametrize("upgraded", [False, True])
def test_who_was_there_before_the_server_is_not_its_own_to_end(upgraded: bool, tmp_path: Path) -> None:
    """A script that starts something and then becomes the server: the reader of its audit log, say."""
    before, after = nap(), nap()
    script = f'sh -c "sleep {before}; :" & exec "$@"'
    words = ["/bin/sh", "-c", script, "sh", *server_command("outfitter", "--listen", "ws://127.0.0.1:0")]
    popen = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(tmp_path))
    try:
        assert popen.stdout is not None
        url = popen.stdout.readline().decode().strip()
        with Wire(url) as wire:
            session = wire.handshake()["sessionId"]
            wire.start("p", ["/bin/sh", "-c", HIDING["setsid"].replace("NAP", after)])
            others, ours = settled(before, 2), settled(after, 2)
            if upgraded:
                os.kill(popen.pid, signal.SIGUSR2)
                wire.ended()
        if upgraded:
            with Wire(url) as wire:
                wire.handshake(session)
        os.kill(popen.pid, signal.SIGTERM)
        assert popen.wait(10 * SECOND) == 0
        wait_gone(ours)
        assert running(before) == others
    finally:
        end(popen)
        for pid in running(before):
            os.kill(pid, signal.SIGKILL)


def test_flood_of_forks_is_ended(tmp_path: Path) -> None:
    # A tree that goes on forking while it is killed.
    text = nap()
    script = f"while :; do setsid sh -c 'sleep {text}' >/dev/null 2>&1 & sleep 0.01; done"
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/sh", "-c", script])
        wait_until(lambda: len(running(text)) > 20, "twenty of them")
        wire.call("process/terminate", {"processId": "p"})
        wire.closed("p")
        wait_until(lambda: not running(text), "all of them gone")
        assert isinstance(wire.call("environment/status"), dict)


def test_dead_orphans_are_reaped_while_the_server_runs(tmp_path: Path) -> None:
    # The server adopts what is left alone; their zombies must not fill the process table.
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 0.05 &) ; done"])
        wire.closed("p")

        def zombies() -> list[str]:
            listed = subprocess.run(
                ["ps", "--ppid", str(server.pid), "-o", "stat="], capture_output=True, text=True, check=False
            )
            return [line for line in listed.stdout.split() if line.startswith("Z")]

        wait_until(lambda: not zombies(), "no zombies", 12 * SECOND)
