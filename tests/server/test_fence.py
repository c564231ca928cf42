"""A server that nobody holds ends, by a clock that goes on while the machine sleeps."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.core.marks import Marks
from outfitter.errors import LaunchFailed
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host.tree import Trees, new_nonce
from outfitter.loop import EpollLoop
from outfitter.pace import EpollPace
from outfitter.server.fence import Fence, FenceReached
from tests.support.handloop import HandLoop
from tests.support.servers import command, environment


class Machine:
    """A loop and a clock that goes on while the loop's own stands still."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.asleep = 0.0
        self.heard = self.loop.now
        self.events = [(5, 1)]
        self.loop.poll = lambda timeout: self.events  # type: ignore[attr-defined]
        self.fence = Fence(
            self.loop,  # type: ignore[arg-type]
            10.0,
            lambda: self.heard,
            lambda: self.loop.now + self.asleep,
        )
        self.fence.watch()

    def poll(self) -> list[tuple[int, int]]:
        return self.loop.poll(0.0)  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_one_whom_nobody_ever_dialled_ends(machine: Machine) -> None:
    machine.loop.now += 9.9
    assert machine.poll() == machine.events
    machine.loop.now += 0.1
    with pytest.raises(FenceReached):
        machine.poll()


def test_whoever_is_heard_puts_the_end_off(machine: Machine) -> None:
    machine.loop.now += 9
    machine.heard = machine.loop.now
    machine.loop.now += 9
    assert machine.poll() == machine.events
    machine.loop.now += 1
    with pytest.raises(FenceReached):
        machine.poll()


def test_time_asleep_counts(machine: Machine) -> None:
    machine.loop.now += 5
    machine.heard = machine.loop.now
    assert machine.poll() == machine.events
    machine.asleep += 10
    with pytest.raises(FenceReached):
        machine.poll()


def test_what_was_heard_before_a_sleep_is_not_heard_after_it(machine: Machine) -> None:
    """The machine sleeps between a word of a client and the next look at the clock."""
    machine.loop.now += 2
    machine.heard = machine.loop.now
    machine.asleep += 9
    machine.loop.now += 1
    with pytest.raises(FenceReached):
        machine.poll()


def test_a_word_after_a_sleep_counts_from_then_on(machine: Machine) -> None:
    machine.asleep += 8
    assert machine.poll() == machine.events
    machine.heard = machine.loop.now
    machine.loop.now += 9
    assert machine.poll() == machine.events


def test_the_loop_wakes_in_time(machine: Machine) -> None:
    assert machine.loop.waiting == 1
    machine.loop.advance(1.0)
    assert machine.loop.waiting == 1


def test_the_loop_wakes_when_the_time_is_over(machine: Machine) -> None:
    machine.heard += 0.4
    machine.loop.advance(10.0)
    assert machine.loop.next == pytest.approx(machine.heard + 10.0)


REMOTE = ("--remote", "http://127.0.0.1:1", "--environment-id", "box")  # nobody is there, either


@pytest.mark.parametrize("where", [(), REMOTE], ids=["dialled", "dials out"])
def test_a_server_that_nobody_holds_ends_by_itself(tmp_path: Path, where: tuple[str, ...]) -> None:
    began = time.monotonic()
    done = subprocess.run(
        command("outfitter", *where, "--fence", "1"),
        env=environment(tmp_path, {"CODEX_API_KEY": "a token"}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "no client was heard for 1 s (--fence)" in done.stderr
    assert time.monotonic() - began >= 1


def test_what_came_before_a_freeze_is_not_read_after_it() -> None:
    """The loop wakes with something to read, and looks at the clock first."""
    loop, clock, read = EpollLoop(), [0.0], []
    reading, writing = os.pipe()
    loop.add_reader(reading, lambda: read.append(os.read(reading, 100)))
    fence = Fence(loop, 10.0, lambda: began, lambda: loop.time() + clock[0])
    began = loop.time()
    EpollPace(loop)  # as a server's own
    fence.watch()
    loop.call_soon(loop.stop)
    loop.run()
    os.write(writing, b"run this")
    clock[0] += 10
    with pytest.raises(FenceReached):
        loop.run()
    assert read == []
    loop.close()
    os.close(reading)
    os.close(writing)


def test_who_froze_after_it_was_asked_starts_nothing() -> None:
    """Between the look at the clock and the start of a command there is time to freeze."""
    loop, clock = EpollLoop(), [0.0]
    began = loop.time()
    fence = Fence(loop, 10.0, lambda: began, lambda: loop.time() + clock[0])
    trees = Trees(loop, Marks(new_nonce()))
    trees.held = fence.holds
    launch = Launch("/bin/true", ["/bin/true"], "/", {})
    os.waitpid(trees.spawn(Spawner(), launch, Stdio(), trees._marks.new(0)), 0)
    clock[0] += 10
    with pytest.raises(LaunchFailed, match="--fence"):
        trees.spawn(Spawner(), launch, Stdio(), trees._marks.new(0))
    loop.close()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--fence", "7", "--keepalive", "2"), "--fence must be at least 4 times --keepalive"),
        (("--remote", "http://127.0.0.1:1", "--keepalive", "8"), "--keepalive needs --listen"),
        (
            ("--remote", "http://127.0.0.1:1", "--remote-transport", "direct", "--fence", "8"),
            "--fence cannot be used with --remote-transport direct",
        ),
    ],
)
def test_flags_that_cannot_work_are_refused(tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        command("outfitter", *flags), env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_server_ends_with_its_input(tmp_path: Path) -> None:
    popen = subprocess.Popen(
        command("outfitter", "--exit-on-stdin-close"),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with popen:
        assert popen.stdin is not None and popen.stdout is not None
        assert popen.stdout.readline().startswith(b"ws://127.0.0.1:")
        popen.stdin.write(b"not the end")
        popen.stdin.close()
        assert popen.wait(30) == 0


def test_a_file_is_no_input_to_wait_for(tmp_path: Path) -> None:
    done = subprocess.run(
        command("outfitter", "--exit-on-stdin-close"),
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "nobody can wait for the end of a file" in done.stderr
