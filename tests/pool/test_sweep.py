"""Workspaces: held, given up, and swept when whoever held them is gone."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.errors import EngineFailed
from outfitter.pool import sweep
from outfitter.pool.sweep import Workspaces, root_of, tree_bytes
from tests.support.machine import own_descriptors, wait_until


@pytest.fixture
def root() -> Iterator[Path]:
    """A path that leaves room for the names of sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


def names(root: Path) -> list[str]:
    """All that is left in a root, but its lock; somebody may remove things meanwhile."""
    found = [
        os.path.join(folder, name) for folder, *inside in os.walk(root) for part in inside for name in part
    ]
    return sorted(os.path.relpath(path, root) for path in found if not path.endswith("/.lock"))


def test_half_a_workspace_is_held_by_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk has no room for the last of its folders."""
    made = Workspaces(str(root), "pool")
    before = sorted(own_descriptors())
    monkeypatch.setattr(sweep, "FOLDERS", ("work", "not/there"))
    with pytest.raises(EngineFailed, match="cannot make the workspace"):
        made.make("one")
    assert sorted(own_descriptors()) == before
    assert made.sweep() == 1
    made.close()


def test_a_root_that_somebody_has_removed_is_told(root: Path) -> None:
    made = Workspaces(str(root / "own"), "pool")
    shutil.rmtree(root / "own")
    with pytest.raises(EngineFailed, match=r"cannot make the workspace .*: No such file"):
        made.make("one")
    made.close()


def test_a_root_that_somebody_has_removed_is_not_made_again_to_be_swept(root: Path) -> None:
    sweep.sweep(str(root / "own"))
    assert os.listdir(root) == []


def test_a_workspace_is_kept_where_no_room_is_left(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its command has filled the disk."""

    def full(path: str, mode: int = 0o777, *, exist_ok: bool = False) -> None:
        if not os.path.isdir(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = Workspaces(str(root), "pool")
    one, two = made.make("one"), made.make("two")
    monkeypatch.setattr(os, "makedirs", full)
    assert made.give_up(one, keep=True) == f"{made.pool}/kept/one"
    assert made.give_up(two, keep=True) == f"{made.pool}/kept/two"
    assert made.sweep() == 0
    assert {"pool/kept/one/work", "pool/kept/two/work"} < set(names(root))
    made.close()


def test_a_workspace_is_this_user_s_alone_and_gone_with_its_lease(root: Path) -> None:
    made = Workspaces(str(root), "pool")
    workspace = made.make("one")
    assert names(root) == [
        "pool",
        "pool/one",
        "pool/one/home",
        "pool/one/run",
        "pool/one/tmp",
        "pool/one/work",
    ]
    assert {path.stat().st_mode & 0o777 for path in root.rglob("*/")} == {0o700}
    assert workspace.variables("lease") == {
        "TMPDIR": f"{workspace.path}/tmp",
        "HOME": f"{workspace.path}/home",
    }
    assert workspace.variables("node") == {"TMPDIR": f"{workspace.path}/tmp"}
    deep = Path(workspace.work, "sealed", "deeper")
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    deep.chmod(0o500)
    deep.parent.chmod(0o500)
    made.give_up(workspace)
    assert not Path(workspace.path).exists()  # at once, whatever removing takes
    made.close()
    assert names(root) == []


def test_a_workspace_that_is_kept_stays(root: Path) -> None:
    made = Workspaces(str(root), "pool")
    workspace = made.make("one")
    Path(workspace.work, "result").write_text("42")
    Path(workspace.work, "more").mkdir()
    Path(workspace.work, "more", "log").write_text("123")
    kept = made.give_up(workspace, keep=True)
    assert (kept, tree_bytes(kept)) == (f"{root}/pool/kept/one", 5)
    assert tree_bytes(f"{root}/none") == 0
    made.close()
    later = Workspaces(str(root), "other")
    assert later.sweep() == 0
    later.close()
    assert Path(root, "pool", "kept", "one", "work", "result").read_text() == "42"


HOLDER = """
import sys
from outfitter.pool.sweep import Workspaces
made = Workspaces(sys.argv[1], "killed")
workspace = made.make("held")
open(workspace.work + "/left", "w").close()
print("made", flush=True)
sys.stdin.read()
"""


def test_a_sweep_takes_what_nobody_holds_and_nothing_else(root: Path) -> None:
    made = Workspaces(str(root), "living")
    mine = made.make("mine")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"made\n"
        assert made.sweep() == 0
        os.kill(holder.pid, signal.SIGKILL)
    (root / ".gone-999999999-x").mkdir()  # of somebody who was killed while it was removed
    assert made.sweep() == 1
    living = [
        "living",
        "living/mine",
        "living/mine/home",
        "living/mine/run",
        "living/mine/tmp",
        "living/mine/work",
    ]
    wait_until(lambda: names(root) == living, "the sweep removes what it has found")
    assert made.sweep() == 0
    made.give_up(mine)
    made.close()


def test_many_removals_wait_for_the_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "REMOVERS", 1)
    made = Workspaces(str(root), "pool")
    for number in range(3):
        workspace = made.make(str(number))
        Path(workspace.work, "x").write_text("x")
        made.give_up(workspace)
    assert len(made._removers) == 1
    made.close()
    assert names(root) == []


def test_a_root_that_others_can_write_is_refused(root: Path) -> None:
    root.chmod(0o777)
    with pytest.raises(EngineFailed, match="only this user can write"):
        Workspaces(str(root), "pool")


def test_a_path_too_long_for_sockets_is_refused(root: Path) -> None:
    made = Workspaces(str(root), "pool")
    with pytest.raises(EngineFailed, match="OUTFITTER_POOL_ROOT"):
        made.make("x" * 80)
    made.close()


def test_a_full_disk_begins_nothing_new(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "LEAST_FREE_BYTES", 1 << 60)
    made = Workspaces(str(root), "pool")
    with pytest.raises(EngineFailed, match="MiB are free"):
        made.make("one")
    made.close()


def test_where_workspaces_are() -> None:
    own = f"outfitter-{os.getuid()}"
    assert root_of({}) == f"/tmp/{own}"
    assert root_of({"RAY_TMPDIR": "/ray", "SLURM_TMPDIR": "/slurm"}) == f"/slurm/{own}"
    assert root_of({"OUTFITTER_POOL_ROOT": "/fast", "SLURM_TMPDIR": "/slurm"}) == f"/fast/{own}"
    assert root_of({"OUTFITTER_POOL_ROOT": "relative"}) == f"/tmp/{own}"
