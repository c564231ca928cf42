"""Walks of large trees, in processes of their own: the same answers, whatever becomes of the process."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.host.unix import waitpid
from outfitter.protocol.filesystem import WalkParams
from outfitter.server.walking import Walkers
from tests.support.machine import PROC, children, command, wait_gone, wait_until
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire

LIMITS = {"maxDepth": 64, "maxDirectories": 10_000, "maxEntries": 50_000, "followDirectorySymlinks": False}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "home").mkdir()
    with serving("outfitter", tmp_path / "home") as server:
        yield server


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than a thread is asked to walk."""
    root = tmp_path_factory.mktemp("tree")
    for folder in range(30):
        (root / f"d{folder:02}").mkdir()
        for number in range(100):
            (root / f"d{folder:02}" / f"f ü {number:02}").touch()
    return root


def asked(root: Path, **limits: object) -> Message:
    return {"path": root.as_uri(), "options": {**LIMITS, **limits}}


def expected(root: Path) -> Message:
    folders = sorted(root.iterdir())
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    entries = [{"path": path.as_uri(), "kind": "directory"} for path in folders]
    entries += [{"path": path.as_uri(), "kind": "file"} for path in files]
    return {"entries": entries, "errors": [], "truncated": False}


def walkers(server: Server) -> list[int]:
    return [pid for pid in children(server.pid) if "server.walker" in command(pid)]


def unread(pid: int) -> int:
    """Bytes of requests that a walker has not taken yet."""
    fd = os.open(f"{PROC}/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        count = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, count)
        return count[0]
    finally:
        os.close(fd)


def test_large_tree_is_walked_by_a_process_that_stays(own: Server, tree: Path) -> None:
    with Wire(own.url) as wire:
        wire.handshake()
        assert wire.call("fs/walk", asked(tree / "d00"))["truncated"] is False
        assert walkers(own) == []  # small ones are not worth it
        assert wire.call("fs/walk", asked(tree)) == expected(tree)
        [pid] = walkers(own)
        assert wire.call("fs/walk", asked(tree)) == expected(tree)
        assert walkers(own) == [pid]


def test_limits_are_those_of_the_request(own: Server, tree: Path) -> None:
    with Wire(own.url) as wire:
        wire.handshake()
        some = wire.call("fs/walk", asked(tree, maxEntries=2500))
        assert (len(some["entries"]), some["truncated"]) == (2500, True)
        assert some["entries"] == expected(tree)["entries"][:2500]
        few = wire.call("fs/walk", asked(tree, maxDirectories=3))
        assert (len(few["entries"]), few["truncated"]) == (230, True)


def test_process_that_is_killed_is_replaced(own: Server, tree: Path) -> None:
    with Wire(own.url) as wire:
        wire.handshake()
        wire.call("fs/walk", asked(tree))
        [pid] = walkers(own)
        os.kill(pid, signal.SIGKILL)
        wait_gone([pid])
        assert wire.call("fs/walk", asked(tree)) == expected(tree)
        [another] = walkers(own)
        assert another != pid


def test_who_has_the_number_of_a_process_that_has_ended_is_left_alone(tree: Path) -> None:
    params = WalkParams.read(json.dumps(asked(tree)))
    made = Walkers({"PATH": "/usr/bin:/bin"})
    made.walk(params)
    [ended] = made._idle
    os.kill(ended._pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # a server reaps it with the orphans
        waitpid(ended._pid, 0)
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        ended._pid = other.pid
        assert json.loads(b"".join(made.walk(params))) == expected(tree)
        assert other.poll() is None
        other.kill()
    for walker in made._idle:
        walker.end()


def test_process_that_is_stopped_holds_up_nobody_else(own: Server, tree: Path) -> None:
    with Wire(own.url) as wire, Wire(own.url) as another:
        wire.handshake()
        another.handshake()
        wire.call("fs/walk", asked(tree))
        [pid] = walkers(own)
        os.kill(pid, signal.SIGSTOP)
        stuck = wire.request("fs/walk", asked(tree))
        wait_until(lambda: unread(pid) > 0, "it was asked")
        assert another.call("fs/walk", asked(tree)) == expected(tree)
        assert wire.call("environment/status") == {"status": "ready"}
        os.kill(pid, signal.SIGCONT)
        assert wire.answer(stuck)["result"] == expected(tree)


def test_many_walks_at_once_use_few_processes(own: Server, tree: Path) -> None:
    with Wire(own.url) as wire:
        wire.handshake()
        idents = [wire.request("fs/walk", asked(tree)) for _ in range(8)]
        assert [wire.answer(ident)["result"] for ident in idents] == [expected(tree)] * 8
        assert 1 <= len(walkers(own)) <= 2


def test_no_process_outlives_its_server(tree: Path, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        home = tmp_path / number.name
        home.mkdir()
        with serving("outfitter", home) as server, Wire(server.url) as wire:
            wire.handshake()
            wire.call("fs/walk", asked(tree))
            found = walkers(server)
            assert len(found) == 1
            os.kill(server.pid, number)
            wait_gone(found)
