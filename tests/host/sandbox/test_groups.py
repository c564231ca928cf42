"""Control groups of sandboxes: where they can be made, and a real one where this machine has any."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outfitter.host.sandbox import groups
from outfitter.host.sandbox.groups import MEMORY, PIDS, Groups, Home, own_group

V1 = "41 33 0:38 {root} {place} rw,relatime - cgroup cgroup rw,{name}\n"
V2 = "43 33 0:40 {root} {place} rw,relatime - cgroup2 cgroup2 rw\n"


class Machine:
    """What the kernel says of groups, and a folder in their place."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.mounts = self.own = ""
        real = groups.read
        said = {"/proc/self/mountinfo": lambda: self.mounts, "/proc/thread-self/cgroup": lambda: self.own}
        monkeypatch.setattr(groups, "read", lambda path: said[path]() if path in said else real(path))

    def second(self, path: str, controllers: str) -> Path:
        home = self.folder / path.lstrip("/")
        home.mkdir(parents=True, exist_ok=True)
        (home / "cgroup.controllers").write_text(controllers)
        (home / "cgroup.subtree_control").touch()
        self.mounts, self.own = V2.format(root="/", place=self.folder), f"0::{path}\n"
        return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def why(controller: str, **more: bool) -> str:
    with pytest.raises(OSError) as caught:
        own_group(controller, **more)
    return str(caught.value.strerror)


@pytest.mark.parametrize(
    ("root", "own", "found"),
    [
        ("/", "/", "/c"),
        ("/", "/a/b", "/c/a/b"),
        ("/docker/1", "/docker/1", "/c"),
        ("/docker/1", "/docker/1/x", "/c/x"),
    ],
)
def test_the_group_of_version_1(machine: Machine, root: str, own: str, found: str) -> None:
    machine.mounts = V1.format(root=root, place="/c", name="pids") + V2.format(root="/", place="/u")
    machine.own = f"8:cpu,pids:{own}\n0::/\n"
    assert own_group(PIDS) == Home(found, False)


@pytest.mark.parametrize(("root", "own"), [("/docker/1", "/other"), ("/", "/../..")])
def test_a_group_that_is_not_in_sight(machine: Machine, root: str, own: str) -> None:
    machine.mounts, machine.own = V1.format(root=root, place="/c", name="pids"), f"8:pids:{own}\n"
    assert "is not mounted" in why(PIDS)


def test_no_groups_at_all(machine: Machine) -> None:
    machine.own = "0::/\n"
    assert why(PIDS) == "no control groups are mounted"


def test_the_first_group_of_a_container_is_its_own(machine: Machine) -> None:
    home = machine.second("/", "cpu pids memory")
    assert own_group(PIDS) == Home(str(home), True)
    assert "of a whole unit" in why(MEMORY)
    assert "--cgroup" in why(PIDS, divides=False)


def test_a_group_of_version_2_must_have_been_given(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    home = machine.second("/system.slice/x.service", "pids")
    assert why(PIDS).endswith("is not the server's own (systemd: Delegate=yes)")
    given = {"user.delegate": b"1"}

    def getxattr(path: str, name: str) -> bytes:
        if path != str(home) or name not in given:
            raise OSError
        return given[name]

    monkeypatch.setattr(os, "getxattr", getxattr)
    assert own_group(PIDS) == Home(str(home), True)
    given["user.delegate"] = b"0"
    assert "Delegate=yes" in why(PIDS)


def test_a_controller_that_is_missing(machine: Machine) -> None:
    machine.second("/", "cpu")
    assert "has no controller for pids" in why(PIDS)


def test_what_cannot_be_made_is_told(machine: Machine) -> None:
    # An ordinary folder: what is written to is not there.
    machine.second("/", "pids")
    found = Groups({PIDS: 64, MEMORY: 1 << 20})
    assert not found.homes and found.why[PIDS].endswith("cgroup.type: No such file or directory")
    assert sorted(os.listdir(machine.folder)) == ["cgroup.controllers", "cgroup.subtree_control"]
    assert (machine.folder / "cgroup.subtree_control").read_text() == "-pids"  # as it was


def test_who_was_killed_for_memory_in_its_sandbox(tmp_path: Path) -> None:
    found = Groups({})
    assert not found.killed_for_memory(7)  # memory is not limited
    found.homes[MEMORY] = Home(str(tmp_path), threaded=False)
    for mark, kills in ((7, 1), (8, 0)):
        group = tmp_path / f"outfitter-sandbox-{os.getpid()}-{mark}"
        group.mkdir()
        (group / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
    assert [found.killed_for_memory(mark) for mark in (7, 8, 9)] == [True, False, False]


needs_groups = pytest.mark.skipif(
    os.geteuid() != 0 or not Groups({PIDS: 64}).homes, reason="no control group for processes can be made"
)


@needs_groups
def test_what_starts_inside_is_born_there_and_the_server_is_back() -> None:
    found = Groups({PIDS: 64})
    home = found.homes[PIDS]
    before = Path("/proc/thread-self/cgroup").read_text()
    name = f"outfitter-sandbox-{os.getpid()}-7"
    group = Path(home.path, name)
    found.enter(7)
    try:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    finally:
        found.leave()
    assert (group / "pids.max").read_text() == "65\n"
    assert (group / home.threads).read_text().split() == [str(child.pid)]
    assert Path("/proc/thread-self/cgroup").read_text() == before
    found.ended(7)  # somebody is in it still
    assert group.exists()
    child.communicate()
    found.close()
    assert not group.exists()


@needs_groups
def test_groups_of_a_server_that_was_killed_are_removed() -> None:
    home = Groups({PIDS: 64}).homes[PIDS]
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    left = Path(home.path, f"outfitter-sandbox-{child}-1")
    left.mkdir()
    assert Groups({PIDS: 64}).homes and not left.exists()


@needs_groups
def test_who_cannot_enter_is_back_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Groups({PIDS: 64})
    before = Path("/proc/thread-self/cgroup").read_text()
    monkeypatch.setitem(groups._FILES, PIDS, "no.such.file")
    with pytest.raises(OSError, match=r"no\.such\.file"):
        found.enter(9)
    assert Path("/proc/thread-self/cgroup").read_text() == before
    assert not Path(found.homes[PIDS].path, f"outfitter-sandbox-{os.getpid()}-9").exists()
