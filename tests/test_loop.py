"""The loop of `outfitter serve`: timers of any length, failures that stay with whoever failed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from outfitter.loop import EpollLoop
from tests.support.machine import SECOND


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    loop = EpollLoop()
    yield loop
    loop.close()


def fail() -> None:
    raise ValueError("a mistake in a callback")


FAR_AWAY = """
import os, sys, threading
from outfitter.loop import EpollLoop
reading, writing = os.pipe()
loop = EpollLoop()
loop.call_later(float(sys.argv[1]), print, "too early")
loop.add_reader(reading, loop.stop)
threading.Timer(0.1, os.write, (writing, b"x")).start()  # nothing else shortens the wait
loop.run()
"""


@pytest.mark.parametrize("seconds", ["3000000", "1e12", "inf"])
def test_timer_may_be_further_away_than_the_kernel_can_wait(seconds: str) -> None:
    # In a process of its own: a loop that spins would take the tests with it.
    done = subprocess.run(
        [sys.executable, "-c", FAR_AWAY, seconds], capture_output=True, timeout=5 * SECOND, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_timers_run_in_order_and_cancelled_ones_never(loop: EpollLoop) -> None:
    seen: list[str] = []
    loop.call_later(0.02 * SECOND, seen.append, "second")
    loop.call_later(0.01 * SECOND, seen.append, "first")
    loop.call_later(0.01 * SECOND, seen.append, "never").cancel()
    loop.call_later(0.03 * SECOND, loop.stop)
    loop.run()
    assert seen == ["first", "second"]


def test_failed_callback_takes_no_other_with_it(loop: EpollLoop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    loop.call_soon(seen.append, "before")
    loop.call_soon(fail)
    loop.call_soon(seen.append, "after")
    loop.call_later(0, fail)
    loop.call_later(0, seen.append, "timer")
    loop.call_later(0.02 * SECOND, loop.stop)
    loop.run()
    assert sorted(seen) == ["after", "before", "timer"]
    assert caplog.text.count("! a callback failed") == 2
