"""Marks: inherited by everybody, read without privilege, and the end of exactly one tree."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from outfitter.core.launch import Launch
from outfitter.core.marks import Marks
from outfitter.host import tree
from outfitter.host.spawn import Stdio
from outfitter.host.tree import Trees, new_nonce
from outfitter.host.unix import Spawner, kill_marked, kill_session_members, marked, usable
from outfitter.loop import EpollLoop
from tests.support.handloop import HandLoop
from tests.support.machine import SECOND, alive, command, no_descriptors, running, wait_gone, wait_until

pytestmark = pytest.mark.skipif(not usable(), reason="this machine does not let us set RLIMIT_RTTIME")

_nap = 40_000 + os.getpid() / 100_000


def nap() -> str:
    global _nap
    _nap += 1
    return f"{_nap:.5f}"


class Grove:
    """Marked commands of one server."""

    def __init__(self) -> None:
        self.marks = Marks(new_nonce())
        self._spawner = Spawner()
        self._leaders: list[int] = []

    def plant(
        self, script: str, size: int, session: int = 0, *, mark: bool = True
    ) -> tuple[int, int, list[int]]:
        """Starts a script whose `NAP` is unique; returns leader, mark and the pids of all of them."""
        text = nap()
        number = self.marks.new(session)
        argv = ["/bin/sh", "-c", script.replace("NAP", text)]
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        launch = Launch("/bin/sh", argv, "/", {"PATH": "/usr/bin:/bin"})
        leader = self._spawner.spawn(launch, Stdio(stdout=null, stderr=null), number if mark else None)
        os.close(null)
        self._leaders.append(leader)

        found: list[int] = []

        def settled() -> bool:
            found[:] = running(text)
            names = [command(pid) for pid in found]
            return len(names) == size and all(text in one and "setsid sleep" not in one for one in names[1:])

        wait_until(settled, f"{size} processes")
        return leader, number, found  # another look could miss one that executes `sleep` just now

    def clear(self) -> None:
        kill_marked(self.marks.is_ours)
        for leader in self._leaders:
            try:
                os.kill(leader, signal.SIGKILL)
                os.waitpid(leader, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


@pytest.fixture
def grove() -> Iterator[Grove]:
    grove = Grove()
    yield grove
    grove.clear()


ESCAPE = '(setsid sh -c "(setsid sleep NAP &)"); exec sleep NAP'


def test_mark_survives_session_double_fork_and_exec(grove: Grove) -> None:
    _, mark, pids = grove.plant(ESCAPE, 2)
    assert sorted(marked(lambda found: found == mark)) == sorted(pids)


def test_kill_ends_exactly_the_marked_tree(grove: Grove) -> None:
    bystander = subprocess.Popen(["sleep", nap()])
    try:
        _, doomed, victims = grove.plant(ESCAPE, 2)
        _, _, others = grove.plant(ESCAPE, 2)
        assert kill_marked(lambda found: found == doomed) is True
        wait_gone(victims)
        assert [pid for pid in [*others, bystander.pid] if not alive(pid)] == []
    finally:
        bystander.kill()
        bystander.wait()


def test_a_kill_imports_no_enums(grove: Grove) -> None:
    """They take several milliseconds, in which the loop serves nobody."""
    _, mark, victims = grove.plant(ESCAPE, 2)
    script = (
        "import sys\n"
        "from outfitter.host.unix import kill_marked\n"
        f"assert kill_marked(lambda found: found == {mark})\n"
        "print([name for name in ('enum', 'signal') if name in sys.modules])"
    )
    # Without `site`, which may import anything.
    argv = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    wait_gone(victims)
    assert done.stdout == "[]\n"


def test_marks_of_another_server_are_left_alone(grove: Grove) -> None:
    neighbour = Grove()
    try:
        assert neighbour.marks.prefix != grove.marks.prefix
        _, _, mine = grove.plant(ESCAPE, 2)
        _, _, theirs = neighbour.plant(ESCAPE, 2)
        kill_marked(grove.marks.is_ours)
        wait_gone(mine)
        assert [pid for pid in theirs if not alive(pid)] == []
    finally:
        neighbour.clear()


def test_end_of_a_session_leaves_other_sessions_alone(grove: Grove) -> None:
    loop = EpollLoop()
    try:
        _, _, mine = grove.plant(ESCAPE, 2, session=1)
        _, _, also_mine = grove.plant(ESCAPE, 2, session=1)
        _, _, theirs = grove.plant(ESCAPE, 2, session=2)
        Trees(loop, grove.marks).kill_session(1, loop.stop)
        loop.run()
        wait_gone([*mine, *also_mine])
        assert [pid for pid in theirs if not alive(pid)] == []
    finally:
        loop.close()


def test_session_that_cannot_be_looked_for_is_ended_later(
    grove: Grove, caplog: pytest.LogCaptureFixture
) -> None:
    loop = EpollLoop()
    ended: list[bool] = []
    try:
        _, _, pids = grove.plant(ESCAPE, 2, session=1)
        with no_descriptors():
            trees = Trees(loop, grove.marks)
            trees.kill_session(1, lambda: ended.append(True))
            loop.call_later(0.12 * SECOND, loop.stop)  # two more looks
            loop.run()
        assert (ended, [pid for pid in pids if not alive(pid)]) == ([], [])
        assert trees.ending == {1}
        assert caplog.text.count("cannot look for processes that are to be ended") == 1
        loop.call_later(0.1 * SECOND, loop.stop)
        loop.run()
        wait_gone(pids)
        assert ended == [True]
        assert trees.ending == set()
    finally:
        loop.close()


def test_kills_that_come_together_take_the_groups_at_once_and_the_rest_in_one_look(grove: Grove) -> None:
    loop = EpollLoop()
    try:
        trees = Trees(loop, grove.marks)
        planted = [grove.plant(ESCAPE, 2) for _ in range(3)]
        for leader, mark, _ in planted:
            trees.kill(leader, mark, reaped=False)
        wait_gone([leader for leader, _, _ in planted])
        loop.call_later(0.1, loop.stop)  # the look waits a moment for more to share it
        loop.run()
        wait_gone([pid for _, _, pids in planted for pid in pids])
    finally:
        loop.close()


def test_look_that_found_all_is_the_last(grove: Grove) -> None:
    loop = HandLoop()
    leader, mark, pids = grove.plant(ESCAPE, 2)
    Trees(loop, grove.marks).kill(leader, mark, reaped=False)
    loop.advance(1.0)
    wait_gone(pids)
    assert loop.waiting == 0


def test_tree_that_grows_while_it_is_killed_is_looked_at_again(
    grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[kill_marked.__module__], "_ROUNDS", 1)  # then any tree seems to grow
    loop = HandLoop()
    leader, mark, pids = grove.plant(ESCAPE, 2)
    trees = Trees(loop, grove.marks)
    trees.kill(leader, mark, reaped=False)
    loop.advance(tree._SWEEP_SECONDS)
    assert loop.waiting == 1
    assert trees.doomed == {mark}
    wait_gone(pids)
    loop.advance(tree._AGAIN_SECONDS)
    assert loop.waiting == 0
    assert trees.doomed == set()


def test_ourselves_and_the_unmarked_are_never_found(grove: Grove) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_RTTIME)
    assert soft == resource.RLIM_INFINITY
    _, _, plain = grove.plant("exec sleep NAP", 1, mark=False)
    assert not set(marked(grove.marks.is_ours)) & {os.getpid(), *plain}


def test_zombie_is_not_alive(grove: Grove) -> None:
    leader, mark, _ = grove.plant("exec sleep NAP", 1)
    os.kill(leader, signal.SIGKILL)
    os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    assert marked(lambda found: found == mark) == []


def test_without_marks_session_and_parentage_are_followed(grove: Grove) -> None:
    # Where the limit may not be set: job groups and children of the leader, not double forks.
    script = "sleep NAP & (sleep NAP & exec sleep NAP) & exec sleep NAP"
    leader, _, pids = grove.plant(script, 4, mark=False)
    _, _, others = grove.plant("exec sleep NAP", 1, mark=False)
    kill_session_members(leader, reaped=False)
    wait_gone(pids)
    assert [pid for pid in others if not alive(pid)] == []


def test_nothing_goes_on_because_its_child_was_killed_first() -> None:
    script = "(sh -c 'echo begun; exec sleep 600'; echo late) & wait"
    for _ in range(40):  # who is killed first depends on the numbers
        with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as shell:
            assert shell.stdout is not None
            assert shell.stdout.readline() == b"begun\n"
            kill_session_members(shell.pid, reaped=False)
            assert shell.stdout.read() == b""
