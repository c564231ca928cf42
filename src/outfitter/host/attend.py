"""Attends a program until what it says settles the matter, it ends, or time is up."""

from __future__ import annotations

import os
import select
import time

from .pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def attend(
    pid: int, deadline: float, hear: Mapping[int, Callable[[int], bool]], settled: Callable[[], str]
) -> str:
    """Returns "timeout", "exited", or what `settled` says.

    `hear` has what reads each descriptor, and is False at its end. `settled` is asked whenever something was
    there to read, and once more when the program has ended: what it wrote before that is in the pipe.
    """
    pidfd = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        for fd in (*hear, pidfd):
            waiting.register(fd, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            ready = {fd for fd, _ in waiting.poll(int(left * 1000) + 1)}
            for fd in ready - {pidfd}:
                if not hear[fd](fd):
                    waiting.unregister(fd)
            if ready and (what := settled()):
                return what
            if pidfd in ready:
                return "exited"
    finally:
        let_go(pidfd)
