"""Attends a program that reports through a pipe of its own, until that settles it, it ends, or time is up."""

from __future__ import annotations

import os
import select
import time
from math import ceil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def attend(
    pid: int,
    report: int,
    output: int,
    deadline: float,
    *,
    take: Callable[[], str],
    hear: Callable[[int], bool],
) -> str:
    """Returns "timeout", "exited", or what `take` says that settles it.

    `take` is called when there is something to read from `report`, and once more when the program has ended:
    what it wrote before that is in the pipe. `hear` reads its `output`, and is False at the end of that.
    """
    pidfd = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        for fd in (report, output, pidfd):
            waiting.register(fd, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            ready = {fd for fd, _ in waiting.poll(ceil(left * 1000))}
            if output in ready and not hear(output):
                waiting.unregister(output)
            if (report in ready or pidfd in ready) and (settled := take()):
                return settled
            if pidfd in ready:
                return "exited"
    finally:
        os.close(pidfd)
