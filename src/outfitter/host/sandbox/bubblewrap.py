"""Which bubblewrap this machine has, and whether it can do what a sandbox needs: found out once.

It is looked for in fixed places, never in a request's PATH: whatever is found runs outside of every sandbox.
"""

from __future__ import annotations

import os
import time
from stat import S_ISREG, S_ISUID

from ...core.abilities import refusal
from ...core.permissions import covers
from ...errors import SandboxUnavailable
from ...record import record
from ...stdlib import allocate_lock
from ...system import LINUX
from ..pipes import let_go
from . import seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .paths import Found

    Identity = tuple[int, int, int]

PLACES = (
    *("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"),
    "/run/current-system/sw/bin/bwrap",  # NixOS, which has nothing in the others
)
# What a sandbox is made with; all of them since 0.7.
_NEEDED = (
    "--args",
    "--seccomp",
    "--info-fd",
    "--block-fd",
    "--perms",
    "--size",
    "--remount-ro",
    "--clearenv",
)
INSTALL = "install bubblewrap 0.7 or newer (Debian, Ubuntu: apt-get install bubblewrap)"
_TEST_SECONDS = 10.0  # it takes 10 ms; more is a machine that does not move
_AGAIN_SECONDS = 5.0  # after a failure: somebody may have put it right


@record
class Bubblewrap:
    """A program that works here. `proc`: a sandbox can have its own view of its processes."""

    path: str
    identity: Identity
    argv0: bool = False
    bind_fd: bool = False
    proc: bool = True


class Finder:
    """Finds bubblewrap, once, for all threads. `place` is where an operator says that it is, in front of all
    others."""

    def __init__(self, place: str = "") -> None:
        self._places = (place, *PLACES) if place else PLACES
        self._found: Bubblewrap | None = None
        self._failed: tuple[float, str] | None = None
        self._looking = allocate_lock()
        self._filters: dict[tuple[str, bool, bool], bytes] = {}

    def find(self) -> Bubblewrap:
        """The program; looked at again if its file is another one now. Raises SandboxUnavailable."""
        if not LINUX:
            raise SandboxUnavailable(refusal("sandbox"))
        found = self._known()
        if found is not None:
            return found
        with self._looking:  # somebody else may look already: once is enough
            found = self._known()
            if found is not None:
                return found
            if self._failed is not None and time.monotonic() < self._failed[0]:
                raise SandboxUnavailable(self._failed[1])
            try:
                self._found, self._failed = self._looked(), None
            except SandboxUnavailable as error:
                self._found, self._failed = None, (time.monotonic() + _AGAIN_SECONDS, error.why)
                raise
            return self._found

    def learn(self, path: str, argv0: bool, bind_fd: bool, proc: bool) -> None:
        """Somebody else has tried it already. Which file it is, and whose, is looked at here."""
        if self._found is None and path in map(os.path.realpath, self._places):
            try:
                self._found = Bubblewrap(path, _checked(path), argv0, bind_fd, proc)
            except SandboxUnavailable:
                pass  # the first sandbox finds out

    def _known(self) -> Bubblewrap | None:
        found = self._found
        return found if found is not None and _identity(found.path) == found.identity else None

    def filter(self, variant: str, *, tracing: bool = False, alone: bool = False) -> bytes:
        """The filter of system calls. Raises SandboxUnavailable."""
        known = self._filters.get((variant, tracing, alone))
        if known is None:
            machine = os.uname().machine
            if not seccomp.known(machine):
                raise SandboxUnavailable(f"there is no filter of system calls for {machine}")
            known = seccomp.program(machine, variant, tracing=tracing, alone=alone)
            self._filters[variant, tracing, alone] = known
        return known

    def _looked(self) -> Bubblewrap:
        seen: set[str] = set()
        failure: SandboxUnavailable | None = None
        for place in self._places:
            if os.path.exists(place) and (path := os.path.realpath(place)) not in seen:
                seen.add(path)
                try:
                    return self._tried(path)
                except SandboxUnavailable as error:
                    failure = failure or error
        raise failure or SandboxUnavailable(f"bubblewrap is not installed: {INSTALL}")

    def _tried(self, path: str) -> Bubblewrap:
        identity = _checked(path)
        status, said = run([path, "--help"])
        options = set(said.split())
        lacking = [name for name in _NEEDED if name not in options]
        if status != 0 or lacking:
            what = ", ".join(lacking) or said.strip()[-200:]
            raise SandboxUnavailable(f"{path} is too old ({what}): {INSTALL}")
        found = Bubblewrap(path, identity, "--argv0" in options, "--bind-fd" in options)
        return found if self._works(found) else Bubblewrap(path, identity, found.argv0, found.bind_fd, False)

    def _works(self, found: Bubblewrap) -> bool:
        """Whether everything works, else all but a view of the sandbox's own processes.

        Raises SandboxUnavailable.
        """
        from .arguments import Layout, arguments
        from .nesting import around, why
        from .paths import Found

        said = ""
        for proc in (True, False):
            layout = Layout(Found(("/",)), "/", {}, files=True, isolated=True, proc=proc)
            held: list[int] = []
            try:
                held.append(memory("\0".join(arguments(layout)).encode()))
                held.append(memory(self.filter(seccomp.RESTRICTED)))
                argv = [found.path, "--args", "3", "--seccomp", "4", "--", "/bin/sh", "-c", "exit 7"]
                status, said = run(argv, held)
            finally:
                let_go(*held)
            if status == 7:
                return proc
        raise SandboxUnavailable(why(said, around()))


