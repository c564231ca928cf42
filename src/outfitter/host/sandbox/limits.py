"""How much of the machine a sandbox may use: processes and memory.

An ordinary user's sandbox gets a limit on processes of its own: the kernel counts them for each namespace of
users. Root's are not limited that way, and memory only by a control group: `groups`, where one can be made.
In any case a sandbox is the first to go when memory is short.
"""

from __future__ import annotations

import os
import resource

from ...earlyerrors import SettingInvalid
from ...record import record
from .groups import MEMORY, PIDS, Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 2048  # see server.limits
_OOM_SCORE = 200  # of 1000: before what is not in a sandbox


@record
class Allowance:
    """What an operator says about sandboxes. None: as much as there is."""

    processes: int | None = PROCESSES
    memory: int | None = None  # bytes
    groups: bool = False  # whether control groups of version 2 are used for something else (--cgroup)
    loopback: bool = False  # may use addresses of its own, where it has no network
    ptrace: bool = False  # may trace its own processes
    program: str = ""  # where bubblewrap is, if not where it usually is
    landlock: bool = False  # may be confined by Landlock, where bubblewrap cannot be used
    protect: tuple[str, ...] = ()  # more names that stay read-only: `core.protecting`


class Limits:
    """Sets limits on sandboxes before their commands run."""

    def __init__(self, settings: Allowance) -> None:
        self._settings = settings
        self._made: Groups | None = None

    @property
    def groups(self) -> Groups:
        """Looked for with the first sandbox."""
        if self._made is None:
            settings = self._settings
            wanted = {PIDS: settings.processes if os.geteuid() == 0 else None, MEMORY: settings.memory}
            numbers = {name: value for name, value in wanted.items() if value is not None}
            self._made = Groups(numbers, divides=not settings.groups)
        return self._made

    def close(self) -> None:
        """The server ends."""
        if self._made is not None:
            self._made.close()

    @property
    def needed(self) -> bool:
        """Whether a command must wait for its limits."""
        return os.geteuid() != 0 and self._settings.processes is not None

    def apply(self, pid: int, go: Callable[[], None]) -> None:
        """Limits the sandbox that begins with this process. Raises OSError, ValueError."""
        self._set(pid)
        go()

    def apply_late(self, mark: int, pid: int) -> None:
        """The same for one that this thread does not start itself, and so is not born in a control group: to
        move it there takes 10 ms. Raises OSError, ValueError."""
        self._set(pid)
        self.groups.put(mark, pid)

    def _set(self, pid: int) -> None:
        soften(pid)
        processes = self._settings.processes
        if os.geteuid() != 0 and processes is not None:
            resource.prlimit(pid, resource.RLIMIT_NPROC, _at_most(pid, resource.RLIMIT_NPROC, processes))

    def told(self) -> list[str]:
        """What limits a sandbox here, and by what."""
        settings, groups = self._settings, self.groups
        processes = "processes are not limited"
        if settings.processes is not None:
            limit = f"at most {settings.processes} processes and threads, by"
            if os.geteuid() != 0:
                processes = f"{limit} RLIMIT_NPROC"
            elif PIDS in groups.homes:
                processes = f"{limit} control groups below {groups.homes[PIDS].path}"
            else:
                processes += f": only a control group limits root's ({groups.why[PIDS]})"
        memory = "memory is not limited (--sandbox-memory)"
        if settings.memory is not None and MEMORY in groups.homes:
            memory = f"at most {settings.memory} bytes of memory, by control groups below "
            memory += groups.homes[MEMORY].path
        return [processes, memory]


def check_memory(limit: int) -> None:
    """Raises SettingInvalid if the memory of sandboxes cannot be limited."""
    groups = Groups({MEMORY: limit})
    if MEMORY not in groups.homes:
        why = groups.why[MEMORY]
        raise SettingInvalid(f"--sandbox-memory needs a control group, and none can be made: {why}")


def soften(pid: int) -> None:
    """Without core files, and the first to go when memory is short. A failure changes nothing."""
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        with open(f"/proc/{pid}/oom_score_adj", "r+b", buffering=0) as file:
            own = int(file.read())
            if own < _OOM_SCORE:
                file.write(str(_OOM_SCORE).encode())
    except (OSError, ValueError):
        pass


def _at_most(pid: int, kind: int, wanted: int) -> tuple[int, int]:
    _, hard = resource.prlimit(pid, kind)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return limit, limit
