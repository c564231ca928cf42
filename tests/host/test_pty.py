"""Terminals of children: control, size, foreground."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from outfitter.core.launch import Launch
from outfitter.host import pty
from outfitter.host.spawn import Stdio
from outfitter.host.unix import Spawner
from tests.support.machine import wait_until


class Terminal:
    """A shell command on a terminal of 24 rows and 80 columns; we hold the other end."""

    def __init__(self, script: str, shell: str = "/bin/sh") -> None:
        self.fd, theirs, name = pty.open_terminal(24, 80)
        self.name = name
        argv = [shell, "-c", script]
        launch = Launch(shell, argv, "/", {"PATH": "/usr/bin:/bin"}, rows=24, cols=80)
        self.pid = Spawner().spawn(launch, Stdio(terminal=name))
        os.close(theirs)
        self.text = b""
        self._status: int | None = None

    def until(self, text: bytes) -> None:
        while text not in self.text:
            self.text += os.read(self.fd, 4096)

    def rest(self) -> bytes:
        while True:
            try:
                self.text += os.read(self.fd, 4096)
            except OSError:  # EIO: nobody holds the other end
                return self.text

    def code(self) -> int:
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self._status)

    def close(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.code()
        os.close(self.fd)


@pytest.fixture
def opened() -> Iterator[list[Terminal]]:
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        terminal.close()


def test_terminal_is_the_controlling_one_on_all_three_descriptors(opened: list[Terminal]) -> None:
    terminal = Terminal("echo through >/dev/tty; tty; tty <&1; tty <&2; ps -o tpgid=,pid= -p $$")
    opened.append(terminal)
    lines = terminal.rest().decode().split("\r\n")
    assert lines[:4] == ["through", terminal.name, terminal.name, terminal.name]
    assert len(set(lines[4].split())) == 1  # the shell is the foreground group


def test_size_is_given_and_changed_with_a_signal(opened: list[Terminal]) -> None:
    script = "stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done"
    terminal = Terminal(script)
    opened.append(terminal)
    terminal.until(b"ready\r\n")
    pty.resize(terminal.fd, 33, 111)
    assert terminal.rest() == b"24 80\r\nready\r\n33 111\r\n"
    assert terminal.code() == 4


def test_modes_are_those_of_a_fresh_terminal(opened: list[Terminal]) -> None:
    terminal = Terminal("stty -a")
    opened.append(terminal)
    words = terminal.rest().decode().replace(";", " ").split()
    assert {"echo", "icanon", "isig", "onlcr"} <= set(words)


def test_foreground_is_the_job_that_has_the_terminal(opened: list[Terminal]) -> None:
    terminal = Terminal("set -m; sh -c 'echo job $$; exec sleep 60'; echo over", shell="/bin/bash")
    opened.append(terminal)
    terminal.until(b"\r\n")
    job = int(terminal.text.split()[1])
    wait_until(lambda: pty.foreground_group(terminal.fd) == job, "the job has the terminal")
    assert job != terminal.pid
    os.killpg(job, signal.SIGTERM)
    assert b"over\r\n" in terminal.rest()


def test_interrupt_character_reaches_the_foreground(opened: list[Terminal]) -> None:
    terminal = Terminal("trap 'exit 6' INT; echo ready; while :; do sleep 0.02; done")
    opened.append(terminal)
    terminal.until(b"ready\r\n")
    os.write(terminal.fd, b"\x03")
    terminal.rest()
    assert terminal.code() == 6


def test_nobody_is_in_the_foreground_of_a_descriptor_that_is_no_terminal() -> None:
    reading, writing = os.pipe()
    try:
        assert pty.foreground_group(reading) is None
    finally:
        os.close(reading)
        os.close(writing)
