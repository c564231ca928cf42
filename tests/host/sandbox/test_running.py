"""One sandbox that runs: what happens before its command does, and when it is told to be empty."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.core.permissions import READ, Confinement, Rule
from outfitter.errors import LaunchFailed
from outfitter.host.sandbox.running import reach
from outfitter.host.sandbox.sandboxes import Sandboxes
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host.tree import kill_group
from outfitter.loop import EpollLoop
from tests.support.machine import alive, children, descriptors, wait_until
from tests.support.sandbox import need_sandbox

Go = Callable[[], None]
READS = Confinement(True, False, (Rule("/", READ),))
MARK = 7


class Stage:
    """A loop with sandboxes, and one command."""

    def __init__(self, folder: Path) -> None:
        need_sandbox()
        self.loop = EpollLoop()
        self.sandboxes = Sandboxes(self.loop, str(folder))
        self.spawner = Spawner()
        self.ours, self.theirs = os.pipe2(os.O_CLOEXEC)

    def start(
        self, text: str, before: Callable[[int, Go], None] | None = None, cwd: str = "/", **env: str
    ) -> int:
        argv = ["/bin/sh", "-c", text]
        env = {"PATH": "/usr/bin:/bin", **env}
        launch = Launch(argv[0], argv, cwd, env, confinement=READS, before=before)
        stdio = Stdio(-1, self.theirs, self.theirs)
        return self.sandboxes.spawn(self.spawner, launch, stdio, None, MARK)

    def finish(self, pid: int) -> tuple[int, bytes]:
        """Runs the loop until the command has ended: its exit code, and what it said."""
        pidfd = os.pidfd_open(pid)
        self.loop.add_reader(pidfd, self.loop.stop)
        self.loop.run()
        self.loop.remove_reader(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.set_blocking(self.ours, False)
        try:
            return code, os.read(self.ours, 1000)
        except BlockingIOError:
            return code, b""

    def close(self) -> None:
        os.close(self.theirs)
        os.close(self.ours)
        self.loop.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    before = descriptors(os.getpid())
    stage = Stage(tmp_path)
    yield stage
    stage.sandboxes.stopped()
    stage.close()
    assert descriptors(os.getpid()) == before


def test_a_command_waits_for_what_comes_before(stage: Stage) -> None:
    order: list[object] = []

    def before(inner: int, go: Go) -> None:
        order.append(os.readlink(f"/proc/{inner}/ns/net") != os.readlink("/proc/self/ns/net"))
        os.write(stage.theirs, b"before\n")
        stage.loop.call_later(0.01, lambda: (order.append(stage.sandboxes.holds), go()))

    pid = stage.start("echo ran", before)
    assert stage.sandboxes.holds
    assert stage.finish(pid) == (0, b"before\nran\n")
    assert order == [True, True] and not stage.sandboxes.holds


def test_a_command_whose_network_cannot_be_made_does_not_run(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def before(inner: int, go: Go) -> None:
        raise OSError("no network")

    assert stage.finish(stage.start("echo ran", before)) == (-9, b"")
    assert "a sandbox could not be prepared" in caplog.text


def test_a_command_that_is_ended_while_its_network_is_made_is_no_fault_of_ours(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def before(inner: int, go: Go) -> None:
        os.kill(inner, signal.SIGKILL)
        wait_until(lambda: not alive(inner), "the first process inside has ended")
        raise LaunchFailed("the sandbox has no network namespace")

    assert stage.finish(stage.start("echo ran", before))[1] == b""
    assert caplog.text == ""


def test_only_with_something_before_can_it_use_addresses(stage: Stage) -> None:
    code = "import socket; socket.socket().bind(('127.0.0.1', 0)); print('bound')"
    pid = stage.start(f'python3 -I -S -c "{code}"', lambda inner, go: go())
    assert stage.finish(pid) == (0, b"bound\n")


def test_nothing_is_left_open(stage: Stage, tmp_path: Path) -> None:
    stage.sandboxes.finder.find()
    before = descriptors(os.getpid())
    pid = stage.start("exit 3", lambda inner, go: go())
    assert stage.finish(pid) == (3, b"")
    stage.sandboxes.let_go(MARK)
    stage.sandboxes.let_go(MARK)  # again changes nothing
    assert (stage.sandboxes.running, descriptors(os.getpid())) == ({}, before)


def test_a_start_that_fails_leaves_nothing(stage: Stage, tmp_path: Path) -> None:
    stage.sandboxes.finder.find()
    before = descriptors(os.getpid())
    with pytest.raises(LaunchFailed):
        stage.start("true", lambda inner, go: go(), cwd=f"{tmp_path}/missing")
    assert descriptors(os.getpid()) == before and stage.sandboxes.running == {}


def test_bubblewrap_is_ended_where_it_cannot_be_told_what_to_do(stage: Stage) -> None:
    stage.sandboxes.finder.find()
    open_before, running = descriptors(os.getpid()), children(os.getpid())
    with pytest.raises(LaunchFailed, match="Invalid argument"):
        stage.start("echo ran", **{"A=B": "no name"})
    assert (descriptors(os.getpid()), children(os.getpid())) == (open_before, running)
    os.set_blocking(stage.ours, False)
    with pytest.raises(BlockingIOError):
        os.read(stage.ours, 1000)


def test_the_end_of_a_server_waits_for_the_sandbox(stage: Stage) -> None:
    pid = stage.start("echo up; sleep 60")
    assert os.read(stage.ours, 10) == b"up\n"
    inside = [one for child in children(pid) for one in (child, *children(child))]
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    stage.sandboxes.stopped()
    wait_until(lambda: not any(os.path.exists(f"/proc/{one}/exe") for one in inside), "all are gone")
    assert stage.sandboxes.running == {}


def test_a_signal_follows_a_command_into_its_new_session() -> None:
    # As `setsid` in a terminal: it leaves the group of the first process while it is being signalled.
    sent: list[int] = []
    with (
        subprocess.Popen(["sleep", "60"], process_group=0) as first,
        subprocess.Popen(
            ["/bin/sh", "-c", "read go; exec setsid sleep 60"], stdin=subprocess.PIPE, process_group=first.pid
        ) as command,
    ):

        def send(group: int, number: int) -> None:
            if not sent:
                assert command.stdin is not None
                command.stdin.write(b"go\n")
                command.stdin.flush()
                wait_until(lambda: os.getpgid(command.pid) == command.pid, "it leads a session")
            sent.append(group)
            kill_group(group, number)

        reach(command.pid, signal.SIGINT, send)
        ended = sent == [first.pid, command.pid]
        if not ended:
            command.kill()
    assert ended and (first.returncode, command.returncode) == (-signal.SIGINT, -signal.SIGINT)
