"""The watchdog: ends what carries the mark when its server goes, is replaced when it dies, stops quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.host.unix import usable
from tests.support.machine import SECOND, alive, command, wait_gone, wait_until

pytestmark = pytest.mark.skipif(not usable(), reason="this machine does not let us set RLIMIT_RTTIME")

# A server's skeleton: a watchdog, one marked command, one unmarked; prints their pids and obeys its stdin.
SKELETON = """
import os, sys
from outfitter.core.launch import Launch
from outfitter.core.marks import Marks
from outfitter.host.spawn import Stdio
from outfitter.host.tree import new_nonce
from outfitter.host.unix import Spawner
from outfitter.host.watchdog import Watchdog
from outfitter.loop import EpollLoop

loop, spawner, marks = EpollLoop(), Spawner(), Marks(new_nonce())
watchdog = Watchdog(loop, spawner, marks)
watchdog.ensure()
watchdog.ensure()
null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
nap = Launch("/bin/sleep", ["sleep", "50000"], "/", {})
marked = spawner.spawn(nap, Stdio(stdout=null, stderr=null), marks.new(0))
plain = spawner.spawn(nap, Stdio(stdout=null, stderr=null))
print(watchdog.pid, marked, plain, flush=True)

def obey():
    order = os.read(0, 100).strip()
    if order == b"watchdog?":
        print(watchdog.pid, flush=True)
    elif order == b"stop":
        watchdog.stop()
        print("stopped", flush=True)

loop.add_reader(0, obey)
loop.run()
"""


class Skeleton:
    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", SKELETON], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.watchdog, self.marked, self.plain = map(int, self.line().split())

    def line(self) -> bytes:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline()

    def order(self, text: bytes) -> bytes:
        assert self.popen.stdin is not None
        self.popen.stdin.write(text + b"\n")
        self.popen.stdin.flush()
        return self.line()

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            assert stream is not None
            stream.close()
        for pid in (self.plain, self.marked):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


@pytest.fixture
def skeleton() -> object:
    skeleton = Skeleton()
    yield skeleton
    skeleton.close()


def test_killed_server_takes_its_marked_processes_along(skeleton: Skeleton) -> None:
    # Row 43.
    skeleton.popen.kill()
    wait_gone([skeleton.marked, skeleton.watchdog])
    assert alive(skeleton.plain)


def test_watchdog_ignores_what_ends_a_terminals_processes(skeleton: Skeleton) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(skeleton.watchdog, number)
    assert int(skeleton.order(b"watchdog?")) == skeleton.watchdog
    skeleton.popen.kill()
    wait_gone([skeleton.marked])


def test_killed_watchdog_is_replaced(skeleton: Skeleton) -> None:
    os.kill(skeleton.watchdog, signal.SIGKILL)
    wait_until(lambda: int(skeleton.order(b"watchdog?")) not in (0, skeleton.watchdog), "another one runs")
    assert alive(skeleton.marked)
    skeleton.popen.kill()
    wait_gone([skeleton.marked])


def test_stopped_watchdog_ends_nobody(skeleton: Skeleton) -> None:
    assert skeleton.order(b"stop") == b"stopped\n"
    wait_gone([skeleton.watchdog])
    skeleton.popen.kill()
    skeleton.popen.wait(5 * SECOND)
    assert alive(skeleton.marked)


def test_watchdog_is_one_idle_shell(skeleton: Skeleton) -> None:
    assert command(skeleton.watchdog).split()[1] == "/bin/sh"
    # It holds nothing of the server's but the pipe it waits on.
    held = {str(entry.readlink()) for entry in Path(f"/proc/{skeleton.watchdog}/fd").iterdir()}
    assert {name.partition(":")[0] for name in held} == {"/dev/null", "pipe"}
