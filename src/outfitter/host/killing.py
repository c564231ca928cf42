"""SIGKILL and its kin, for whoever may be gone already."""

from __future__ import annotations

import os


def kill(pid: int) -> None:
    """SIGKILL, unless the process is gone or another user's."""
    try:
        os.kill(pid, 9)
    except OSError:
        pass


def kill_group(group: int, number: int = 9) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass
