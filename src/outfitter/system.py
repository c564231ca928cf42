"""Which kind of Unix this is: the only module that asks.

Linux has calls of its own that are faster or stronger than what POSIX offers. Where one of them is missing,
everything goes the portable way: half a Linux is tested by nobody. `host.unix` chooses between the modules of
both kinds, and `core.abilities` says what each ability is worth on either.
"""

from __future__ import annotations

import os
import select
import sys

# By what is there rather than by the name alone: an interpreter that was built without them is like a Mac's.
LINUX = sys.platform == "linux" and hasattr(os, "pidfd_open") and hasattr(select, "epoll")
# The name that programs know the system by: of binaries in setups, and of what clients are told.
PLATFORM = sys.platform
MAC = sys.platform == "darwin"
# The same as the reference spells it.
PLATFORM_OS = "macos" if MAC else PLATFORM.rstrip("0123456789")
# Read what is in memory, or say so; 0 where a read cannot be told.
READ_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)


def account_home() -> str:
    """The home that the account database has for this process's user, for where HOME is not set, as in many
    services. Empty if it has none."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
