"""The outfitter command as a person or a script uses it: a scratch home, pipes, a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.contracts import allow
from tests.support.machine import SECOND, status, stop, wait_until
from tests.support.portable import unmarked
from tests.support.servers import Server, environment
from tests.support.tools import program

OUTFITTER = [sys.executable, "-m", "outfitter"]
SECONDS = 15 * SECOND  # for what must happen

Completed = subprocess.CompletedProcess[bytes]
Popen = subprocess.Popen[bytes]


class User:
    """One person's account: HOME, configuration and state in a folder of the test."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "config" / "outfitter"
        self.commands = home / "state" / "outfitter" / "commands"
        self._started: list[Popen] = []

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        folders = {
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
        }
        return environment(self.home, {**folders, **(extra or {})})

    def declare(self, text: str, folder: Path | None = None) -> Path:
        """Writes environments.toml."""
        path = (folder or self.config) / "environments.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def allow(self, folder: Path) -> None:
        """Allows the variables of a project's outfitter.toml, as `outfitter trust` does."""
        allow(folder, self.env())

    def records(self) -> list[Path]:
        return sorted(self.commands.glob("*")) if self.commands.is_dir() else []

    def run(self, *args: str, input: bytes | None = None, env: Mapping[str, str] | None = None) -> Completed:
        """A command line to its end, without our mark in what it printed; without `input` its standard input
        is /dev/null."""
        given = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        done = subprocess.run(
            [*OUTFITTER, *args],
            capture_output=True,
            cwd=self.home,
            env=self.env(env),
            timeout=2 * SECONDS,
            check=False,
            **given,  # type: ignore[arg-type]
        )
        done.stdout = unmarked(done.stdout)
        return done

    def start(
        self,
        *args: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        env: Mapping[str, str] | None = None,
        through: tuple[str, ...] = (),
    ) -> Popen:
        """A command line that goes on, ended by pid with the test; `through` are words in front of it."""
        popen = subprocess.Popen(
            [*through, *OUTFITTER, *args],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,  # a line read takes nothing of the next
            cwd=self.home,
            env=self.env(env),
        )
        self._started.append(popen)
        return popen

    def close(self) -> None:
        for popen in self._started:
            popen.kill()
            popen.wait()
            for stream in (popen.stdin, popen.stdout, popen.stderr):
                if stream is not None:
                    stream.close()


def read_line(popen: Popen) -> bytes:
    assert popen.stdout is not None
    return popen.stdout.readline()


def read_rest(popen: Popen) -> tuple[int, bytes, bytes]:
    """Exit status, and what is left of its output and of its standard error."""
    stdout, stderr = popen.communicate(timeout=SECONDS)
    return popen.returncode, stdout, stderr


class Terminal:
    """A terminal with somebody in front of it, who sees what is shown and types."""

    def __init__(self, rows: int = 24, cols: int = 80) -> None:
        self._ours, self.theirs = pty.openpty()
        self.shown = b""
        self.resize(rows, cols)

    def start(self, user: User, *args: str, env: Mapping[str, str] | None = None) -> Popen:
        """A command line on this terminal, which is its controlling one: Ctrl-C and resizing reach it."""
        return user.start(
            *args,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={"TERM": "xterm-256color", **(env or {})},
            through=(program("setsid"), "--ctty"),
        )

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, rows: int, cols: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, cols))

    def until(self, text: bytes, seconds: float = SECONDS) -> None:
        """Returns when `text` has been shown, in what was not asked for before."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert self._look(deadline), f"{text!r} was not shown in {seconds} s, but {self.shown[-500:]!r}"
        self.shown = self.shown.partition(text)[2]

    def sees(self, text: bytes, seconds: float) -> bool:
        """Whether `text` is shown by then."""
        deadline = time.monotonic() + seconds
        while text not in self.shown and self._look(deadline):
            pass
        return text in self.shown

    def rest(self, popen: Popen) -> tuple[int, bytes]:
        """The exit status, and all that was shown since, once it has ended."""
        deadline = time.monotonic() + SECONDS
        while popen.poll() is None:
            assert time.monotonic() < deadline, f"it did not end; there was {self.shown[-500:]!r}"
            self._look(time.monotonic() + 0.01)
        while self._look(0):
            pass
        return popen.returncode, self.shown

    def _look(self, deadline: float) -> bool:
        """Takes in what is shown; False when nothing more was, before the deadline."""
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._ours], [], [], left)[0]:
            return False
        self.shown += os.read(self._ours, 65536)
        return True

    @property
    def is_raw(self) -> bool:
        """Whether keys go through at once and are not echoed."""
        flags = termios.tcgetattr(self.theirs)[3]
        return not flags & (termios.ICANON | termios.ECHO | termios.ISIG)

    @property
    def mode(self) -> list[Any]:
        return termios.tcgetattr(self.theirs)

    @mode.setter
    def mode(self, mode: list[Any]) -> None:
        termios.tcsetattr(self.theirs, termios.TCSANOW, mode)

    def close(self) -> None:
        """Hangs up."""
        for fd in (self._ours, self.theirs):
            with contextlib.suppress(OSError):  # closed by the test
                os.close(fd)


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server is there, but does not answer."""
    stop(server.pid)
    try:
        wait_until(lambda: status(server.pid).get("State", "")[:1] == "T", "the server has stopped")
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
