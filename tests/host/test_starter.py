"""A process of ours that starts commands: what becomes of them, of it, and of who means no good."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.errors import LaunchFailed
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host.starters import Starter, readable, started
from outfitter.host.unix import marked
from tests.support.machine import children, command, status, stop, wait_gone, wait_until

ENV = {"PATH": "/usr/bin:/bin"}
MARK = (1 << 62) + 54321
ME = str(os.getpid())


@pytest.fixture(autouse=True)
def reaped() -> Iterator[None]:
    """A child that waits for requests ends when nobody can send any; it is ours to wait for."""
    before = offspring()
    yield
    for pid in offspring() - before:
        os.waitpid(pid, 0)


def offspring() -> set[int]:
    """Our children, dead ones included."""
    return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and status(int(pid)).get("PPid") == ME}


@pytest.fixture
def starter() -> Iterator[Starter]:
    starter = Starter(Spawner(), "host.starter", (None,))
    yield starter
    starter.close()


def family(starter: int) -> list[int]:
    """A starter, and the child that waits for the next request: both are our children."""
    return [one for one in children(os.getpid()) if words(one) == words(starter)]


def words(pid: int) -> str:
    return command(pid).partition(" ")[2]


def launch(*argv: str, **more: object) -> Launch:
    return Launch(argv[0], argv, "/", {**ENV, **more})  # type: ignore[dict-item]


def output(starter: Starter, argv: Launch, **more: object) -> tuple[bytes, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        stdio = Stdio(-1, writing, writing)
        pid = started(lambda: starter, lambda: None, argv, stdio, MARK, **more)  # type: ignore[arg-type]
    finally:
        os.close(writing)
    with open(reading, "rb") as file:
        said = file.read()
    return said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_command_is_our_child_with_the_limits_that_it_is_given(starter: Starter) -> None:
    script = "echo $PPID; ulimit -Sn; ulimit -Hn; exit 7"
    said, code = output(starter, launch("sh", "-c", script), files=(77, 88))
    assert (said.split(), code) == ([str(os.getpid()).encode(), b"77", b"88"], 7)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (launch("echo", "a\0b"), "nul byte found in provided data"),
        (launch("echo", A="a\0b"), "data provided contains a nul byte"),
        (launch("echo", **{"A\0": "b"}), "data provided contains a nul byte"),
    ],
)
def test_words_that_no_program_can_get_are_refused_as_ever(starter: Starter, argv: Launch, said: str) -> None:
    for start in (lambda: output(starter, argv), lambda: Spawner().spawn(argv, Stdio(-1, 1, 2))):
        with pytest.raises(LaunchFailed) as caught:
            start()
        assert str(caught.value) == said


def test_what_python_refuses_is_an_error_and_no_command_that_ends_with_127(starter: Starter) -> None:
    with pytest.raises(LaunchFailed) as caught:
        output(starter, launch("true", **{"": "x"}))
    assert caught.value.errno_name == "EINVAL"
    assert output(starter, launch("echo", "on")) == (b"on\n", 0)


def test_a_command_that_somebody_stops_before_it_begins_holds_nothing_up(
    starter: Starter, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "cgroup.procs")  # nobody reads it, so the child waits before it executes anything
    caught: list[LaunchFailed] = []

    def start() -> None:
        with pytest.raises(LaunchFailed) as failed:
            output(starter, launch("true"), group=str(tmp_path))
        caught.append(failed.value)

    starter.answer()
    thread = threading.Thread(target=start)
    thread.start()
    wait_until(lambda: bool(marked(MARK.__eq__)), "the child is there")
    [child] = marked(MARK.__eq__)
    stop(child)
    thread.join()
    assert caught[0].errno_name == "ECANCELED"
    assert caught[0].what is not None and caught[0].what.startswith("somebody stopped the command")
    wait_gone([child])
    assert output(starter, launch("echo", "on")) == (b"on\n", 0)


def test_one_that_is_stopped_itself_is_given_up_and_starts_nothing_later(tmp_path: Path) -> None:
    """As a command of the same user can do it; this one has no child that waits for requests."""
    starter = Starter(Spawner(), "host.masking", ([],))
    starter.answer()
    stop(starter.pid)
    ended: list[bool] = []
    with open(os.devnull, "wb") as null:
        stdio = Stdio(-1, null.fileno(), null.fileno())
        with pytest.raises(LaunchFailed, match="the process that starts commands has ended; try again"):
            argv = launch("touch", str(tmp_path / "done"))
            started(lambda: starter, lambda: ended.append(True), argv, stdio, MARK)
    assert ended == [True]
    os.kill(starter.pid, signal.SIGCONT)
    # It takes the request, and its child finds that nobody waits for an answer.
    assert output(starter, launch("echo", "on")) == (b"on\n", 0)
    wait_until(lambda: family(starter.pid) == [starter.pid], "the child of the first request has ended")
    assert not (tmp_path / "done").exists()
    starter.close()


def test_one_that_has_ended_before_it_is_asked_is_replaced_without_a_word() -> None:
    made: list[Starter] = []

    def begun() -> Starter:
        if not made:
            made.append(Starter(Spawner(), "host.starter", (None,)))
        return made[0]

    try:
        begun().answer()
        first = made[0].pid
        wait_until(lambda: len(family(first)) == 2, "a child waits for the first request")
        for one in family(first):
            os.kill(one, signal.SIGKILL)
        with open(os.devnull, "wb") as null:
            stdio = Stdio(-1, null.fileno(), null.fileno())
            pid = started(begun, lambda: made.pop().close(), launch("true"), stdio, MARK)
        assert os.waitpid(pid, 0)[1] == 0
        assert made[0].pid != first
    finally:
        made[0].close()


def test_waiting_ends_when_the_writer_is_gone() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        assert readable(reading, os.getpid(), 1.0)
    finally:
        os.close(reading)


def test_without_a_descriptor_nothing_is_started_and_nothing_ends(starter: Starter) -> None:
    starter.answer()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull, "wb") as null:
        stdio = Stdio(-1, null.fileno(), null.fileno())
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            with pytest.raises(LaunchFailed) as caught:
                started(lambda: starter, starter.close, launch("true"), stdio, MARK)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert caught.value.errno_name == "EMFILE"
    assert output(starter, launch("echo", "on")) == (b"on\n", 0)


def test_a_number_that_is_anothers_by_now_is_not_killed(starter: Starter) -> None:
    starter.answer()
    os.kill(starter.pid, signal.SIGKILL)
    os.waitpid(starter.pid, 0)  # as whoever reaps orphans does
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        starter.pid = sleeper.pid
        starter.close()
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
