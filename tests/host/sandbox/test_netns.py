"""Sockets inside a real sandbox's namespace: reachable from inside, and from nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import LaunchFailed
from outfitter.host import facts
from outfitter.host.sandbox.netns import NetOpener
from outfitter.host.spawn import Spawner
from outfitter.loop import EpollLoop

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

PLACES = (("127.0.0.1", 3128), ("127.0.0.1", 1080), ("::1", 3128))
ROOT = Path(__file__).resolve().parents[3]
BWRAP = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
PYTHON = "/usr/bin/python3"  # which every user may run


@contextlib.contextmanager
def sandboxed(script: str) -> Iterator[tuple[int, subprocess.Popen[bytes], int]]:
    """A sandbox whose command waits: its first process, bubblewrap, and what lets it run when written to."""
    info, told = os.pipe()
    held, gate = os.pipe()
    popen = subprocess.Popen(
        [*BWRAP, "--info-fd", str(told), "--block-fd", str(held), "--", PYTHON, "-c", script],
        pass_fds=(told, held),
        stdout=subprocess.PIPE,
    )
    os.close(told)
    os.close(held)
    try:
        with os.fdopen(info, "rb") as file:
            pid = json.loads(file.read())["child-pid"]
        yield pid, popen, gate
    finally:
        os.close(gate)
        popen.send_signal(signal.SIGKILL)
        popen.communicate()


class Opener:
    """The helper, on a loop that runs until it has answered."""

    def __init__(self) -> None:
        self.loop = EpollLoop()
        self.opener = NetOpener(self.loop, Spawner())

    def open(self, pid: int, places: Sequence[tuple[str, int]]) -> list[tuple[Any, int]]:
        """Raises LaunchFailed."""
        answers: list[tuple[list[tuple[Any, int]], str]] = []
        self.opener.open(pid, places, lambda *answer: (answers.append(answer), self.loop.stop()))
        self.loop.run()
        [(opened, why)] = answers
        if why:
            raise LaunchFailed(why)
        return opened

    def close(self) -> None:
        self.opener.close()
        self.loop.close()


@pytest.fixture
def opener() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    opener.close()


CLIENT = """
import socket
for host in ("127.0.0.1", "::1"):
    with socket.create_connection((host, 3128), 20) as sock:
        print(sock.recv(100).decode())
"""


def test_sockets_are_inside_and_not_outside(opener: Opener) -> None:
    with sandboxed(CLIENT) as (pid, popen, gate):
        opened = opener.open(pid, PLACES)
        assert [port for _, port in opened] == [3128, 1080, 3128]
        os.write(gate, b"x")
        for raw, _ in (opened[0], opened[2]):
            listening = socket.socket(fileno=raw.detach())
            sock, _ = listening.accept()
            sock.sendall(b"hello")
            sock.close()
            listening.close()
        assert popen.stdout is not None
        assert popen.stdout.read() == b"hello\nhello\n"
        opened[1][0].close()


def test_a_helper_without_descriptors_answers(opener: Opener) -> None:
    with sandboxed("") as (pid, _, _):
        for raw, _ in opener.open(pid, PLACES[:1]):
            raw.close()
        # It has 0, 1 and 2 all its life; what it closes late, or has open above them, gives no room then.
        resource.prlimit(opener.opener.pid, resource.RLIMIT_NOFILE, (3, 3))
        with pytest.raises(LaunchFailed, match="namespace: Too many open files"):
            opener.open(pid, PLACES[1:2])  # the first port may not be free again yet


def test_each_sandbox_has_its_own_and_the_helper_is_kept(opener: Opener) -> None:
    with sandboxed("") as (first, _, _), sandboxed("") as (second, _, _):
        one = opener.open(first, PLACES)
        helper = opener.opener.pid
        two = opener.open(second, PLACES)
        assert opener.opener.pid == helper
        # Both have the same addresses: they are in different places.
        assert len({raw.fileno() for raw, _ in one + two}) == 6
        for raw, _ in one + two:
            raw.close()


def test_a_port_that_is_taken_is_refused(opener: Opener) -> None:
    with sandboxed("") as (pid, _, _):
        opened = opener.open(pid, PLACES[:1])
        with pytest.raises(LaunchFailed, match="Address already in use"):
            opener.open(pid, PLACES[:1])
        opened[0][0].close()


def test_the_hosts_own_network_is_refused(opener: Opener) -> None:
    with pytest.raises(LaunchFailed, match="network of the host"):
        opener.open(os.getpid(), PLACES)


def test_a_process_that_is_gone_is_refused(opener: Opener) -> None:
    popen = subprocess.Popen(["true"])
    popen.wait()
    with pytest.raises(LaunchFailed, match="no network namespace"):
        opener.open(popen.pid, PLACES)


@pytest.mark.parametrize("is_dead", [False, True], ids=["dying", "dead"])
def test_a_helper_that_was_killed_is_started_again(opener: Opener, is_dead: bool) -> None:
    with sandboxed("") as (pid, _, _):
        opener.open(pid, PLACES[:1])[0][0].close()
        first = opener.opener.pid
        os.kill(first, signal.SIGKILL)
        if is_dead:  # it can be asked no more, and its end is heard at the same time
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        opener.open(pid, PLACES[1:2])[0][0].close()
        assert opener.opener.pid != first


def test_who_waits_is_told_when_helpers_are_killed_again_and_again(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandboxed("") as (pid, _, _):
        monkeypatch.setattr(facts, "own_program", lambda module: ["/bin/true"])
        with pytest.raises(LaunchFailed, match="the process that opens them has ended"):
            opener.open(pid, PLACES)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_an_ordinary_user_opens_them_as_well() -> None:
    packages = [path for path in sys.path if path.endswith("-packages")]  # not our Python's own modules
    script = f"""
        import os, sys
        sys.path[:0] = {[str(ROOT), str(ROOT / "src"), *packages]!r}
        from tests.host.sandbox.test_netns import PLACES, Opener, sandboxed
        opener = Opener()
        with sandboxed("") as (pid, popen, gate):
            opened = opener.open(pid, PLACES)
            print(os.geteuid(), len(opened))
        opener.close()
    """
    ran = subprocess.run(
        [PYTHON, "-c", textwrap.dedent(script)],
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        check=False,
    )
    if "ImportError" in ran.stderr or "ModuleNotFoundError" in ran.stderr:
        pytest.skip("no Python for everybody that is new enough")
    assert (ran.stdout, ran.stderr) == ("65534 3\n", "")
