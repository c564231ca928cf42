"""Control groups hold programs that hide on purpose: here, that remove their mark and daemonise."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from outfitter.core.marks import Marks
from outfitter.errors import HostUnsupported
from outfitter.host import cgroup, tree
from tests.support.machine import alive, wait_until
from tests.support.servers import serving
from tests.support.tools import missing
from tests.support.wire import Wire

# Leaves its session, its parents and its mark behind, and says its number.
HIDING = (
    "(setsid bash -c 'ulimit -R unlimited; echo $$ >PATH; exec sleep 600' >/dev/null 2>&1 &); "
    "while [ ! -s PATH ]; do sleep 0.01; done; echo ready; sleep 600"
)


@pytest.fixture
def home() -> str:
    """The directory of our own group, where groups can be made."""
    try:
        cgroup.check()
    except HostUnsupported as error:
        missing("a writable cgroup v2", f"run as root with cgroup2 mounted ({error})")
    return cgroup.own_group()


def hide(wire: Wire, path: Path) -> int:
    """Starts a command that hides a child; returns the child's number."""
    wire.handshake()
    wire.start("p", ["/bin/bash", "-c", HIDING.replace("PATH", str(path))])
    wire.until(lambda message: message["method"] == "process/output")
    hidden = int(path.read_text())
    wait_until(lambda: b"sleep" in Path(f"/proc/{hidden}/cmdline").read_bytes(), "it has hidden itself")
    return hidden


@pytest.mark.parametrize("descendants", ["flag", "mask"])
def test_terminate_ends_a_program_that_hides(home: str, tmp_path: Path, descendants: str) -> None:
    config = tmp_path / ".config/outfitter/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[shell]\ndescendants = "{descendants}"\n')
    (tmp_path / ".profile").write_text("hush")
    with serving("outfitter", tmp_path, "--cgroup") as server, Wire(server.url) as wire:
        hidden = hide(wire, tmp_path / "pid")
        assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
        wire.closed("p")
        wait_until(lambda: not alive(hidden), "it is ended")


def test_without_a_group_it_lives_until_the_server_stops(tmp_path: Path) -> None:
    # What docs/topics/process-trees.md says marks cannot hold.
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        hidden = hide(wire, tmp_path / "pid")
        wire.call("process/terminate", {"processId": "p"})
        wire.closed("p")
        assert alive(hidden)
    assert not alive(hidden)


def test_death_of_the_server_ends_it_too(home: str, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--cgroup") as server, Wire(server.url) as wire:
        hidden = hide(wire, tmp_path / "pid")
        os.kill(server.pid, signal.SIGKILL)
        server.popen.wait()
        wait_until(lambda: not alive(hidden), "the watchdog has ended it")
        wire.abort()


def test_nothing_is_left_of_the_groups(home: str, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--cgroup") as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["cat", "/proc/self/cgroup"])
        wire.closed("p")
        [group] = re.findall(r"/(outfitter-\w+)/", wire.output("p").decode())
        for number in range(3):
            wire.start(f"p{number}", ["true"])
            wire.closed(f"p{number}")
        # A closed command's group goes, after its end was told; its session's is there.
        session = f"{home}/{group}/0"
        wait_until(
            lambda: not any(folders for _, folders, _ in os.walk(session)), "no command's group is left"
        )
        assert os.path.exists(session)
    assert group not in os.listdir(home)


def test_groups_of_servers_that_were_killed_are_tidied_up(home: str) -> None:
    stale = f"{home}/outfitter-1/0/2"
    os.makedirs(stale)
    groups = cgroup.Cgroups(Marks(tree.new_nonce()))
    try:
        assert not os.path.exists(f"{home}/outfitter-1")
    finally:
        groups.tidy()
    assert not os.path.exists(groups.root)


def test_groups_of_a_server_that_lives_are_left_alone(home: str) -> None:
    """A command is about to enter one, which is still empty."""
    living = cgroup.Cgroups(Marks(tree.new_nonce()))
    try:
        empty = living.made(living._marks.new(0))
        cgroup.Cgroups(Marks(tree.new_nonce())).tidy()
        assert os.path.exists(empty)
    finally:
        living.tidy()
    assert not os.path.exists(living.root)
