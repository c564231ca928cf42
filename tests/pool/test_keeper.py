"""A keeper: one server at a time with a workspace of its own, and nothing left when either ends."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter import VERSION
from outfitter.client.connect import connect
from outfitter.core.shape import Shape
from outfitter.errors import DialFailed, EngineFailed, SettingInvalid
from outfitter.pool.child import own_words
from outfitter.pool.engine import Card, Endpoint, Stopped
from outfitter.pool.keeper import Keeper, boot_id, serve_words
from outfitter.pool.sweep import Workspace
from tests.support import machine
from tests.support.machine import PROC, wait_until

TOKEN = "a token of this test"
SHA256 = hashlib.sha256(TOKEN.encode()).hexdigest()


def card(lease: str, **more: object) -> Card:
    return Card(lease, SHA256, fence=60.0, keepalive=2.0, **more)  # type: ignore[arg-type]


@pytest.fixture
def root() -> Iterator[Path]:
    """A path that leaves room for the names of sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def keeper(root: Path) -> Iterator[Keeper]:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "OUTFITTER_POOL_ROOT": "/elsewhere"}
    keeper = Keeper("pool", node="n1", root=str(root), environ=environ)
    yield keeper
    keeper.stop()


def output(endpoint: Endpoint, script: str, token: str = TOKEN) -> str:
    async def run() -> str:
        async with connect(endpoint.url, token=token) as client:
            return (await client.shell(script)).text

    return asyncio.run(run())


def left(root: Path) -> list[str]:
    """What is in a root but its lock; somebody may remove things meanwhile."""
    found = [name for _, *inside in os.walk(root) for part in inside for name in part]
    return sorted(name for name in found if name != ".lock")


def test_a_keeper_that_can_start_nothing_holds_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = sorted(machine.own_descriptors())
    monkeypatch.setattr(subprocess, "Popen", none_left)
    with pytest.raises(EngineFailed, match="cannot keep a server here: Resource temporarily unavailable"):
        Keeper("pool", root=str(root))
    assert sorted(machine.own_descriptors()) == before


def test_a_keeper_that_ends_a_server_is_not_idle(keeper: Keeper) -> None:
    assert keeper.idle
    keeper.serve(card("l1"), Shape())
    assert not keeper.idle
    server, ending = keeper.pid, threading.Thread(target=keeper.stop)
    machine.stop(server)
    ending.start()
    wait_until(lambda: keeper.pid == 0, "it ends the server")
    assert not keeper.idle
    os.kill(server, signal.SIGCONT)
    ending.join()
    assert keeper.idle


