"""The end of a child, noticed by a thread: real children."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator

import pytest

from outfitter.host.portable.exits import kill_watched, reap_watched, waitpid, watch_exit
from tests.support.machine import SECOND


@pytest.fixture
def child() -> Iterator[int]:
    """Ends with status 3 when its input ends."""
    started = subprocess.Popen(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE)
    started.returncode = 0  # we wait for it
    assert started.stdin is not None
    _inputs[started.pid] = started.stdin.fileno()
    yield started.pid
    started.stdin.close()


_inputs: dict[int, int] = {}


def end(pid: int) -> None:
    os.write(_inputs[pid], b"\n")


def wait_readable(fd: int) -> None:
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    assert ready.poll(20 * SECOND * 1000)


def test_descriptor_can_be_read_when_the_child_has_ended(child: int) -> None:
    ending = watch_exit(child)
    assert waitpid(child, os.WNOHANG) == (0, 0)
    assert not reap_watched(child, ending)
    end(child)
    wait_readable(ending)
    ended, status = waitpid(child, os.WNOHANG)
    os.close(ending)
    assert (ended, os.waitstatus_to_exitcode(status)) == (child, 3)
    with pytest.raises(ChildProcessError):
        waitpid(child, os.WNOHANG)


def test_who_waits_gets_the_status(child: int) -> None:
    os.close(watch_exit(child))
    end(child)
    assert os.waitstatus_to_exitcode(waitpid(child, 0)[1]) == 3


def test_child_that_is_not_watched_is_waited_for_as_ever(child: int) -> None:
    end(child)
    assert os.waitstatus_to_exitcode(waitpid(child, 0)[1]) == 3


def test_watched_child_is_killed_and_one_that_has_ended_is_not(child: int) -> None:
    ending = watch_exit(child)
    kill_watched(child, ending)
    wait_readable(ending)
    kill_watched(child, ending)  # nobody: its number may be another's by now
    assert reap_watched(child, ending)
    assert reap_watched(child, ending)  # whoever has reaped it
    os.close(ending)
