"""Whether a connection on this machine comes from inside of a sandbox.

A command that may use the host's network can reach the server as any program of its user can, and would be
let in without a token: it could have another command started, outside of its sandbox. So while such a command
runs, whoever calls without a token must be found, outside.
"""

from __future__ import annotations

import os

from ..descendants import below, pids

REFUSAL = (
    "a command with the host's network runs in a sandbox, and you may be that command: connect with a token "
    "(--ws-auth capability-token), or listen on a unix socket"
)


def is_outside(socket_number: int) -> bool:
    """Whether a process outside of every sandbox holds this socket, and none inside. A look at all processes:
    a socket that nobody is seen to hold may be on its way from one inside to another."""
    wanted, own = f"socket:[{socket_number}]", os.readlink("/proc/self/ns/pid")
    found = False
    for pid in pids():
        try:
            if not _holds(pid, wanted):
                continue
            if os.readlink(f"/proc/{pid}/ns/pid") != own:
                return False
        except OSError:
            continue  # gone, or another user's
        found = True
    return found


def is_below(socket_number: int) -> bool:
    """Whether a process that descends from this one holds this socket, and can be seen to: root alone sees
    those of others."""
    wanted = f"socket:[{socket_number}]"
    try:
        ours = below(os.getpid())
    except OSError:
        return False  # the kernel does not say
    for pid in ours:
        try:
            if _holds(pid, wanted):
                return True
        except OSError:
            continue  # gone, or another user's
    return False


def _holds(pid: int, wanted: str) -> bool:
    """Raises OSError."""
    return any(_link(f"/proc/{pid}/fd/{name}") == wanted for name in os.listdir(f"/proc/{pid}/fd"))


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
