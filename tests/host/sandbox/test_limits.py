"""How much of a machine a sandbox gets: as an ordinary user, and in control groups."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.errors import SettingInvalid
from outfitter.host.sandbox.groups import MEMORY, PIDS, Groups, Home
from outfitter.host.sandbox.limits import Allowance, Limits, check_memory, soften
from tests.support.machine import public_folder
from tests.support.sandbox import need_sandbox
from tests.support.users import installed

ORDINARY = 23456

# Starts a command in a sandbox with so many processes, and waits for its end.
RUN = """
import os, sys
from outfitter.core.launch import Launch
from outfitter.core.permissions import READ, Confinement, Rule
from outfitter.host.sandbox.limits import Allowance
from outfitter.host.sandbox.sandboxes import Sandboxes
from outfitter.host.spawn import Spawner, Stdio
from outfitter.loop import EpollLoop

processes, memory, code = int(sys.argv[1]), int(sys.argv[2]) or None, sys.argv[3]
loop = EpollLoop()
sandboxes = Sandboxes(loop, os.environ["HOME"], (), Allowance(processes, memory))
env = {"PATH": "/usr/bin:/bin"}
argv = [sys.executable, "-I", "-S", "-c", code]
reads = Confinement(True, False, (Rule("/", READ),))
launch = Launch(argv[0], argv, "/", env, sandboxed=True, confinement=reads)
pid = sandboxes.spawn(Spawner(), launch, Stdio(-1, 1, 2), None, 1)
pidfd = os.pidfd_open(pid)
loop.add_reader(pidfd, loop.stop)
loop.run()
os.waitpid(pid, 0)
sandboxes.stopped()
"""
BOMB = """
import os, signal
children = []
try:
    while len(children) < 300:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError as error:
    print(error.errno, len(children))
else:
    print("unlimited")
"""
TELL = """
import resource
print(resource.getrlimit(resource.RLIMIT_CORE), open("/proc/self/oom_score_adj").read().strip())
"""

# The same as a tool, with the control groups that are left behind.
RUN_TOOL = """
import os, sys
from outfitter.core.permissions import READ, Confinement, Rule
from outfitter.host.tools import within
from outfitter.host.sandbox import tools
from outfitter.host.sandbox.limits import Allowance
from outfitter.host.tools.tool import run_tool

within.allowance = Allowance(int(sys.argv[1]))
reads = Confinement(True, False, (Rule("/", READ),))
with within.Within(tools.confining(reads, os.environ["HOME"])):
    argv = [sys.executable, "-I", "-S", "-c", sys.argv[3]]
    ran = run_tool(argv, "/", {"PATH": "/usr/bin:/bin"}, timeout=60.0)
homes = tools._limits[0].groups.homes.values()
left = [name for home in homes for name in os.listdir(home.path) if f"-{os.getpid()}-" in name]
print(ran.stdout.decode(), *left, end="")
print(ran.stderr.decode(), end="", file=sys.stderr)
"""


def run(uid: int, processes: int, code: str, memory: int = 0, script: str = RUN) -> str:
    need_sandbox()
    with public_folder() as folder:
        python, site = installed()
        home = folder / "home"
        home.mkdir()
        os.chown(home, uid, uid)
        done = subprocess.run(
            [python, "-c", script, str(processes), str(memory), code],
            env={"HOME": str(home), "PYTHONPATH": str(site)},
            cwd=home,
            capture_output=True,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[],
            check=False,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


@needs_root
@pytest.mark.parametrize("script", [RUN, RUN_TOOL], ids=["command", "tool"])
def test_a_fork_bomb_of_an_ordinary_user_stops(script: str) -> None:
    code, forks = map(int, run(ORDINARY, 64, BOMB, script=script).split())
    assert code == 11 and 40 < forks < 64


@needs_root
@pytest.mark.parametrize("script", [RUN, RUN_TOOL], ids=["command", "tool"])
def test_a_fork_bomb_of_root_stops_in_a_control_group(script: str) -> None:
    if not Groups({PIDS: 64}).homes:
        pytest.skip("no control group for processes can be made here")
    code, forks = map(int, run(0, 64, BOMB, script=script).split())
    assert code == 11 and 40 < forks < 64


@needs_root
def test_a_command_of_root_that_takes_too_much_memory_is_killed() -> None:
    if not Groups({MEMORY: 1 << 26}).homes:
        pytest.skip("no control group for memory can be made here")
    code = "print(len(bytearray(16 << 20)), flush=True); print(len(bytearray(256 << 20)))"
    assert run(0, 64, code, 64 << 20) == f"{16 << 20}\n"


def test_nobody_waits_for_limits_that_are_not_there() -> None:
    ordinary = os.geteuid() != 0
    assert Limits(Allowance()).needed is ordinary
    assert Limits(Allowance(processes=None)).needed is False


class Found:
    """Groups, as they may be found."""

    def __init__(self, *homes: str) -> None:
        self.homes = {name: Home(f"/groups/{name}", False) for name in homes}
        self.why = {name: "why" for name in (PIDS, MEMORY) if name not in homes}


@pytest.mark.parametrize(
    ("uid", "settings", "homes", "told"),
    [
        (
            7,
            Allowance(64),
            [],
            ["at most 64 processes and threads, by RLIMIT_NPROC", "memory is not limited"],
        ),
        (7, Allowance(None), [], ["processes are not limited", "memory is not limited"]),
        (
            0,
            Allowance(64),
            [PIDS],
            ["at most 64 processes and threads, by control groups below /groups/pids"],
        ),
        (0, Allowance(64), [], ["processes are not limited: only a control group limits root's (why)"]),
        (0, Allowance(None), [], ["processes are not limited"]),
        (
            7,
            Allowance(None, 9),
            [MEMORY],
            ["processes", "at most 9 bytes of memory, by control groups below /gr"],
        ),
    ],
)
def test_what_limits_is_told(
    monkeypatch: pytest.MonkeyPatch, uid: int, settings: Allowance, homes: list[str], told: list[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    limits = Limits(settings)
    monkeypatch.setattr(limits, "_made", Found(*homes))
    said = limits.told()
    assert len(said) == 2 and all(one.startswith(start) for one, start in zip(said, told, strict=False))


def test_a_limit_on_memory_that_nothing_enforces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "outfitter.host.sandbox.groups.read", lambda path: "0::/\n" if "cgroup" in path else ""
    )
    with pytest.raises(SettingInvalid, match="none can be made: no control groups are mounted"):
        check_memory(1 << 20)


@needs_root
@pytest.mark.parametrize("script", [RUN, RUN_TOOL], ids=["command", "tool"])
def test_a_sandbox_leaves_no_core_and_goes_first(script: str) -> None:
    assert run(ORDINARY, 64, TELL, script=script) == "(0, 0) 200\n"


def test_a_higher_score_stays(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    score = Path(f"/proc/{child.pid}/oom_score_adj")
    try:
        score.write_text("300")
        soften(child.pid)
        assert score.read_text().strip() == "300"
        assert resource.prlimit(child.pid, resource.RLIMIT_CORE) == (0, 0)
        soften(2**22)  # no such process: nothing happens
    finally:
        child.communicate(b"\n")
