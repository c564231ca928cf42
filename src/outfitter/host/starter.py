"""The program that starts commands for a server which cannot start them itself: as another user, for one.

A command is the server's child, not ours (CLONE_PARENT): to wait for it, to signal it and to find its
descendants is as it always is. It becomes the other user after the fork and for good, so neither the server
nor this process ever is that user, and nothing of that user's can signal or trace either of them.

A request is a length and what `marshal` makes of a tuple; descriptors come along with the first byte. The
last of them is for the answer: the pid, then nothing more when the program has begun, or the number of what
went wrong. Without even a pid, nothing was started.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import marshal
import os
import resource
from array import array
from fcntl import F_DUPFD_CLOEXEC, fcntl

from ..stdlib import SIG_DFL, signal, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    Identity = tuple[int, int, Sequence[int]]  # uid, gid, all groups

_PARENT = 0x8000
_PR_SET_DUMPABLE = 4
_CLONE = {"x86_64": 56}  # the number of the call; the newer machines all have the same
_SIGPIPE, _SIGXFSZ, _SIGCHLD = 13, 25, 17
_RIGHTS, _SOL_SOCKET, _MSG_PEEK = 1, 1, 2
_MOST_FDS = 253  # that the kernel takes in one message; a sandbox has one for each place that can be written
HEADER = 8
LARGEST = 8 << 20  # arguments and environment together are at most 2 MiB, and some of it is quoted


class Calls:
    """The calls of the C library, which the standard library does not have."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self._number = _CLONE.get(os.uname().machine, 220)

    def protect(self) -> None:
        """No command can read our memory, through which the environments of others pass."""
        self.libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

    def fork_sibling(self) -> int:
        """As fork, but the child is a child of our parent. Negative is the number of what went wrong."""
        pid: int = self.libc.syscall(self._number, _PARENT | _SIGCHLD, 0, 0, 0, 0)
        return pid if pid >= 0 else -ctypes.get_errno()

    def check(self, result: int, what: str) -> None:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)


def main() -> None:
    """Starts commands as the user that the first message names, until the other end is closed."""
    from .keyring import leave_session

    server = socket(1, 1, 0, fileno=0)  # a stream
    (user,), _ = receive(server)
    leave_session()  # which is root's
    server.sendall(packed(("",)))
    serve(server, Calls(), user, ahead=True)


def is_asked(server: socket) -> bool:
    """Waits for a request; False when none will come."""
    try:
        return bool(server.recv(1, _MSG_PEEK))
    except ConnectionError:
        return False


def serve(
    server: socket,
    calls: Calls,
    user: Identity | None = None,
    *,
    ahead: bool = False,
    is_asked: Callable[[socket], bool] = is_asked,
) -> None:
    """Starts what it is asked for, as `user` or as who we are, until the other end is closed.

    With `ahead`, a child waits for the next request: one `true` takes 2.1 ms instead of 2.6. Only for who is
    another user than its commands: they could stop the child, and everything with it.
    """
    os.chdir("/")
    calls.protect()
    gc.collect()
    gc.freeze()  # a child shares what it does not touch
    wait = not ahead
    while not wait or is_asked(server):
        asking, asked = os.pipe2(os.O_CLOEXEC)
        pid = calls.fork_sibling()
        if pid == 0:
            _take(server, user, asked)
        os.close(asked)
        if pid > 0:
            ended = os.read(asking, 1)  # comes when the child has a request, or is gone
            if ended:
                return
            wait = not ahead
        elif wait:
            _refuse(server, -pid)
        else:
            wait = True  # there may be room when we are asked
        os.close(asking)


def _take(server: socket, user: Identity | None, asked: int) -> NoReturn:
    """Becomes the next command that the server asks for."""
    code, answer = errno.EINVAL, -1  # what Python itself refuses: a variable without a name, say
    try:
        _prepare(user)
        try:
            request, fds = receive(server)
        except (EOFError, ConnectionError):
            os.write(asked, b"-")
            os._exit(0)
        os.close(asked)
        # Above all places that descriptors go to.
        answer = fcntl(fds.pop(), F_DUPFD_CLOEXEC, 4 + len(fds))
        # Fails if nobody waits for it any more: then nothing is started.
        os.write(answer, os.getpid().to_bytes(4, "little"))
        _become(user, request, fds, answer)
    except OSError as error:
        code = error.errno or 1
    finally:
        try:
            os.write(answer, code.to_bytes(4, "little"))
        finally:
            os._exit(127)


def _refuse(server: socket, code: int) -> None:
    """Answers a request for which there is no child."""
    _, fds = receive(server)
    try:
        os.write(fds[-1], bytes(4) + code.to_bytes(4, "little"))
    except OSError:
        pass  # nobody waits for it any more
    for fd in fds:
        os.close(fd)


def _prepare(user: Identity | None) -> None:
    """What a child can do before it knows what it will be."""
    os.setsid()
    signal(_SIGPIPE, SIG_DFL)  # which Python ignores
    signal(_SIGXFSZ, SIG_DFL)
    if user is not None:
        _, gid, groups = user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)


def _become(user: Identity | None, request: tuple[Any, ...], fds: list[int], writing: int) -> None:
    """What a child does before it executes the program, in the order of `host.spawn`. Raises OSError."""
    program, argv, env, cwd, terminal, stdin, mark, group, files = request
    if mark is not None:
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, resource.getrlimit(resource.RLIMIT_RTTIME)[1]))
    if group:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    if user is not None:
        # For good, and before anything that depends on who we are. Not before we are asked: from now on that
        # user may signal us.
        uid = user[0]
        os.setresuid(uid, uid, uid)
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
