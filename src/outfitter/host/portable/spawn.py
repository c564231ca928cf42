"""Launch → a child in its own session, by the standard library's own start of programs.

It changes the directory in the child, closes what is not for it, and tells why a program could not be
started. The mark of `host.tree` is a variable of the child's environment, as there is no limit to carry it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import termios

from ...env.names import MARK
from ...errors import HostUnsupported, LaunchFailed
from .. import spawn
from ..pipes import Pipes, let_go
from .descendants import leads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...core.launch import Launch
    from ..spawn import Stdio

# What a server may open: macOS says that there is no limit and refuses more than this (OPEN_MAX).
_MOST_FILES = 10_240
# Which Python ignores itself; its own start of programs sets them back.
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)


class Spawner(spawn.Spawner):
    """Starts programs. One per server."""

    def __init__(self) -> None:
        self.pipes = Pipes()
        self.child_files: tuple[int, int] | None = None
        self.commands_first = None  # only Linux asks who is to go first when memory is short
        self.for_ourselves: Mapping[str, str] = {}
        self._ignored = [
            number
            for number in signal.valid_signals()
            if number not in _PYTHONS and signal.getsignal(number) == signal.SIG_IGN
        ]

    def raise_file_limit(self) -> None:
        """Lets this process, and its children with it, open as many files as it may."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft < most:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            except (OSError, ValueError):
                pass

    def _start(self, launch: Launch, stdio: Stdio, mark: int | None) -> int:
        if launch.descriptors:
            raise HostUnsupported("a program gets descriptors of ours on Linux only")
        if any("\0" in word for word in launch.argv):
            raise LaunchFailed("nul byte found in provided data")
        if any("\0" in name or "\0" in value for name, value in launch.env.items()):
            raise LaunchFailed("data provided contains a nul byte")
        program = spawn.find(launch)
        failed, pid = self._popen(program, launch, stdio, mark)
        if failed == errno.EACCES and "/" not in launch.program:
            # A folder of that name can be entered, which is all that was looked at. The next may be a file.
            program = spawn.find(launch, careful=True)
            failed, pid = self._popen(program, launch, stdio, mark)
        if failed:
            raise spawn.failure(failed, launch, program)
        return pid

    def _popen(self, program: bytes, launch: Launch, stdio: Stdio, mark: int | None) -> tuple[int, int]:
        """The errno, or 0 and the pid."""
        env = launch.env if mark is None else {**launch.env, MARK: str(mark)}
        terminal = -1
        try:
            if stdio.terminal:
                terminal = os.open(stdio.terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
                stdin = stdout = stderr = terminal
            else:
                stdin = subprocess.DEVNULL if stdio.stdin < 0 else stdio.stdin
                stdout, stderr = stdio.stdout, stdio.stderr
            started = subprocess.Popen(
                list(launch.argv),
                executable=program if b"/" in program else b"./" + program,
                cwd=launch.cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=self._in_child(controls=terminal >= 0),
            )
        except OSError as error:
            return error.errno or errno.EIO, 0
        except (ValueError, subprocess.SubprocessError) as error:
            raise LaunchFailed(str(error)) from None  # a variable's name that no system takes, say
        finally:
            let_go(terminal)
        if mark is not None:
            leads(started.pid, mark)
        started.returncode = 0  # it is ours to wait for: the object must not
        return 0, started.pid

    def _in_child(self, *, controls: bool) -> Callable[[], None] | None:
        """What a child has to do itself before it executes the program; most often nothing."""
        ignored = self._ignored
        if not controls and not ignored and not signal.pthread_sigmask(signal.SIG_BLOCK, ()):
            return None

        def prepare() -> None:
            for number in ignored:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if controls:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        return prepare
