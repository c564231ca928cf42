"""Another user for what a server of root does for its clients: `--run-as`.

The server's real and saved user stay root, at every moment: the kernel looks at those when somebody wants to
signal or trace it. What it does, it does as the other user: not only with files, because settings of the
kernel (/proc/sys) ask for the effective user. Each thread inherits that from the one that starts it. Children
are the other user altogether: a process of root's (`starter`) starts them. The C library would change all
threads at once, so the kernel is asked directly.
"""

from __future__ import annotations

import ctypes
import os

from ..core.abilities import refusal
from ..earlyerrors import SettingInvalid
from ..errors import HostUnsupported, LaunchFailed
from ..log import warn
from ..record import record
from ..stdlib import allocate_lock
from ..system import LINUX
from .facts import working_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.launch import Launch
    from .spawn import Spawner, Stdio
    from .starters import Starter

# System calls by architecture: setresgid, setresuid, setfsgid, setfsuid, capset, capget.
_CALLS = {
    "x86_64": (119, 117, 123, 122, 126, 125),
    "aarch64": (149, 147, 152, 151, 91, 90),
    "riscv64": (149, 147, 152, 151, 91, 90),
}
# What the server goes on to need of root's rights: to end processes, to become the other user, and to set
# the limits of children.
_KILL, _SETGID, _SETUID, _SYS_RESOURCE = 5, 6, 7, 24
_KEPT = 1 << _KILL | 1 << _SETGID | 1 << _SETUID | 1 << _SYS_RESOURCE
_CAPABILITY_VERSION = 0x20080522
# What a shell of root has of root's own; the other user's programs would look for their files there.
_ROOTS_OWN = (
    "MAIL",
    "OLDPWD",
    "PWD",
    "SUDO_COMMAND",
    "SUDO_GID",
    "SUDO_HOME",
    "SUDO_UID",
    "SUDO_USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
)


@record
class User:
    """A user of this machine, with all groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Root's environment as this user's: with its own home and names, without what leads to root's."""
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}
        return {name: value for name, value in environ.items() if name not in _ROOTS_OWN} | own


def look_up(name: str) -> User:
    """The user of this name or number. Raises SettingInvalid."""
    from pwd import getpwnam, getpwuid

    try:
        entry = getpwuid(int(name)) if name.isascii() and name.isdigit() else getpwnam(name)
    except (KeyError, ValueError, OverflowError):
        raise SettingInvalid(f"--run-as {name}: this machine has no such user") from None
    if entry.pw_uid == 0:
        raise SettingInvalid("--run-as root has no effect: leave it out, or name another user")
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    shell = entry.pw_shell or "/bin/sh"
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(groups), entry.pw_dir, shell)


def assume(user: User, environ: Mapping[str, str]) -> Assumed:
    """From now on this process serves as that user; before it has threads. It was started with `environ`.

    Raises SettingInvalid, HostUnsupported.
    """
    from . import spawn, uids

    assumed = Assumed(user, environ)
    for file in (os.__file__, __file__):
        # Modules are imported later, and helpers of ours are programs of the other user.
        if not os.path.exists(file):
            folder = os.path.dirname(file)
            raise SettingInvalid(
                f"--run-as {user.name}: this user cannot read {folder}; install Outfitter and its Python "
                "where every user can read them, such as /opt"
            )
    if not os.path.exists("."):  # the directory that we were started in may be root's own
        os.chdir(user.home if os.path.isdir(user.home) else "/")
    spawn.assumed = assumed
    uids.assumed = user.uid
    access = os.access
    # By itself it asks about the real user, which is still root.
    os.access = lambda *args, **more: access(*args, **{"effective_ids": True, **more})
    return assumed


