"""Processes of ours that start commands for this one (`starter`): how they are begun, asked and ended."""

from __future__ import annotations

import errno
import os
import select
from array import array

from ..core.launch import Launch
from ..errors import LaunchFailed
from ..stdlib import socket
from .pipes import let_go
from .spawn import Stdio, failure, find
from .starter import packed, receive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spawn import Spawner

_RIGHTS, _SOL_SOCKET, _AF_UNIX, _STREAM, _SHUT_WR = 1, 1, 1, 1, 1
_READY_SECONDS = 20.0  # it is a Python that starts; more is a machine that does not move
# From a fork to the program itself: a file on a network's disk takes its time. Then the child is killed.
_BEGIN_SECONDS = 10.0
# How often we look whether somebody has stopped who is to answer: a command of the same user can.
_LOOK_SECONDS = 0.1


class Starter:
    """One such process: `main` of a module of ours, which gets `first` and answers it before all else."""

    def __init__(
        self, spawner: Spawner, module: str, first: tuple[Any, ...], *, ourselves: bool = False
    ) -> None:
        """Begins it and does not wait for it. Raises LaunchFailed, OSError."""
        from .facts import own_program

        ours, theirs = _pair()
        try:
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            try:
                argv = own_program(module)
                launch = Launch(argv[0], argv, "/", spawner.for_ourselves)
                self.pid = spawner.spawn(launch, Stdio(theirs.fileno(), null, null), ourselves=ourselves)
            finally:
                let_go(null)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        self._pidfd = -1
        self._answered = False
        try:
            # If it ends, whoever reaps orphans may be the first to wait for it, and its number another's.
            self._pidfd = os.pidfd_open(self.pid)
            ours.sendall(packed(first))
        except BaseException:
            self.close()
            raise

    def answer(self) -> str:
        """What it says to `first`: empty if it can do its work, else why not. Raises EOFError, OSError."""
        if not readable(self._socket.fileno(), self.pid, _READY_SECONDS):
            raise EOFError
        (why,), _ = receive(self._socket)
        self._answered = True
        return str(why)

    def start(
        self,
        program: bytes,
        launch: Launch,
        stdio: Stdio,
        mark: int | None,
        *,
        group: str = "",
        files: tuple[int, int] | None = None,
    ) -> tuple[int, int]:
        """The pid of the command, and 0 or the number of what went wrong.

        Raises ConnectionError if it has ended and nothing was started, else EOFError, OSError.
        """
        if not self._answered:
            self.answer()
        request = packed(
            (
                program,
                [_bytes(word) for word in launch.argv],
                {_bytes(name): _bytes(value) for name, value in launch.env.items()},
                os.fsencode(launch.cwd),
                stdio.terminal,
                stdio.stdin >= 0,
                mark,
                group,
                files,
            )
        )
        standard = () if stdio.terminal else (stdio.stdin, stdio.stdout, stdio.stderr)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                rights = array("i", [*(fd for fd in standard if fd >= 0), *launch.descriptors, writing])
                sent = self._socket.sendmsg([request], [(_SOL_SOCKET, _RIGHTS, rights)])
                self._send_on(request[sent:])
            finally:
                let_go(writing)
            return self._begun(reading)
        finally:
            let_go(reading)

    def _send_on(self, rest: bytes) -> None:
        """What did not go at once. If it cannot, nobody would understand the next request."""
        try:
            if rest:
                self._socket.sendall(rest)
        except ConnectionError:
            raise
        except OSError:
            raise EOFError from None

    def _begun(self, answer: int) -> tuple[int, int]:
        if not readable(answer, self.pid, _READY_SECONDS):
            raise EOFError
        said = os.read(answer, 4)
        if not said:
            raise ConnectionResetError
        pid = int.from_bytes(said, "little")
        if readable(answer, pid, _BEGIN_SECONDS):
            failed = int.from_bytes(os.read(answer, 4), "little")
        else:
            os.kill(pid, 9)
            failed = errno.ECANCELED
        if failed and pid:
            try:
                os.waitpid(pid, 0)  # it is our child, and has said why it ends
            except ChildProcessError:
                pass
        return pid, failed

    def last_word(self) -> str:
        """What it says when nobody asks for more, before it ends. Raises EOFError, OSError."""
        self._socket.shutdown(_SHUT_WR)
        if not readable(self._socket.fileno(), self.pid, _READY_SECONDS):
            raise EOFError("it takes too long")
        (said,), _ = receive(self._socket)
        return str(said)

    def close(self) -> None:
        """It ends by itself when nobody asks any more; it is waited for, because it is our child."""
        from ..stdlib import pidfd_send_signal

        self._socket.close()
        try:
            if self._pidfd >= 0:
                pidfd_send_signal(self._pidfd, 9)
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except (ProcessLookupError, ChildProcessError, PermissionError):
            pass
        finally:
            if self._pidfd >= 0:
                let_go(self._pidfd)
                self._pidfd = -1


def started(
    starter: Callable[[], Starter],
    ended: Callable[[], None],
    launch: Launch,
    stdio: Stdio,
    mark: int | None,
    *,
    group: str = "",
    files: tuple[int, int] | None = None,
) -> int:
    """The pid of a command that the `starter` has started. It is asked for again after it has `ended`.

    Raises LaunchFailed.
    """
    if any("\0" in word for word in launch.argv):
        raise LaunchFailed("nul byte found in provided data")
    if any("\0" in name or "\0" in value for name, value in launch.env.items()):
        raise LaunchFailed("data provided contains a nul byte")
    for careful in (False, True):
        program = find(launch, careful=careful)
        for again in (False, True):
            try:
                pid, failed = starter().start(program, launch, stdio, mark, group=group, files=files)
                break
            except (EOFError, ConnectionError) as error:
                # Somebody killed it, or stopped it: what it reads now, it does not start any more.
                ended()
                if again or isinstance(error, EOFError):
                    raise LaunchFailed("the process that starts commands has ended; try again") from None
            except OSError as error:
                number = error.errno or 0
                raise LaunchFailed(
                    f"{os.strerror(number)} (os error {number})",
                    errno.errorcode.get(number),
                    "cannot ask the process that starts commands; the server may have reached its limit on "
                    "open files",
                ) from None
        # A folder of that name can be entered, which is all that was looked at. The next may be a file.
        if failed != errno.EACCES or "/" in launch.program:
            break
    if failed:
        raise failure(failed, launch, program)
    return pid


def readable(fd: int, pid: int, seconds: float) -> bool:
    """Waits for something to read; False when `pid`, which is to write it, is stopped or takes too long."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    for _ in range(round(seconds / _LOOK_SECONDS)):
        if waiting.poll(_LOOK_SECONDS * 1000):
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rpartition(b") ")[2][:1] in (b"T", b"t"):
                    return False
        except OSError:
            pass  # it is gone, and the end of what it wrote comes next
    return False


def _pair() -> tuple[socket, socket]:
    from ..stdlib import socketpair

    one, other = socketpair(_AF_UNIX, _STREAM, 0)
    return socket(fileno=one.detach()), socket(fileno=other.detach())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
