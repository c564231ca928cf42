"""The program that starts commands in a mount namespace of its own, where startup files look empty.

It makes the namespace once, and then starts commands for a server that asks through its stdin. It has one
thread, which an ordinary user needs to enter a user namespace. A command is the server's child, not its own
(CLONE_PARENT): to wait for it, to signal it and to find its descendants is as it always is.

Messages are a length and what `marshal` makes of a tuple; descriptors come along with the first byte.
"""

from __future__ import annotations

import ctypes
import gc
import marshal
import os
import resource
from array import array
from fcntl import F_DUPFD_CLOEXEC, fcntl

from ..stdlib import SIG_DFL, signal, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NEWNS, _NEWUSER, _PARENT = 0x20000, 0x10000000, 0x8000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_MS_REC, _MS_SLAVE = 16384, 1 << 19
_MNT_DETACH = 2
_PR_SET_DUMPABLE = 4
_CLONE = {"x86_64": 56}  # the number of the call; the newer machines all have the same
_SIGPIPE, _SIGXFSZ, _SIGCHLD = 13, 25, 17
_RIGHTS, _SOL_SOCKET = 1, 1
_MOST_FDS = 16
HEADER = 8
LARGEST = 8 << 20  # arguments and environment together are at most 2 MiB, and some of it is quoted


class _Machine:
    """The calls of the C library, which the standard library does not have."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = _CLONE.get(os.uname().machine, 220)

    def unshare(self, flags: int) -> None:
        self._check(self._libc.unshare(flags), "unshare")

    def mount(self, source: str, target: str, kind: str, flags: int) -> None:
        words = [os.fsencode(word) for word in (source, target, kind)]
        self._check(self._libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")

    def unmount(self, target: str) -> None:
        self._check(self._libc.umount2(os.fsencode(target), _MNT_DETACH), "umount")

    def protect(self) -> None:
        """No command can read our memory, through which the environments of others pass."""
        self._libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

    def fork_sibling(self) -> int:
        """As fork, but the child is a child of our parent."""
        pid: int = self._libc.syscall(self._number, _PARENT | _SIGCHLD, 0, 0, 0, 0)
        if pid < 0:
            self._check(pid, "clone")
        return pid

    def _check(self, result: int, what: str) -> None:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)


def mask(paths: Sequence[str]) -> None:
    """Enters a namespace in which these files and folders look empty. Raises OSError."""
    machine = _Machine()
    uid, gid = os.geteuid(), os.getegid()
    try:
        machine.unshare(_NEWNS)
    except PermissionError:
        # Who is no administrator becomes one in a namespace of users, until it executes something.
        machine.unshare(_NEWUSER | _NEWNS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # What is mounted elsewhere from now on is seen here; what is mounted here is not seen elsewhere.
    machine.mount("none", "/", "", _MS_REC | _MS_SLAVE)
    here = _private_folder()
    try:
        machine.mount("none", here, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        folder, file_ = f"{here}/folder", f"{here}/file"
        os.mkdir(folder, 0o755)
        os.close(os.open(file_, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RDONLY
        machine.mount("none", here, "", _MS_REMOUNT | flags)  # who writes to one is told so
        for path in paths:
            try:
                machine.mount(folder if os.path.isdir(path) else file_, path, "", _MS_BIND)
            except FileNotFoundError:
                continue  # it went away meanwhile
        machine.unmount(here)
    finally:
        os.rmdir(here)


def _private_folder() -> str:
    """An empty folder of ours, to mount something on. Raises OSError."""
    name = f"outfitter-mask-{os.urandom(8).hex()}"
    for folder in ("/tmp", f"/run/user/{os.geteuid()}", "/dev/shm", "/var/tmp"):
        try:
            os.mkdir(f"{folder}/{name}", 0o700)
        except OSError:
            continue
        return f"{folder}/{name}"
    raise PermissionError(13, "cannot make a folder", "/tmp")


def main() -> None:
    """Serves until the other end is closed."""
    server = socket(1, 1, 0, fileno=0)  # a stream
    request, _ = receive(server)
    try:
        mask(request[0])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        server.sendall(packed((what,)))
        return
    server.sendall(packed(("",)))
    os.chdir("/")
    machine = _Machine()
    machine.protect()
    gc.collect()
    gc.freeze()  # a child shares what it does not touch
    while True:
        try:
            request, fds = receive(server)
        except (EOFError, ConnectionError):
            return
        server.sendall(packed(_start(machine, request, fds)))
        for fd in fds:
            os.close(fd)


def _start(machine: _Machine, request: tuple[Any, ...], fds: list[int]) -> tuple[int, int]:
    """The pid of the command, and 0 or the number of what went wrong."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        pid = machine.fork_sibling()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return 0, error.errno or 1
    if pid == 0:
        try:
            # Above all places that descriptors go to.
            writing = fcntl(writing, F_DUPFD_CLOEXEC, 4 + len(fds))
            _become(request, fds, writing)
        except OSError as error:
            os.write(writing, (error.errno or 1).to_bytes(4, "little"))
        finally:
            os._exit(127)
    os.close(writing)
    said = os.read(reading, 4)
    os.close(reading)
    return pid, int.from_bytes(said, "little")


def _become(request: tuple[Any, ...], fds: list[int], writing: int) -> None:
    """What a child does before it executes the program, in the order of `host.spawn`. Raises OSError."""
    program, argv, env, cwd, terminal, stdin, mark, group = request
    if group:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    os.setsid()
    signal(_SIGPIPE, SIG_DFL)  # which Python ignores
    signal(_SIGXFSZ, SIG_DFL)
    if mark is not None:
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, resource.getrlimit(resource.RLIMIT_RTTIME)[1]))
    # All above where they go to: none is overwritten before its turn.
    fds = [fcntl(fd, F_DUPFD_CLOEXEC, 4 + len(fds)) for fd in fds]
    if terminal:
        os.close(0)
        os.open(terminal, os.O_RDWR)  # the lowest one that is free, and the controlling terminal
        os.set_inheritable(0, True)
        standard = [0, 0, 0]
    else:
        if not stdin:
            fds.insert(0, os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        standard, fds = fds[:3], fds[3:]
    for place, fd in enumerate(standard):
        if fd != place:
            os.dup2(fd, place)
    for place, fd in enumerate(fds, 3):
        os.dup2(fd, place)
    os.closerange(3 + len(fds), writing)
    os.closerange(writing + 1, 1 << 20)
    os.chdir(cwd)
    os.execve(program, argv, env)


def packed(message: tuple[Any, ...]) -> bytes:
    data = marshal.dumps(message)
    return len(data).to_bytes(HEADER, "little") + data


def receive(sock: socket) -> tuple[tuple[Any, ...], list[int]]:
    """A message, and the descriptors that came with it. Raises EOFError, OSError."""
    numbers = array("i")
    data, ancillary, _, _ = sock.recvmsg(65536, 24 + _MOST_FDS * numbers.itemsize)
    for level, kind, content in ancillary:
        if level == _SOL_SOCKET and kind == _RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    fds = list(numbers)
    for fd in fds:
        os.set_inheritable(fd, False)
    if not data:
        raise EOFError
    size = HEADER + int.from_bytes(data[:HEADER], "little")
    if size > LARGEST:
        raise EOFError
    parts = [data]
    got = len(data)
    while got < size:
        more = sock.recv(min(size - got, 1 << 20))
        if not more:
            raise EOFError
        parts.append(more)
        got += len(more)
    return marshal.loads(b"".join(parts)[HEADER:size]), fds