def check_outside(program: Bubblewrap, found: Found) -> None:
    """Raises SandboxUnavailable where a command could replace the program that confines the next one. Who may
    write everything may do that, too."""
    for one in found.writable:
        if one.target != "/" and covers(one.target, program.path):
            raise SandboxUnavailable(
                f"the command could replace {program.path}, which confines the next one: it is in "
                f"{one.target}, which may be written. Put it elsewhere (outfitter serve --sandbox-program)"
            )


def memory(data: bytes = b"") -> int:
    """A descriptor from which these bytes can be read. Raises OSError."""
    fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    try:
        fill(fd, data)
    except BaseException:
        let_go(fd)
        raise
    return fd


def fill(fd: int, data: bytes) -> None:
    """Writes from the beginning, which stays the place where others read. Raises OSError."""
    written = 0
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], written)


def run(argv: Sequence[str], descriptors: Sequence[int] = ()) -> tuple[int, str]:
    """Runs a program of ours to its end, without an environment: its exit code, and what it said."""
    from ...core.marks import Marks
    from ..tools.tool import run_tool
    from ..tree import new_nonce

    mark = Marks(new_nonce()).new(0)  # its own: nobody has to watch what ends with us
    ran = run_tool(argv, "/", {}, timeout=_TEST_SECONDS, mark=mark, descriptors=tuple(descriptors))
    said = (ran.stdout + ran.stderr).decode(errors="replace")
    return (-1 if ran.code is None else ran.code), ran.failure or said or ran.outcome


def _checked(path: str) -> Identity:
    """Raises SandboxUnavailable for a program that others could replace."""
    try:
        info = os.stat(path)
    except OSError as error:
        raise SandboxUnavailable(f"{path}: {error.strerror}; {INSTALL}") from None
    if not S_ISREG(info.st_mode):
        raise SandboxUnavailable(f"{path} is not a file: {INSTALL}")
    if info.st_uid not in (0, os.geteuid()):
        raise SandboxUnavailable(f"{path} belongs to another user, who could replace it: chown root {path}")
    if info.st_mode & 0o022:
        raise SandboxUnavailable(f"{path} can be written by others: chmod go-w {path}")
    if info.st_mode & S_ISUID and os.geteuid() != 0:
        raise SandboxUnavailable(
            f"{path} runs as root (setuid) and then ignores what a sandbox needs: chmod u-s {path}, and "
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        )
    return (info.st_dev, info.st_ino, info.st_mtime_ns)


def _identity(path: str) -> Identity | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino, info.st_mtime_ns)
