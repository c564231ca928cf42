"""Limits of a server and all its commands: what is written where, and that the kernel keeps them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.errors import SettingInvalid
from outfitter.host import limits
from outfitter.host.limits import CGROUP2, PROCESSES, ServerLimits, parse, version1, version2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("memory=4GiB,cpus=2", ServerLimits(4 << 30, 2.0)),
        ("cpus=0.5,processes=100,required", ServerLimits(0, 0.5, 100, True)),
        (" memory=512MiB , required", ServerLimits(512 << 20, 0.0, PROCESSES, True)),
        ("", ServerLimits()),
    ],
)
def test_what_an_operator_writes(text: str, wanted: ServerLimits) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize("text", ["memory=lots", "memory=1MiB", "cpus=0", "cpus=x", "processes=-1", "gpus=1"])
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="--limits"):
        parse(text)


def test_the_files_of_both_versions() -> None:
    wanted = ServerLimits(1 << 30, 1.5, 64)
    assert version2(wanted) == {
        "pids.max": "64",
        "memory.max": "1073741824",
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "cpu.max": "150000 100000",
    }
    assert version1(wanted) == {
        "pids": {"pids.max": "64"},
        "memory": {"memory.limit_in_bytes": "1073741824"},
        "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"},
    }
    assert version2(ServerLimits()) == {"pids.max": "4096"}
    assert version2(ServerLimits(cpus=0.001))["cpu.max"] == "1000 100000"


def test_a_delegated_group_of_version_2_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against files of our own: few machines let a test divide a group."""
    home, group = tmp_path / "home", tmp_path / "home" / f"outfitter-lease-{os.getpid()}"
    home.mkdir()
    (home / "cgroup.controllers").write_text("cpu io memory pids\n")
    (home / "cgroup.subtree_control").write_text("pids\n")
    (home / "outfitter-lease-999999999").mkdir()  # of a server that was killed
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(limits, "write", lambda path, text: written.append((path, text)))
    done = limits._enter_cgroup2(ServerLimits(1 << 30, 1.0), {limits.DELEGATED: str(home)})
    assert done == CGROUP2
    assert group.is_dir() and not (home / "outfitter-lease-999999999").exists()
    assert written == [
        (f"{home}/cgroup.subtree_control", "+cpu +memory"),
        (f"{group}/pids.max", "4096"),
        (f"{group}/memory.max", "1073741824"),
        (f"{group}/memory.oom.group", "0"),
        (f"{group}/cpu.max", "100000 100000"),
        (f"{group}/cgroup.procs", "0"),
    ]


@pytest.fixture
def version2_tree(tmp_path: Path) -> Path:
    """Files as those of a delegated group of version 2, not of a kernel: they show what is written where, and
    not what it does."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
    (home / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return home


def entered(
    home: Path, wanted: ServerLimits, monkeypatch: pytest.MonkeyPatch, **kernel: str
) -> dict[str, str]:
    """What the files of the new group have. `kernel` are those that it makes with a group."""
    group = home / f"outfitter-lease-{os.getpid()}"
    make = os.mkdir

    def mkdir(path: str, *mode: int) -> None:
        make(path, *mode)
        for name, text in kernel.items():
            Path(path, name.replace("_", ".")).write_text(text)

    def write(path: str, text: str) -> None:
        Path(path).write_text(text)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(limits, "write", write)
    assert limits._enter_cgroup2(wanted, {limits.DELEGATED: str(home)}) == CGROUP2
    return {path.name: path.read_text() for path in group.iterdir()}


def test_a_group_of_version_2_has_its_limits(version2_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a tree of files that is no kernel's."""
    found = entered(version2_tree, ServerLimits(1 << 30, 1.5, 100), monkeypatch, memory_swap_max="max")
    assert found == {
        "pids.max": "100",
        "memory.max": "1073741824",
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "cpu.max": "150000 100000",
        "cgroup.procs": "0",
    }
    assert (version2_tree / "cgroup.subtree_control").read_text() == "cpu memory pids\n"  # all were shared


def test_a_group_that_cannot_be_entered_is_removed(
    version2_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tree of files that is no kernel's."""

    def refuse(path: str, text: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    monkeypatch.setattr(limits, "write", refuse)
    with pytest.raises(PermissionError):
        limits._enter_cgroup2(ServerLimits(), {limits.DELEGATED: str(version2_tree)})
    assert [path.name for path in version2_tree.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("name", "text", "killed"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n", True),
        ("memory.events", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
    ],
)
def test_who_was_killed_for_memory(tmp_path: Path, name: str, text: str, killed: bool) -> None:
    """On files as both versions have them."""
    group = tmp_path / "outfitter-lease-77"
    group.mkdir()
    (group / name).write_text(text)
    assert limits.killed_for_memory(77, [str(tmp_path)]) is killed
    assert not limits.killed_for_memory(78, [str(tmp_path)])


def test_kills_for_memory_count_once(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("oom 3\noom_kill 3\n")
    kills = limits.MemoryKills(str(tmp_path))
    assert not kills.more()  # they were before
    events.write_text("oom 5\noom_kill 5\n")
    assert [kills.more(), kills.more()] == [True, False]
    assert not limits.MemoryKills("").more()


def test_a_group_without_the_controllers_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    with pytest.raises(OSError, match="no controller for pids"):
        limits._enter_cgroup2(ServerLimits(), {limits.DELEGATED: str(tmp_path)})


# In a process of its own, since limits cannot be taken back. It says by what it is limited, then takes more
# memory than it may; a child of a command is born first to go.
CODE = """
import json, os, resource, subprocess, sys
from outfitter.host import limits
if sys.argv[1] == "rlimit":
    def no(*_): raise OSError(0, "not here")
    limits._enter_cgroup1 = limits._enter_cgroup2 = no
by = limits.apply(limits.parse("memory=256MiB,cpus=1"))
first = limits.CommandsFirst()
first.begin()
greedy = [sys.executable, "-c", "x = bytearray(512 << 20)"]
taken = subprocess.run(greedy, stderr=subprocess.DEVNULL).returncode
score = subprocess.run(["cat", "/proc/self/oom_score_adj"], capture_output=True, text=True).stdout
first.end()
own = open("/proc/self/oom_score_adj").read()
core = resource.getrlimit(resource.RLIMIT_CORE)
found = {"by": by, "taken": taken, "score": int(score), "own": own, "core": core, "pid": os.getpid()}
print(json.dumps(found))
"""


@pytest.mark.parametrize("kind", ["best", "rlimit"])
def test_who_takes_more_than_there_is_for_all_of_them_fails(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind], capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert found["by"] in ("cgroup1", "cgroup2", "rlimit") and (kind == "best" or found["by"] == "rlimit")
    assert found["taken"] == (1 if found["by"] == "rlimit" else -9)
    assert (found["score"], found["core"]) == (1000, [0, 0])
    assert int(found["own"]) < 1000
    limits.tidy()
    assert list(Path("/sys/fs/cgroup").glob(f"*/outfitter-lease-{found['pid']}")) == []


def test_required_refuses_where_there_are_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object) -> str:
        raise OSError(0, "not here")

    monkeypatch.setattr(limits, "_enter_cgroup2", no)
    monkeypatch.setattr(limits, "_enter_cgroup1", no)
    with pytest.raises(SettingInvalid, match=r"no control group can be made \(not here; not here\)"):
        limits.apply(ServerLimits(required=True))
