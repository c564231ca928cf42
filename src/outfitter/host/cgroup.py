"""Control groups around commands, for programs that hide on purpose.

Nothing leaves a control group without permission to, so killing the group misses nobody: not a program
that removed its mark, not one whose server was killed. It costs two moves between groups per command
and a directory that this user may write (as root, or delegated by systemd), so an operator asks for it.

The layout: `outfitter-PREFIX/SESSION/PROCESS`, below the server's own group; PREFIX is unique.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, flock

from ..core.abilities import refusal
from ..core.marks import Marks
from ..errors import HostUnsupported, LaunchFailed
from ..log import warn
from ..system import LINUX
from .pipes import let_go


class Cgroups:
    """The groups of one server. Raises HostUnsupported where it may not make any."""

    def __init__(self, marks: Marks) -> None:
        if not LINUX:
            raise HostUnsupported(refusal("limits"))
        self._marks = marks
        self._home = own_group()
        self._tidy_after_others()
        self.claim()
        if not os.path.exists(f"{self.root}/cgroup.kill"):
            self.tidy()
            raise HostUnsupported("--cgroup needs cgroup.kill, which Linux 5.14 and later have")

    def claim(self) -> None:
        """Makes the group of these marks, or takes over what an earlier version has made, and holds it for as
        long as this process lives: others tidy up what nobody holds. Raises HostUnsupported."""
        self.root = f"{self._home}/outfitter-{self._marks.prefix}"
        try:
            os.makedirs(self.root, exist_ok=True)
            self._held = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise HostUnsupported(
                f"--cgroup: cannot create a control group in {self._home} ({error.strerror}); run as root, "
                "or in a systemd unit with Delegate=yes"
            ) from None
        flock(self._held, LOCK_EX)

    def _tidy_after_others(self) -> None:
        """Removes the empty groups of servers that were killed."""
        for name in os.listdir(self._home):
            if name.startswith("outfitter-") and not _is_held(f"{self._home}/{name}"):
                _remove_empty(f"{self._home}/{name}")

    def _path(self, mark: int) -> str:
        return f"{self.root}/{self._marks.session_of(mark)}/{mark}"

    def enter(self, mark: int) -> None:
        """Moves this process into the group of a command about to be started, which is born there.

        Moving the command afterwards would be too late: it may have forked. Raises LaunchFailed.
        """
        path = self.made(mark)
        try:
            _write(f"{path}/cgroup.procs", "0")
        except OSError as error:
            raise LaunchFailed(f"cannot enter the command's control group: {error.strerror}") from None

    def made(self, mark: int) -> str:
        """The group of a command, for a child that enters it by itself. Raises LaunchFailed."""
        path = self._path(mark)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise LaunchFailed(f"cannot create the command's control group: {error.strerror}") from None
        return path

    def leave(self) -> None:
        """Moves this process back."""
        _write(f"{self._home}/cgroup.procs", "0")

    def kill(self, mark: int) -> None:
        """SIGKILL for everything in the process's group."""
        _kill(self._path(mark))

    def kill_session(self, session: int) -> None:
        _kill(f"{self.root}/{session}")

    def kill_all(self) -> None:
        _kill(self.root)

    def let_go(self, mark: int) -> None:
        """The process closed: its group goes, unless something it left behind still lives in it."""
        try:
            os.rmdir(self._path(mark))
        except OSError:
            pass

    def tidy(self, session: int | None = None) -> None:
        """Removes the empty groups of a session, or all, which are not held any more then."""
        if session is not None:
            _remove_empty(f"{self.root}/{session}")
            return
        held, self._held = self._held, -1
        let_go(held)
        _remove_empty(self.root)


def _is_held(group: str) -> bool:
    """Whether the server that has made a group lives, or nobody can say."""
    try:
        fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _remove_empty(top: str) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            continue  # something lives in it, or is dying; the next end of a session tries again


def check() -> None:
    """Raises HostUnsupported when control groups cannot be made here."""
    Cgroups(Marks(os.getpid())).tidy()


def own_group() -> str:
    """The directory of this process's own version 2 group. Raises HostUnsupported."""
    mount = _mount_point()
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            if line.startswith("0::"):
                return os.path.normpath(f"{mount}/{line.strip()[3:]}")
    raise HostUnsupported("--cgroup: this process is not in a version 2 control group")


def _mount_point() -> str:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, source = line.partition(" - ")
            if source.startswith("cgroup2 "):
                return fields.split()[4]
    raise HostUnsupported("--cgroup: no version 2 control group file system is mounted")


def _kill(path: str) -> None:
    try:
        _write(f"{path}/cgroup.kill", "1")
    except FileNotFoundError:
        pass  # there is no such group (any more)
    except OSError as error:
        warn("server", "cannot end a control group, and rely on marks: %s", error.strerror)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
