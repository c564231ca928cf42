"""Attends a program until what it says settles the matter, it ends, or time is up."""

from __future__ import annotations

import select
import time

from ..pipes import let_go
from ..unix import watch_exit

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
    ending = watch_exit(pid)
    try:
        waiting = select.poll()
        for fd in (*hear, ending):
            waiting.register(fd, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            ready = {fd for fd, _ in waiting.poll(int(left * 1000) + 1)}
            for fd in ready - {ending}:
                if not hear[fd](fd):
                    waiting.unregister(fd)
            if ready and (what := settled()):
                return what
            if ending in ready:
                return "exited"
    finally:
        let_go(ending)
