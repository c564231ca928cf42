"""The end of a child, noticed through a descriptor of the process, which is nobody else's when the number is.

`host.portable.exits` has the same functions for other systems.
"""

from __future__ import annotations

import os
from os import pidfd_open as watch_exit
from os import waitpid

__all__ = ["kill_watched", "reap_watched", "waitpid", "watch_exit"]


def kill_watched(pid: int, ending: int) -> None:
    """SIGKILL for a child, by the descriptor that `watch_exit` gave for it."""
    from ..stdlib import pidfd_send_signal

    try:
        pidfd_send_signal(ending, 9)
    except ProcessLookupError:
        pass


def reap_watched(pid: int, ending: int) -> bool:
    """Whether it has ended, whoever has reaped it."""
    try:
        return os.waitid(os.P_PIDFD, ending, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True  # as an orphan, or by the application around us
