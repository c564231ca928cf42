"""How much of the machine a server and all its commands may use together: memory, processors, processes.

The server enters a control group before it starts anything, so its commands are born there and none takes
longer to start. Where no group can be made, resource limits bound each process. Which of them it is, is said.
In any case commands go before the server when memory is short, and leave no core files.

    cgroup2   below the group that an operator has delegated (OUTFITTER_POOL_CGROUP), or below our own
    cgroup1   below our own group, in the tree of each controller
    rlimit    RLIMIT_DATA of each process, RLIMIT_NPROC of the user; processors are not limited
"""

from __future__ import annotations

import os
import resource

from ..earlyerrors import SettingInvalid
from ..record import record
from ..system import LINUX
from .sandbox.groups import memory_kills, own_group, read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CGROUP2, CGROUP1, RLIMIT = "cgroup2", "cgroup1", "rlimit"
DELEGATED = "OUTFITTER_POOL_CGROUP"
PROCESSES = 4096  # and threads: a build on 64 cores has a few hundred; a fork bomb stops before the machine
LEAST_MEMORY = 64 << 20  # the server is in the group, too, and takes 30 MB of it
FILE_BYTES = 64 << 30  # of one file: no test writes more, and a loop that prints would fill the disk
PERIOD_US = 100_000  # in which a group gets its time: the kernel's own default
LEAST_CPUS = 0.01  # the kernel gives at least 1 ms of a period
COMMANDS_FIRST = 1000  # oom_score_adj of commands: the most there is
_NAME = "outfitter-lease-"


@record
class ServerLimits:
    """What an operator allows. 0: as much as there is."""

    memory: int = 0  # bytes
    cpus: float = 0.0
    processes: int = PROCESSES
    required: bool = False  # refuse to serve where no control group can be made


def parse(text: str) -> ServerLimits:
    """`memory=4GiB,cpus=2,processes=4096,required`, each of them optional. Raises SettingInvalid."""
    found: dict[str, float] = {}
    required = False
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name == "required" and not value:
            required = True
        elif name == "memory":
            from ..core.shape import size

            found[name] = size("--limits memory", value)
        elif name in ("cpus", "processes"):
            try:
                found[name] = float(value)
            except ValueError:
                found[name] = -1.0
            if not 0 < found[name] < 1e6:
                raise SettingInvalid(f"--limits {name} takes a number above 0, not {value!r}")
        elif name:
            raise SettingInvalid(
                f"--limits takes memory=, cpus=, processes= and required, not {part.strip()!r}"
            )
    if 0 < found.get("memory", 0) < LEAST_MEMORY:
        raise SettingInvalid(
            f"--limits memory must be at least {LEAST_MEMORY >> 20}MiB: the server needs some"
        )
    return ServerLimits(
        int(found.get("memory", 0)), found.get("cpus", 0.0), int(found.get("processes", PROCESSES)), required
    )


def apply(wanted: ServerLimits, environ: Mapping[str, str] = os.environ) -> str:
    """Limits this process and all its descendants; returns by what. Raises SettingInvalid."""
    why = []
    for enter in (_enter_cgroup2, _enter_cgroup1):
        try:
            mechanism = enter(wanted, environ)
            break
        except OSError as error:
            why.append(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    else:
        if wanted.required:
            raise SettingInvalid(
                f"--limits required: no control group can be made ({'; '.join(filter(None, why))}); delegate "
                f"one and name it in {DELEGATED}, or leave `required` out"
            )
        _limit_resources(wanted)
        mechanism = RLIMIT
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    return mechanism


# Control groups


def version2(wanted: ServerLimits) -> dict[str, str]:
    """What is written to which file of a group, in this order."""
    found = {"pids.max": str(wanted.processes)}
    if wanted.memory:
        # One command that takes too much is ended, not all of them; and nothing is swapped, which would only
        # make everybody slow.
        found |= {"memory.max": str(wanted.memory), "memory.swap.max": "0", "memory.oom.group": "0"}
    if wanted.cpus:
        found["cpu.max"] = f"{_quota(wanted.cpus)} {PERIOD_US}"
    return found


def version1(wanted: ServerLimits) -> dict[str, dict[str, str]]:
    """The same for each controller."""
    found = {"pids": {"pids.max": str(wanted.processes)}}
    if wanted.memory:
        found["memory"] = {"memory.limit_in_bytes": str(wanted.memory)}
    if wanted.cpus:
        found["cpu"] = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(_quota(wanted.cpus))}
    return found


def _quota(cpus: float) -> int:
    return int(max(cpus, LEAST_CPUS) * PERIOD_US)


