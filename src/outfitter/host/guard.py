"""Keeps the server's own environment and memory from the commands that it runs.

What the kernel can prevent is prevented here. Against commands of root it can prevent little: they can read
the memory of any process. Only another user for the commands (`--run-as`) helps then.
"""

from __future__ import annotations

import ctypes
import os

from ..system import LINUX

_PR_SET_DUMPABLE = 4
# Fields of /proc/self/stat behind the program's name: where the environment that we were started with lies.
_ENV_START, _ENV_END = 47, 48


def protect() -> None:
    """For a process that exists for the server alone.

    From now on, no process of the same user can read our memory, descriptors or environment, or trace us,
    and we leave no core dump. The environment that we were started with is wiped from where
    /proc/PID/environ shows it; what we need of it was copied before.
    """
    if not LINUX:
        return
    _wipe_environment()
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _wipe_environment() -> None:
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not 0 < start < end:
        return
    # The C library's variables still point there; afterwards they point to copies.
    for name, value in os.environb.items():
        os.putenv(name, value)
    ctypes.memset(start, 0, end - start)
