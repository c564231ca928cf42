"""Control groups around sandboxes, for limits that the kernel has nowhere else.

The thread that starts a sandbox enters its group, starts it and goes back: what it starts is born in the
group. A thread that moves itself waits for nobody, which takes 0.1 ms in both directions; to move a process
takes 10 ms. In version 1 each controller has a tree of its own. In version 2 the groups are threaded: those
limit processes, and not memory. They are made only where the server's own group is its to divide: systemd has
delegated it, or it is the first one of a container.
"""

from __future__ import annotations

import os
import time

from ...log import warn
from ...record import record
from ...stdlib import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PIDS, MEMORY = "pids", "memory"
_NAME = "outfitter-sandbox-"
_FILES = {PIDS: "pids.max", MEMORY: "memory.limit_in_bytes"}
_MORE = {PIDS: 1, MEMORY: 0}  # bubblewrap's own process outside of the sandbox is in its group, too
# For a sandbox that is empty but for who is dying, which takes a few milliseconds. The next server tidies up.
_LOOKS, _LOOK_SECONDS = 20, 0.005
_DELEGATED = ("trusted.delegate", "user.delegate")  # set by systemd for Delegate=yes


@record
class Home:
    """The server's own group in one tree, below which those of sandboxes are."""

    path: str
    threaded: bool  # of version 2

    @property
    def threads(self) -> str:
        """The file of a group that its threads are written to."""
        return "cgroup.threads" if self.threaded else "tasks"


class Groups:
    """The groups of one server, with a number for each controller that is to limit. `why` says of the others
    why they cannot. `divides` is False where something else divides the groups of version 2."""

    def __init__(self, wanted: Mapping[str, int], *, divides: bool = True) -> None:
        self.homes: dict[str, Home] = {}
        self.why: dict[str, str] = {}
        self._wanted = wanted
        self._ended: set[int] = set()  # whose groups are to be removed
        for controller in wanted:
            try:
                home = self.homes[controller] = own_group(controller, divides=divides)
                _tidy(home)
                self._try(controller, home)
            except OSError as error:
                self.homes.pop(controller, None)
                named = f"{error.filename}: " if error.filename else ""
                self.why[controller] = f"{named}{error.strerror}"

    def _try(self, controller: str, home: Home) -> None:
        """Raises OSError if such a group cannot be made and entered. All is as before then."""
        group, control = _group(home, get_ident()), f"{home.path}/cgroup.subtree_control"
        divided = home.threaded and controller in read(control).split()
        try:
            self._make(controller, home, group)
            write(f"{group}/{home.threads}", "0")
            write(f"{home.path}/{home.threads}", "0")
        finally:
            _remove(group)
            if home.threaded and not divided:
                write(control, f"-{controller}")

    def _make(self, controller: str, home: Home, group: str) -> None:
        try:
            os.mkdir(group)
        except FileExistsError:
            pass
        if home.threaded:
            write(f"{group}/cgroup.type", "threaded")
            if controller not in read(f"{home.path}/cgroup.subtree_control").split():
                write(f"{home.path}/cgroup.subtree_control", f"+{controller}")
        write(f"{group}/{_FILES[controller]}", str(self._wanted[controller] + _MORE[controller]))

    def enter(self, mark: int) -> None:
        """This thread enters the group of a sandbox about to be started. Raises OSError, and it is back."""
        try:
            for controller, home in self.homes.items():
                group = _group(home, mark)
                self._make(controller, home, group)
                write(f"{group}/{home.threads}", "0")
        except BaseException:
            self.leave()
            self.ended(mark)
            raise

    def put(self, mark: int, pid: int) -> None:
        """Moves the first process of a sandbox to a group of its own, before it has children. Bubblewrap's
        process outside stays where it is, so there may be one more inside. Raises OSError."""
        for controller, home in self.homes.items():
            group = _group(home, mark)
            self._make(controller, home, group)
            write(f"{group}/cgroup.procs", str(pid))

    def leave(self) -> None:
        """Back to where the server is."""
        for home in self.homes.values():
            try:
                write(f"{home.path}/{home.threads}", "0")
            except OSError as error:
                warn("server", "the server stays in the control group of a sandbox: %s", error)

    def killed_for_memory(self, mark: int) -> bool:
        """Whether the kernel has killed something in the group of a sandbox for want of its memory."""
        home = self.homes.get(MEMORY)
        return home is not None and memory_kills(_group(home, mark)) > 0

    def close(self) -> None:
        """The server ends, and with it the last look: who is still dying is waited for, if not for long."""
        for _ in range(_LOOKS):
            self.ended()
            if not self._ended:
                break
            time.sleep(_LOOK_SECONDS)

    def ended(self, *marks: int) -> None:
        """Sandboxes have ended. A group in which somebody is still dying is removed at the next end."""
        self._ended.update(marks)
        for mark in list(self._ended):
            gone = [_remove(_group(home, mark)) for home in self.homes.values()]
            if all(gone):
                self._ended.discard(mark)


