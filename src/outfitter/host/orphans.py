"""Descendants whose parents have died: adopted, reaped, and found at the server's end whatever they did.

As a child subreaper the server becomes the parent of every descendant that is left alone, so that the
whole tree stays below it: at its end, nothing is missed, not even a program that removed its mark. For a
server of its own only: an application that embeds one keeps its children to itself.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

_PR_SET_CHILD_SUBREAPER = 36
# Dead orphans cost a slot in the process table until then.
_SWEEP_SECONDS = 5.0
_ROUNDS = 32  # as in host.tree


class Orphans:
    """Adopts orphans from now on; `is_ours` tells pids that somebody else waits for."""

    def __init__(self, loop: Loop, is_ours: Callable[[int], bool]) -> None:
        self._loop = loop
        self._is_ours = is_ours
        prctl = ctypes.CDLL(None).prctl
        self.adopting = prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        if self.adopting or os.getpid() == 1:
            loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Reaps the orphans that have died."""
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                # One that is waited for elsewhere hides those behind it until the next sweep.
                if found is None or self._is_ours(found.si_pid):
                    return
                os.waitpid(found.si_pid, os.WNOHANG)
            except OSError:
                return  # no child at all, most often

    def kill_all(self, spare: int) -> bool:
        """SIGKILL for everything below this process but `spare`, until a look finds nothing new.

        False when it could not look.
        """
        killed: set[int] = {spare}
        for _ in range(_ROUNDS):
            try:
                fresh = below(os.getpid()) - killed
            except OSError:
                return False
            if not fresh:
                return True
            for pid in fresh:
                kill(pid)
            killed |= fresh
        return False


def pids() -> list[int]:
    """Every process that can be seen. Raises OSError."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def kill(pid: int) -> None:
    """SIGKILL, unless the process is gone or another user's."""
    try:
        os.kill(pid, 9)
    except OSError:
        pass


def below(ancestor: int) -> set[int]:
    """All descendants of a process, by parentage. Raises OSError."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int((file.read() or b"").rpartition(b") ")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        except IndexError:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None  # the kernel said nothing
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found.add(pid)
                pending.append(pid)
    return found
