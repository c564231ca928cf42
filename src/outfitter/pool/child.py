"""A server as the process that it is: how it is started, watched and killed, by itself or as a copy."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

from ..record import record
from ..system import LINUX

if TYPE_CHECKING:
    from collections.abc import Mapping


@record
class Start:
    """What a server is started with: the words of `outfitter`, and the descriptors of its three streams and
    those that it `holds`."""

    words: list[str]
    cwd: str
    environ: Mapping[str, str]
    streams: tuple[int, int, int]
    holds: tuple[int, ...]


class Child(Protocol):
    """A server that runs, or has ended."""

    @property
    def pid(self) -> int: ...

    def wait(self, seconds: float) -> int | None:
        """Its exit status, or minus the signal that ended it; None if it still runs when the time is up."""

    def kill(self) -> None: ...


class Spawned:
    """A server that is a child of this process, with an interpreter of its own. Raises OSError."""

    def __init__(self, start: Start) -> None:
        stdin, stdout, stderr = start.streams
        self._child = subprocess.Popen(
            [*own_words(start.holds), *start.words],
            pass_fds=start.holds,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=start.cwd,
            env=dict(start.environ),
            start_new_session=True,
        )
        self.pid = self._child.pid

    def wait(self, seconds: float) -> int | None:
        """By its descriptor where there is one, as `subprocess` looks only every 50 ms."""
        try:
            watched = os.pidfd_open(self.pid) if LINUX else -1
        except OSError:  # it is gone, or there are no descriptors
            watched = -1
        if watched >= 0:
            ended = ready(watched, seconds)
            os.close(watched)
            return self._child.wait() if ended else None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()


def own_words(given: tuple[int, ...] = ()) -> list[str]:
    """How this installation's `outfitter` is started by the same interpreter: with our paths, whatever an
    engine has put into the environment, and never with a module from the workspace. Descriptors that it is
    given are not given to its commands.

    A server has tidied up when `main` returns. The next lease waits for its end, and the interpreter's own
    takes 10 ms: it takes every module apart.
    """
    text = f"[os.set_inheritable(fd, False) for fd in {given!r}]; "
    text += "from outfitter.cli.main import main; status = main(); "
    return script(text + "sys.stdout.flush(); sys.stderr.flush(); os._exit(status)")


def script(text: str) -> list[str]:
    """How a few lines of Python are run with this installation."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    others = [path for path in sys.path if os.path.isabs(path) and path != package]
    # The directories of somebody's script come last: a file there must not take the place of a module.
    others.sort(key=lambda path: not path.startswith((sys.prefix, sys.base_prefix)))
    text = f"import os, sys; sys.path[:] = {[package, *others]!r}; {text}"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", text]


def ready(fd: int, seconds: float) -> bool:
    """Whether there is something to read within the time; unlike `select.select`, for any descriptor."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))
