"""SIGTERM: every client learns why, whatever it does at the moment, and the server ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.machine import SECOND, alive, wait_until
from tests.support.pipes import piping
from tests.support.raw import Raw
from tests.support.servers import serving
from tests.support.session import Peer
from tests.support.wire import start_params

WHY = (1001, "server is stopping")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_every_client_learns_why_it_is_left(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(32 << 20))
    with serving("outfitter", tmp_path) as server, ExitStack() as open_:
        idle = open_.enter_context(Peer(server))
        idle.start("p", ["/bin/sleep", "1000"])
        streams = [open_.enter_context(Peer(server)) for _ in range(3)]
        for stream in streams:
            stream.call_unread("process/start", start_params("p", ["yes"]))
        reader = open_.enter_context(Peer(server))
        reader.call_unread("fs/readFile", {"path": f"file://{tmp_path}/large"})
        poller = open_.enter_context(Peer(server))
        poller.start("p", ["/bin/sleep", "1000"])
        poller.call_unread("process/read", {"processId": "p", "waitMs": 60_000})
        for busy in (*streams, reader):
            busy.frame()  # it has begun
        pids = [one["pid"] for one in idle.ask("process/list")["processes"]]
        server.popen.send_signal(number)
        for peer in (idle, *streams, reader, poller):
            assert peer.close_frame() == WHY
        assert server.popen.wait(10 * SECOND) == 0
        assert [pid for pid in pids if alive(pid)] == []


def test_drain_over_stdio_waits_for_the_client(tmp_path: Path) -> None:
    with piping(tmp_path) as pipes:
        pipes.handshake()
        pipes.start("sleep", ["sleep", "1000"])
        pipes.popen.send_signal(signal.SIGUSR1)
        [process] = pipes.call("process/list")["processes"]
        assert alive(process["pid"])
        pipes.end_input()
        assert pipes.exit_code() == 0


def test_client_that_reads_nothing_holds_up_nobody(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, Raw(server, receive_buffer=4096) as stalled:
        stalled.handshake_unread()
        stalled.call_unread("process/start", start_params("p", ["yes"]))
        with Peer(server) as peer, Raw(server) as undecided:
            peer.start("p", ["/bin/true"])
            server.popen.send_signal(signal.SIGTERM)
            assert peer.close_frame() == WHY
            assert undecided.ended()
            assert server.popen.wait(10 * SECOND) == 0


# A loop that is held up, by a fault of ours, say.
STALLED = """
import os, signal, sys
from outfitter.loop import EpollLoop
from outfitter.server import listen
listen._HARD_END_SECONDS = 1
loop = EpollLoop()
listen.on_signals(loop, {{signal.SIGTERM: loop.stop}})
def hold():
    print("held", flush=True)
    while {condition}:
        pass
loop.call_soon(hold)
loop.run()
print("ended", flush=True)
"""


def test_signal_during_a_stall_is_heard_when_it_is_over(tmp_path: Path) -> None:
    code = STALLED.format(condition=f"not os.path.exists({str(tmp_path / 'over')!r})")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as stalled:
        assert stalled.stdout is not None
        assert stalled.stdout.readline() == "held\n"
        stalled.send_signal(signal.SIGTERM)
        (tmp_path / "over").touch()
        assert stalled.stdout.read() == "ended\n"
    assert stalled.returncode == 0


def test_signal_during_a_stall_without_end_ends_the_server(tmp_path: Path) -> None:
    code = STALLED.format(condition="True")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as stalled:
        assert stalled.stdout is not None
        assert stalled.stdout.readline() == "held\n"
        os.kill(stalled.pid, signal.SIGTERM)
        assert stalled.wait(20 * SECOND) == -signal.SIGALRM


def test_signal_that_comes_again_and_again_does_not_put_the_end_off(tmp_path: Path) -> None:
    """As of somebody who presses Ctrl-C each second."""
    code = STALLED.format(condition="True")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as stalled:
        assert stalled.stdout is not None
        assert stalled.stdout.readline() == "held\n"

        def gone() -> bool:
            stalled.send_signal(signal.SIGTERM)
            return stalled.poll() is not None

        wait_until(gone, "it has ended")
    assert stalled.returncode == -signal.SIGALRM
