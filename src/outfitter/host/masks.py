"""Commands for which startup files look empty, however deep down a shell is started.

A process of ours keeps a mount namespace for each set of files (`masking`), made with the first command that
needs it, and starts commands in it. It costs one idle process of about 8 MiB, and per command a fork and a
message: 1.2 ms more than a plain start (0.5 and 1.7 ms on a quiet machine).
"""

from __future__ import annotations

import errno
import os
from array import array

from ..core.launch import Launch
from ..errors import LaunchFailed, MasksUnavailable
from ..stdlib import socket
from .masking import packed, receive
from .spawn import Spawner, Stdio, failure, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Sets of files at a time: each user and each HOME has one, and a startup file that comes or goes makes a new
# one. The oldest ends when there are more; its commands go on.
_NAMESPACES = 4
_RIGHTS, _SOL_SOCKET, _AF_UNIX, _STREAM = 1, 1, 1, 1
_START_SECONDS = 20.0  # the helper is a Python that starts; more is a machine that does not move


class Masks:
    """The namespaces of one server."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._helpers: dict[tuple[str, ...], _Helper] = {}

    @property
    def pids(self) -> list[int]:
        """The processes that keep the namespaces."""
        return [helper.pid for helper in self._helpers.values()]

    def spawn(self, launch: Launch, stdio: Stdio, mark: int | None = None, group: str = "") -> int:
        """As `Spawner.spawn`, for a launch with masks. `group` is the control group that the child enters.

        Raises MasksUnavailable, LaunchFailed.
        """
        if [word for word in (*launch.argv, *launch.env.values()) if "\0" in word]:
            raise LaunchFailed("nul byte found in provided data")
        program = find(launch)
        pid, failed = self._start(program, launch, stdio, mark, group)
        if failed == errno.EACCES and "/" not in launch.program:
            program = find(launch, careful=True)
            pid, failed = self._start(program, launch, stdio, mark, group)
        if failed:
            raise failure(failed, launch, program)
        return pid

    def _start(
        self, program: bytes, launch: Launch, stdio: Stdio, mark: int | None, group: str
    ) -> tuple[int, int]:
        for last in (False, True):
            helper = self._helpers.get(launch.masks) or self._made(launch.masks)
            try:
                return helper.start(program, launch, stdio, mark, group)
            except (EOFError, OSError):
                # Somebody killed it; nothing was started, or it is gone as well.
                self._helpers.pop(launch.masks).close()
                if last:
                    raise LaunchFailed("the process that masks startup files has ended; try again") from None
        raise AssertionError("unreachable")

    def _made(self, masks: tuple[str, ...]) -> _Helper:
        while len(self._helpers) >= _NAMESPACES:
            self._helpers.pop(next(iter(self._helpers))).close()
        helper = self._helpers[masks] = _Helper(self._spawner, masks)
        return helper

    def close(self) -> None:
        for helper in self._helpers.values():
            helper.close()
        self._helpers.clear()


class _Helper:
    """One process that keeps a namespace. Raises MasksUnavailable."""

    def __init__(self, spawner: Spawner, masks: tuple[str, ...]) -> None:
        from .facts import own_program

        ours, theirs = _pair()
        try:
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            try:
                argv = own_program("host.masking")
                launch = Launch(argv[0], argv, "/", spawner.for_ourselves)
                self.pid = spawner.spawn(launch, Stdio(theirs.fileno(), null, null))
            finally:
                os.close(null)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        ours.settimeout(_START_SECONDS)
        try:
            ours.sendall(packed((list(masks),)))
            (why,), _ = receive(ours)
        except (EOFError, OSError) as error:
            self.close()
            raise MasksUnavailable(f"the process that masks them did not start: {error}") from None
        if why:
            self.close()
            raise MasksUnavailable(why)
        ours.settimeout(None)  # from now on it takes what it takes to start a program

    def start(
        self, program: bytes, launch: Launch, stdio: Stdio, mark: int | None, group: str
    ) -> tuple[int, int]:
        """Raises EOFError, OSError."""
        env = {name.encode("utf-8", "surrogateescape"): _bytes(value) for name, value in launch.env.items()}
        argv = [_bytes(word) for word in launch.argv]
        request = packed(
            (
                program,
                argv,
                env,
                os.fsencode(launch.cwd),
                stdio.terminal,
                stdio.stdin >= 0,
                mark,
                group,
            )
        )
        fds: list[int] = (
            [] if stdio.terminal else [fd for fd in (stdio.stdin, stdio.stdout, stdio.stderr) if fd >= 0]
        )
        rights = array("i", [*fds, *launch.descriptors])
        sent = self._socket.sendmsg([request], [(_SOL_SOCKET, _RIGHTS, rights)] if rights else [])
        if sent < len(request):
            self._socket.sendall(request[sent:])
        (pid, failed), _ = receive(self._socket)
        if failed and pid:
            os.waitpid(pid, 0)  # it is our child, and has said why it ends
        return pid, failed

    def close(self) -> None:
        """It ends by itself when nobody asks any more; it is waited for, because it is our child."""
        self._socket.close()
        try:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError, PermissionError):
            pass


def existing(paths: list[str], exists: Callable[[str], bool] = os.path.exists) -> tuple[str, ...]:
    """Those that there are: nothing can be put in the place of what is not there."""
    return tuple([path for path in paths if exists(path)])


def check(paths: tuple[str, ...]) -> None:
    """Raises MasksUnavailable if startup files cannot be masked here."""
    _Helper(Spawner(), paths).close()


def _pair() -> tuple[socket, socket]:
    from ..stdlib import socketpair

    one, other = socketpair(_AF_UNIX, _STREAM, 0)
    return socket(fileno=one.detach()), socket(fileno=other.detach())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