def memory_kills(group: str) -> int:
    """How many processes of a group the kernel has killed for want of memory; 0 where that is not counted."""
    for name in ("memory.events", "memory.oom_control"):  # of version 2, of version 1
        try:
            said = read(f"{group}/{name}").split()
            return int(said[said.index("oom_kill") + 1])
        except (OSError, ValueError, IndexError):
            continue
    return 0


def own_group(controller: str, *, divides: bool = True) -> Home:
    """Raises OSError, which says why no groups can be made below ours."""
    mounts = dict(_mounts(read("/proc/self/mountinfo")))
    for line in read("/proc/thread-self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Home(_below(mounts.get(controller), path), False)
    path = next((line[3:] for line in read("/proc/thread-self/cgroup").splitlines() if line[:3] == "0::"), "")
    home = _below(mounts.get(""), path)
    if controller == MEMORY:
        raise OSError(0, "version 2 limits the memory of a whole unit (MemoryMax=), not of one command")
    if controller not in read(f"{home}/cgroup.controllers").split():
        raise OSError(0, f"the control group {home} has no controller for {controller}")
    if not divides:
        raise OSError(0, "--cgroup divides the control groups of version 2 in another way")
    if path != "/" and not _delegated(home):
        raise OSError(0, f"the control group {home} is not the server's own (systemd: Delegate=yes)")
    return Home(home, True)


def _below(mount: tuple[str, str] | None, path: str) -> str:
    """Where a group is: a container's tree is often mounted from its own group on. Raises OSError."""
    if mount is None:
        raise OSError(0, "no control groups are mounted")
    root, place = mount
    rest = path.removeprefix(root.rstrip("/"))
    if path.startswith("/..") or (root != "/" and rest == path):
        raise OSError(0, "the server's own control group is not mounted")
    return f"{place}{rest}".rstrip("/")


def _mounts(table: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Controllers, each with the root and the place of its tree; that of version 2 has no name."""
    for line in reversed(table.splitlines()):  # what was mounted first counts
        fields, _, source = line.partition(" - ")
        kind, _, options = source.split()[:3]
        if kind in ("cgroup", "cgroup2"):
            where = (fields.split()[3], fields.split()[4])
            for name in options.split(",") if kind == "cgroup" else ("",):
                yield name, where


def _delegated(home: str) -> bool:
    for name in _DELEGATED:
        try:
            if os.getxattr(home, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _group(home: Home, mark: int) -> str:
    return f"{home.path}/{_NAME}{os.getpid()}-{mark}"


def _tidy(home: Home) -> None:
    """Removes empty groups of servers that were killed."""
    for name in os.listdir(home.path):
        server = name.removeprefix(_NAME).partition("-")[0]
        if name.startswith(_NAME) and not os.path.exists(f"/proc/{server}"):
            _remove(f"{home.path}/{name}")


def _remove(group: str) -> bool:
    """Whether it is gone."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def read(path: str) -> str:
    """Raises OSError."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Raises OSError, which names the file."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(fd)