def _enter_cgroup2(wanted: ServerLimits, environ: Mapping[str, str]) -> str:
    """Raises OSError."""
    home = environ.get(DELEGATED) or _own_version2()
    files = version2(wanted)
    controllers = {name.partition(".")[0] for name in files}
    lacking = controllers - set(read(f"{home}/cgroup.controllers").split())
    if lacking:
        raise OSError(0, f"{home} has no controller for {', '.join(sorted(lacking))}")
    _tidy(home, os.getpid())
    shared = controllers - set(read(f"{home}/cgroup.subtree_control").split())
    if shared:  # fails where processes are in that group itself: then it is not ours to divide
        write(f"{home}/cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(shared)))
    group = f"{home}/{_NAME}{os.getpid()}"
    os.mkdir(group)
    try:
        for name, value in files.items():
            if name != "memory.swap.max" or os.path.exists(
                f"{group}/{name}"
            ):  # not where swap is not counted
                write(f"{group}/{name}", value)
        write(f"{group}/cgroup.procs", "0")
    except BaseException:
        os.rmdir(group)
        raise
    return CGROUP2


def _own_version2() -> str:
    from ..errors import HostUnsupported
    from .cgroup import own_group as own

    try:
        return own()
    except HostUnsupported as error:
        raise OSError(0, str(error)) from None


def _enter_cgroup1(wanted: ServerLimits, environ: Mapping[str, str]) -> str:
    """Raises OSError; then this process is where it was."""
    files = version1(wanted)
    homes = {}
    for controller in files:
        home = own_group(controller, divides=False)
        if home.threaded:
            raise OSError(0, f"{controller} has no control groups of version 1")
        homes[controller] = home.path
    made: list[str] = []
    try:
        for controller, home_path in homes.items():
            _tidy(home_path, os.getpid())
            group = f"{home_path}/{_NAME}{os.getpid()}"
            os.mkdir(group)
            made.append(group)
            for name, value in files[controller].items():
                write(f"{group}/{name}", value)
            _limit_swap(group, wanted)
            write(f"{group}/tasks", "0")
    except BaseException:
        for home_path, group in zip(homes.values(), made, strict=False):
            write(f"{home_path}/tasks", "0")
            os.rmdir(group)
        raise
    return CGROUP1


def _limit_swap(group: str, wanted: ServerLimits) -> None:
    path = f"{group}/memory.memsw.limit_in_bytes"
    if os.path.exists(path):  # not where swap is not counted
        write(path, str(wanted.memory))


def killed_for_memory(pid: int, homes: list[str] | None = None) -> bool:
    """Whether the kernel has killed a process in the group of a server for want of memory: of the group's, or
    of the machine's. To be asked before `tidy`."""
    return any(memory_kills(f"{home}/{_NAME}{pid}") for home in (_homes() if homes is None else homes))


class MemoryKills:
    """Whether the kernel has killed something in our own group for want of memory.

    The kernel counts them and does not say whom: two that are killed at the same time may be told as one.
    """

    def __init__(self, group: str | None = None) -> None:
        self._group = _own_memory_group() if group is None else group
        self._seen = memory_kills(self._group)

    def more(self) -> bool:
        """Since the last time."""
        before, self._seen = self._seen, memory_kills(self._group)
        return self._seen > before


def _own_memory_group() -> str:
    """The group that this process is in, of either version; empty if there is none."""
    try:
        return own_group("memory", divides=False).path
    except OSError:
        pass
    try:
        return _own_version2()
    except OSError:
        return ""


def tidy(pid: int = 0, homes: list[str] | None = None) -> None:
    """Removes the groups of servers that have ended. With `pid`, whose server it was: a group in which the
    kernel has killed another one for want of memory stays, as somebody is about to ask for that."""
    for home in _homes() if homes is None else homes:
        _tidy(home, pid)


def _homes() -> list[str]:
    """Below which groups of servers may be."""
    found = []
    for controller in ("pids", "memory", "cpu"):
        try:
            found.append(own_group(controller, divides=False).path)
        except OSError:
            continue
    if os.environ.get(DELEGATED):
        found.append(os.environ[DELEGATED])
    return found


def _tidy(home: str, pid: int) -> None:
    for name in os.listdir(home):
        if name.startswith(_NAME) and not os.path.exists(f"/proc/{name.removeprefix(_NAME)}"):
            if pid and name != f"{_NAME}{pid}" and memory_kills(f"{home}/{name}"):
                continue
            try:
                os.rmdir(f"{home}/{name}")
            except OSError:
                continue  # somebody is still dying in it; the next one looks again


# Resource limits


def _limit_resources(wanted: ServerLimits) -> None:
    if wanted.memory:
        # What a process can write to, not what it has reserved: some runtimes reserve more than there is.
        _lower(resource.RLIMIT_DATA, wanted.memory)
    if os.getuid() != 0 and LINUX:  # root has no such limit, and elsewhere nobody counts the processes
        # The kernel counts all processes of the user, wherever they are: so many more than there are now.
        there = int(read("/proc/loadavg").split()[3].partition("/")[2])
        _lower(resource.RLIMIT_NPROC, there + wanted.processes)


def _lower(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


class CommandsFirst:
    """Has commands be the first to go when memory is short: they are born while our own number is high."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self._own = os.pread(self._file, 16, 0).strip()
        try:
            os.pwrite(self._file, b"0", 0)  # what an engine has raised, we may most often lower again
            self._own = b"0"
        except OSError:
            pass

    def begin(self) -> None:
        os.pwrite(self._file, str(COMMANDS_FIRST).encode(), 0)

    def end(self) -> None:
        os.pwrite(self._file, self._own, 0)