def test_what_was_kept_is_told_although_no_other_server_starts(
    keeper: Keeper, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the command before has filled the disk."""

    def full(*_: object) -> Workspace:
        raise EngineFailed("only 3 MiB are free")

    Path(keeper.serve(card("l1"), Shape()).workspace, "result").write_text("42")
    monkeypatch.setattr(keeper._workspaces, "make", full)
    with pytest.raises(EngineFailed, match="only 3 MiB are free"):
        keeper.serve(card("l2", keep_last=True), Shape())
    assert keeper.stop(keep=True) == Stopped(True, kept=f"{root}/pool/kept/l1", kept_bytes=2)


def test_what_was_kept_is_told_although_the_other_server_does_not_listen(keeper: Keeper, root: Path) -> None:
    keeper.serve(card("l1"), Shape())
    keeper._listen = "ws://nowhere.invalid:1"
    with pytest.raises(EngineFailed, match="ended before it listened"):
        keeper.serve(card("l2", keep_last=True), Shape())
    assert keeper.stop(keep=True) == Stopped(True, kept=f"{root}/pool/kept/l1")


def test_commands_run_nowhere_else_if_their_workspace_is_gone(keeper: Keeper) -> None:
    """As when the lease before has removed what it should not, while this server stood by."""
    endpoint = keeper.serve(card("l1"), Shape())
    shutil.rmtree(endpoint.workspace)
    with pytest.raises(SettingInvalid, match="the executor's working directory was removed"):
        output(endpoint, "pwd")


def test_every_server_is_new(keeper: Keeper, root: Path) -> None:
    one = keeper.serve(card("l1"), Shape())
    assert one == Endpoint(
        url=one.url,
        node="n1",
        workspace=f"{root}/pool/l1/work",
        boot_id=boot_id(),
        pid=keeper.pid,
        version=VERSION,
        limits=one.limits,
    )
    assert output(one, "pwd; echo $HOME; echo $TMPDIR; echo ${OUTFITTER_POOL_ROOT-}; touch mine").split() == [
        one.workspace,
        f"{root}/pool/l1/home",
        f"{root}/pool/l1/tmp",
    ]
    before = keeper.pid
    two = keeper.serve(card("l2", env={"HOME": "/its/own", "A": "1"}), Shape())
    assert not os.path.exists(f"{PROC}/{before}") and not os.path.exists(one.workspace)
    assert output(two, "ls; echo $HOME $A") == "/its/own 1\n"
    with pytest.raises(DialFailed, match="401"):
        output(two, "true", "another token")
    assert keeper.stop() == Stopped(True)
    assert (keeper.pid, left(root)) == (0, [])
    with pytest.raises(EngineFailed, match="stopped"):
        keeper.serve(card("l3"), Shape())
    assert keeper.stop() == Stopped(True)


def test_a_workspace_can_be_kept(keeper: Keeper, root: Path) -> None:
    one = keeper.serve(card("l1", limits="none"), Shape())
    assert one.limits == "none"
    Path(one.workspace, "result").write_text("1")
    two = keeper.serve(card("l2", limits="none", keep_last=True, home="node"), Shape())
    assert output(two, "echo $HOME") == "/nonexistent\n"
    assert (two.kept, two.kept_bytes) == (f"{root}/pool/kept/l1", 1)
    assert keeper.stop(keep=True) == Stopped(True, kept=f"{root}/pool/kept/l2")
    assert sorted(path.name for path in (root / "pool" / "kept").iterdir()) == ["l1", "l2"]


def test_a_server_that_was_killed_is_not_confirmed(keeper: Keeper) -> None:
    keeper.serve(card("l1"), Shape())
    os.kill(keeper.pid, signal.SIGKILL)
    stopped = keeper.stop()
    assert (stopped.confirmed, stopped.detail) == (False, "the server had ended by signal 9: it said nothing")


def test_no_server_follows_one_that_was_not_seen_to_end(keeper: Keeper, root: Path) -> None:
    keeper.serve(card("l1"), Shape())
    os.kill(keeper.pid, signal.SIGKILL)
    with pytest.raises(
        EngineFailed, match="the server before has not ended: the server had ended by signal 9"
    ):
        keeper.serve(card("l2"), Shape())
    assert (keeper.pid, [name for name in left(root) if name.startswith("l")]) == (0, [])


def test_what_keeps_a_server_from_starting_ends_the_one_before_too(keeper: Keeper, root: Path) -> None:
    one = keeper.serve(card("l1"), Shape())
    with pytest.raises(EngineFailed, match="more than 80 characters"):
        keeper.serve(card("l" * 80), Shape())
    assert keeper.pid == 0 and not os.path.exists(one.workspace)


def test_a_server_that_ends_alone_leaves_nothing_behind(root: Path) -> None:
    keeper = Keeper("pool", root=str(root), watches=True)
    keeper.serve(card("l1"), Shape())
    os.kill(keeper.pid, signal.SIGTERM)
    wait_until(lambda: left(root) in ([], ["pool"]), "its workspace is given up")
    assert keeper.pid == 0
    keeper.serve(card("l2"), Shape())
    os.kill(keeper.pid, signal.SIGKILL)
    wait_until(lambda: keeper.pid == 0, "its end is noticed")
    assert not keeper.stop().confirmed


def test_a_server_that_cannot_start_says_why(root: Path) -> None:
    keeper = Keeper("pool", root=str(root), listen="ws://192.0.2.1:1")  # an address of nobody
    with pytest.raises(EngineFailed, match="the server ended before it listened: outfitter: "):
        keeper.serve(card("l1"), Shape())
    assert keeper.stop() == Stopped(True)
    assert left(root) == []


KEEPER = """
import sys
import tempfile
from outfitter.core.shape import Shape
from outfitter.pool.engine import Card
from outfitter.pool.keeper import Keeper
keeper = Keeper("pool", root=sys.argv[1])
print(keeper.serve(Card("l1", sys.argv[2], 60.0, 2.0), Shape()).url, keeper.pid, flush=True)
sys.stdin.read()
"""


def test_a_killed_keeper_takes_its_server_along(root: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(root), SHA256], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        url, pid = child.stdout.readline().decode().split()
        sleeper = int(output(Endpoint(url=url), "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"))
        child.kill()
    for gone in (int(pid), sleeper):
        wait_until(lambda gone=gone: not os.path.exists(f"{PROC}/{gone}"), f"{gone} ends")  # type: ignore[misc]
    wait_until(lambda: left(root) == [], "its guard removes the workspace")


def test_nobody_sweeps_a_workspace_before_its_server_has_ended(root: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(root), SHA256], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        pid = int(child.stdout.readline().split()[1])
        os.kill(pid, signal.SIGSTOP)  # it is slow to see that its keeper has gone
        child.kill()
    try:
        # What the guard of another keeper does; when it is done, its own one could have done the same.
        sweep = f"from outfitter.pool.sweep import sweep; sweep({str(root)!r})"
        subprocess.run([sys.executable, "-c", sweep], check=True, timeout=60)
        assert (root / "pool" / "l1" / "work").is_dir()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: left(root) == [], "its guard removes the workspace")


def test_no_module_of_a_workspace_is_ever_loaded(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the workspace')")
    done = subprocess.run(
        [*own_words(), "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={}
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_who_has_set_a_variable_is_told(root: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "1"}
    keeper = Keeper("pool", root=str(root), environ=environ, of_engine=("CUDA_VISIBLE_DEVICES", "ROCR_X"))
    one = keeper.serve(card("l1", env={"COLOUR": "green"}), Shape())

    async def kinds() -> dict[str, str]:
        async with connect(one.url, token=TOKEN) as client:
            found = (await client.explain())["variables"]
            return {name: found[name]["origin"]["kind"] for name in (*environ, "COLOUR", "HOME")}

    assert asyncio.run(kinds()) == {
        "PATH": "executor",
        "CUDA_VISIBLE_DEVICES": "engine",
        "COLOUR": "pool",
        "HOME": "pool",
    }
    assert keeper.stop() == Stopped(True)


def test_what_a_server_is_told() -> None:
    words = serve_words(card("l1"), Shape(1.5, 4 << 30), "/w")
    assert words == [
        *("--exit-on-stdin-close", "--fence", "60", "--project-ceiling", "/w"),
        *("--session-retention", "6", "--max-sessions", "1"),
        *("--limits", "cpus=1.5,memory=4294967296"),
    ]
    bare = serve_words(Card("l", "", 11.0, 1.0, limits="required"), Shape(0), "/w")
    assert bare[-2:] == ["--limits", "required"]


def test_where_a_server_is_found(tmp_path: Path) -> None:
    keeper = Keeper("pool1", root=str(tmp_path), environ={})
    workspace = Workspace("/w", -1)
    assert keeper._place(card("l1"), workspace) == [
        *("serve", "--listen", "ws://127.0.0.1:0", "--keepalive", "2"),
        *("--ws-auth", "capability-token", "--ws-token-sha256", SHA256),
    ]
    assert "--ws-auth" not in keeper._place(Card("l", "", 11.0, 1.0), workspace)
    keeper.stop()
