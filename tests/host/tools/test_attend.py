"""A program that reports through a pipe: settled by its report, its end, or by time; and heard meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

from outfitter.host.tools.attend import attend
from tests.support.machine import SECOND


class Reporter:
    """A bash with a pipe for its output and one, 9, for its report."""

    def __init__(self, text: str) -> None:
        self.report, theirs = os.pipe()
        self.output, out = os.pipe()
        command = f"exec 9>&{theirs}; {text}"
        self.child = subprocess.Popen(["bash", "-c", command], stdout=out, pass_fds=(theirs,))
        os.close(theirs)
        os.close(out)
        self.taken = self.heard = b""
        for fd in (self.report, self.output):
            os.set_blocking(fd, False)

    def take(self) -> bytes:
        try:
            self.taken += os.read(self.report, 4096)
        except BlockingIOError:
            pass
        return self.taken

    def hear(self, fd: int) -> bool:
        data = os.read(fd, 4096)
        self.heard += data
        return data != b""

    def attend(self, seconds: float, settles: Callable[[bytes], str] = lambda taken: "") -> str:
        deadline = time.monotonic() + seconds
        try:
            hear = {self.report: lambda _: True, self.output: self.hear}
            return attend(self.child.pid, deadline, hear, lambda: settles(self.take()))
        finally:
            self.child.kill()
            self.child.wait()
            os.close(self.report)
            os.close(self.output)


def test_what_was_reported_before_the_end_is_taken() -> None:
    reporter = Reporter("echo said; echo reported >&9; exit 3")
    assert reporter.attend(30 * SECOND) == "exited"
    assert reporter.taken == b"reported\n"


def test_a_report_may_settle_it_while_the_program_runs_on() -> None:
    reporter = Reporter("echo done >&9; exec sleep 1000")
    assert reporter.attend(30 * SECOND, lambda taken: "settled" if taken == b"done\n" else "") == "settled"


def test_time_is_up_for_one_that_says_nothing() -> None:
    assert Reporter("exec sleep 1000").attend(0.01) == "timeout"


def test_an_output_that_is_closed_is_heard_to_its_end_and_not_looked_at_again() -> None:
    reporter = Reporter("echo said; exec >&-; echo late >&9; exec sleep 1000")
    assert reporter.attend(30 * SECOND, lambda taken: "settled" if b"late" in taken else "") == "settled"
    assert reporter.heard == b"said\n"
