"""How much of the machine a sandbox may use: processes and memory.

An ordinary user's sandbox gets a limit on processes of its own: the kernel counts them for each namespace of
users. Root's are not limited that way, and memory only by a control group. To enter one takes the kernel 10
ms when nobody did so lately, so an operator asks for it (`--cgroup`). In any case a sandbox is the first to
go when memory is short.
"""

from __future__ import annotations

import os
import resource

from ...log import warn
from ...record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 2048  # see server.limits
_OOM_SCORE = 200  # of 1000: before what is not in a sandbox


@record
class Allowance:
    """What an operator allows one sandbox. None: as much as there is. `groups`: with control groups."""

    processes: int | None = PROCESSES
    memory: int | None = None  # bytes
    groups: bool = False
    loopback: bool = False  # may use addresses of its own, where it has no network
    ptrace: bool = False  # may trace its own processes


class Limits:
    """Sets limits on sandboxes before their commands run."""

    def __init__(self, settings: Allowance) -> None:
        self._settings = settings
        self._groups = Groups(settings) if settings.groups else None

    @property
    def needed(self) -> bool:
        """Whether a command must wait for its limits."""
        if os.geteuid() != 0 and self._settings.processes is not None:
            return True
        return self.groups

    def apply(self, pid: int, go: Callable[[], None]) -> None:
        """Limits the sandbox that begins with this process. Raises OSError, ValueError."""
        soften(pid)
        processes = self._settings.processes
        if processes is not None and os.geteuid() != 0:
            resource.prlimit(pid, resource.RLIMIT_NPROC, _at_most(pid, resource.RLIMIT_NPROC, processes))
        if self._groups is not None:
            self._groups.enter(pid)
        go()

    @property
    def groups(self) -> bool:
        """Whether something is to be done when a sandbox is empty."""
        return self._groups is not None and self._groups.usable

    def ended(self, pid: int) -> None:
        """A sandbox is empty."""
        if self._groups is not None:
            self._groups.leave(pid)


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


class Groups:
    """Control groups, one for each sandbox, below the server's own: those of version 1, each controller in
    its own tree, or of version 2 where the controllers were given to us (systemd: Delegate=yes)."""

    def __init__(self, settings: Allowance) -> None:
        wanted = {"pids": ("pids.max", settings.processes), "memory": ("memory.max", settings.memory)}
        self._homes: dict[str, list[tuple[str, str]]] = {}
        for controller, (name, value) in wanted.items():
            if value is None:
                continue
            home, first = _home(controller)
            if home:
                file = "memory.limit_in_bytes" if first and controller == "memory" else name
                self._homes.setdefault(home, []).append((file, str(value)))
        if settings.memory is not None and not any(
            file.startswith("memory") for files in self._homes.values() for file, _ in files
        ):
            warn("server", "sandboxes have no limit on memory: there is no control group for it")

    @property
    def usable(self) -> bool:
        return bool(self._homes)

    def enter(self, pid: int) -> None:
        """Raises OSError."""
        for home, files in self._homes.items():
            group = f"{home}/outfitter-sandbox-{os.getpid()}-{pid}"
            os.makedirs(group, exist_ok=True)
            for name, value in (*files, ("cgroup.procs", str(pid))):
                _write(f"{group}/{name}", value)

    def leave(self, pid: int) -> None:
        for home in self._homes:
            try:
                os.rmdir(f"{home}/outfitter-sandbox-{os.getpid()}-{pid}")
            except OSError:
                pass  # never made, or one inside is still dying


def _home(controller: str) -> tuple[str, bool]:
    """Where groups with a controller can be made, and whether in the first version; empty for nowhere."""
    mounts = _mounts()
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            if controller in names.split(","):
                home = f"{mounts.get(controller, '')}{path}".rstrip("/")
                return (home, True) if controller in mounts and os.access(home, os.W_OK) else ("", True)
            if not names and "" in mounts:
                home = f"{mounts['']}{path}".rstrip("/")
                given = f"{home}/cgroup.subtree_control"
                if os.access(home, os.W_OK) and controller in _read(given).split():
                    return home, False
    return "", False


def _mounts() -> dict[str, str]:
    """Where the trees of controllers are; that of version 2 has no name."""
    found: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, source = line.partition(" - ")
            kind, _, options = source.split()[:3]
            if kind == "cgroup2":
                found.setdefault("", fields.split()[4])
            elif kind == "cgroup":
                for name in options.split(","):
                    found.setdefault(name, fields.split()[4])
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