class Assumed:
    """The other user, as this process assumes it."""

    def __init__(self, user: User, environ: Mapping[str, str]) -> None:
        """Acts as that user; before there are other threads. Raises SettingInvalid, HostUnsupported."""
        if not LINUX:
            raise HostUnsupported(refusal("run-as"))
        if os.geteuid() != 0:
            raise SettingInvalid("--run-as needs a server that is started by root")
        machine = os.uname().machine
        if machine not in _CALLS:
            raise HostUnsupported(f"--run-as is not supported on {machine}")
        self.user = user
        self.environ = environ  # what root has started this process with, for its next version
        self.folder = working_directory() or "/"  # and where
        self._calls = _CALLS[machine]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._starting = allocate_lock()  # for the starter: threads start tools
        self._starter: Starter | None = None
        os.setgroups(user.groups)
        self._keep_rights()
        self.act_as(user.uid, user.gid)

    def prepare(self, spawner: Spawner) -> None:
        """Begins the process that starts children, so that no command has to wait for it."""
        with self._starting:
            try:
                self._begun(spawner)
            except (LaunchFailed, OSError) as error:
                warn("server", "no commands can be started yet; the next one tries again: %s", error)

    def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, mark: int | None) -> int:
        """Starts a child that is the other user. Raises LaunchFailed."""
        from .starters import started

        with self._starting:
            return started(
                lambda: self._starter or self._begun(spawner),
                self._ended,
                launch,
                stdio,
                mark,
                files=spawner.child_files,
            )

    def _begun(self, spawner: Spawner) -> Starter:
        from .starters import Starter

        user = (self.user.uid, self.user.gid, self.user.groups)
        self._starter = Starter(spawner, "host.starter", (user,), ourselves=True)
        return self._starter

    def _ended(self) -> None:
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.close()

    def close(self) -> None:
        """Ends the process that starts children."""
        with self._starting:
            self._ended()

    def ourselves(self) -> _Meanwhile:
        """This thread is root altogether for a moment: to start a child that no command can signal, or
        the next version of ourselves."""
        return _Meanwhile(self, self.act_as)

    def as_started(self) -> _AsStarted:
        """This process is what it was when it was started: to be replaced by another program."""
        return _AsStarted(self, self.act_as)

    def as_root(self) -> _Meanwhile:
        """For this thread, files are root's own for a moment: to read a token again, say."""
        return _Meanwhile(self, self.files)

    def act_as(self, uid: int, gid: int) -> None:
        """This thread acts as that user, and stays root's: its rights stay what they are."""
        setresgid, setresuid, *_ = self._calls
        self._call(setresgid, 0, gid, 0)
        self._call(setresuid, 0, uid, 0)
        self._keep_rights()  # the kernel takes them away from who acts as root no more

    def files(self, uid: int, gid: int) -> None:
        _, _, setfsgid, setfsuid, *_ = self._calls
        # These give the identity before; whether they worked is seen by asking again, with one that is none.
        for call, ident in ((setfsgid, gid), (setfsuid, uid)):
            self._syscall(call, ident)
            if self._syscall(call, -1) != ident:
                raise HostUnsupported("--run-as: the kernel refused the other user's identity for files")

    def _keep_rights(self) -> None:
        """Keeps of root's rights only what the server needs: one of them reads the memory of others."""
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        # Effective, permitted and inherited rights, and the upper halves of all three.
        rights = (ctypes.c_uint32 * 6)()
        *_, capset, capget = self._calls
        self._call(capget, header, rights)
        kept = rights[1] & _KEPT
        self._call(capset, header, (ctypes.c_uint32 * 6)(kept, kept))

    def _call(self, number: int, *args: object) -> None:
        if self._syscall(number, *args) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


class _Meanwhile:
    """For the time of a block, root in place of the other user."""

    def __init__(self, assumed: Assumed, become: Callable[[int, int], None]) -> None:
        self._assumed = assumed
        self._become = become

    def __enter__(self) -> None:
        self._become(0, 0)

    def __exit__(self, *_: object) -> None:
        user = self._assumed.user
        self._become(user.uid, user.gid)


class _AsStarted(_Meanwhile):
    """The same, in the folder that this process was started in."""

    def __enter__(self) -> None:
        self._here = working_directory() or "/"
        super().__enter__()
        os.chdir(self._assumed.folder)

    def __exit__(self, *_: object) -> None:
        os.chdir(self._here)
        super().__exit__()
