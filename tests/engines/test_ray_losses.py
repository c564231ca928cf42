"""Pools on Ray whose parts are killed and frozen: every lease ends or is told lost, and nothing runs twice.

Real nodes, as processes of this machine. Each command writes to a journal, which is the witness. With
OUTFITTER_CHAOS=1 there are 200 leases with 2,000 commands in each test: 12 minutes on two cores. With -s they
say what they have seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from outfitter.core.leases import FENCE
from tests.support.machine import SECOND, wait_until
from tests.support.raycluster import RayCluster, RayNode, cluster_of, parent
from tests.support.tools import missing

FULL_SIZE = os.environ.get("OUTFITTER_CHAOS") == "1"
LEASES, COMMANDS, CPUS = (200, 10, 4) if FULL_SIZE else (24, 3, 3)
NODES = 3
SIZE = 8 if FULL_SIZE else 6  # two nodes have room for all of them
PATIENCE = 600.0 if FULL_SIZE else 150.0  # seconds for a driver to come to its end
GONE_SECONDS = 15 * SECOND  # until nothing of a pool is left on its nodes
# Until a loss is told: of a server and of its keeper, and of a node that is killed or silent.
SERVER_SECONDS, KEEPER_SECONDS, NODE_SECONDS = 0.5 * SECOND, 1 * SECOND, 5 * SECOND
HEAD_SECONDS = 55.0  # Ray's nodes live a minute without their head
pytestmark = pytest.mark.timeout(2 * PATIENCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    try:
        import ray  # noqa: F401
    except ImportError:
        missing("Ray", "run `scripts/engines`")
    with cluster_of(NODES, CPUS) as cluster:
        yield cluster


SERVER, KEEPER, RAYLET = "outfitter.cli.main", "ray::SlotKeeper", "raylet/raylet"


class Driver:
    """The program with the pool, and what it has said."""

    def __init__(self, cluster: RayCluster, folder: Path, retries: int, leases: int = LEASES) -> None:
        self.journal = folder / "journal"
        self.journal.touch()
        self._said = folder / "said"
        numbers = (leases, COMMANDS, SIZE, retries)
        command = [sys.executable, "-m", "tests.support.raydriver", cluster.address, str(self.journal)]
        with self._said.open("wb") as out, (folder / "stderr").open("wb") as errors:
            self.popen = subprocess.Popen(
                [*command, *map(str, numbers)], stdin=subprocess.DEVNULL, stdout=out, stderr=errors
            )
        self._errors = folder / "stderr"

    def said(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._said.read_text().splitlines() if line.endswith("}")]

    @property
    def outcomes(self) -> list[dict[str, object]]:
        return [one for one in self.said() if "outcome" in one]

    @property
    def losses(self) -> list[tuple[float, str]]:
        """When each lost lease was told so, and why."""
        return [(float(str(one["at"])), str(one["reason"])) for one in self.said() if "lost" in one]

    def wait_for(self, number: int) -> None:
        wait_until(
            lambda: len(self.outcomes) >= number or self.popen.poll() is not None,
            f"{number} leases have ended: {self._errors.read_text()[-2000:]}",
            90.0,
        )

    def finish(self) -> list[dict[str, object]]:
        assert self.popen.wait(PATIENCE) == 0, self._errors.read_text()[-3000:]
        return self.outcomes

    def began(self) -> list[str]:
        return [line.split()[0] for line in self.journal.read_text().splitlines() if line.endswith("began")]

    def names_of(self, pid: int) -> list[str]:
        """What a command of the journal is called, NUMBER.ATTEMPT.COMMAND, if the process is one."""
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return [name for path, name in pairwise(words) if path == str(self.journal)]

    def lived(self) -> dict[str, tuple[float, float]]:
        """Attempts, NUMBER.ATTEMPT, with their first and last sign of life."""
        found: dict[str, tuple[float, float]] = {}
        for line in self.journal.read_text().splitlines():
            words = line.split()
            if len(words) == 3 and words[1] == "lives":
                attempt, at = words[0].rpartition(".")[0], float(words[2])
                found[attempt] = (found.get(attempt, (at, at))[0], at)
        return found


@contextlib.contextmanager
def driving(cluster: RayCluster, *, retries: int = 0, leases: int = LEASES) -> Iterator[Driver]:
    with tempfile.TemporaryDirectory(prefix="od", dir="/tmp") as folder:
        driver = Driver(cluster, Path(folder), retries, leases)
        try:
            yield driver
        finally:
            if driver.popen.poll() is None:
                driver.popen.kill()
            driver.popen.wait()


def check(driver: Driver, outcomes: list[dict[str, object]], leases: int = LEASES) -> int:
    """What must be true in any case; returns how many leases were lost."""
    assert sorted(int(str(one["outcome"])) for one in outcomes) == list(range(leases))
    assert [one for one in outcomes if one["state"] not in ("done", "lost")] == []
    began = driver.began()
    assert len(began) == len(set(began)), "a command ran twice"
    for one in outcomes:
        if one["state"] == "done":
            last = f"{one['outcome']}.{one['tries']}"
            assert {f"{last}.{command}" for command in range(COMMANDS)} <= set(began)
    return sum(one["state"] == "lost" for one in outcomes)


def check_told(driver: Driver, since: float, bound: float, *reasons: str) -> None:
    """Every loss was told within its bound."""
    assert driver.losses
    _tell(f"{len(driver.losses)} losses told after at most {max(driver.losses)[0] - since:.2f} s")
    for at, reason in driver.losses:
        assert reason in reasons
        assert at - since <= bound, f"{reason} was told {at - since:.2f} s later"


def _tell(what: str) -> None:
    print(f"\n  {what}", end="", flush=True)


def check_nothing_is_left(cluster: RayCluster, driver: Driver, seconds: float = GONE_SECONDS) -> None:
    folder = Path(cluster.folder, f"outfitter-{os.getuid()}")

    def left() -> list[str]:
        ours = {part: cluster.named(part) for part in (SERVER, KEEPER, str(driver.journal))}
        return [*(f"{part} {pids}" for part, pids in ours.items() if pids), *map(str, folder.glob("[!.]*/*"))]

    begin = time.monotonic()
    try:
        wait_until(lambda: not left(), "nothing is left on the nodes", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()}") from None
    _tell(f"nothing was left {time.monotonic() - begin:.2f} s later")


def busy(cluster: RayCluster, part: str) -> tuple[RayNode, int]:
    """A node that has a process with this in its command line, and that process."""
    found: list[tuple[RayNode, int]] = []

    def looked() -> bool:
        found.extend((node, pid) for node in cluster.nodes for pid in node.named(part)[:1])
        return bool(found)

    wait_until(looked, f"a node has a process with {part}")
    return found[0]


def test_nothing_happens(cluster: RayCluster) -> None:
    with driving(cluster) as driver:
        assert check(driver, driver.finish()) == 0
        check_nothing_is_left(cluster, driver)


def frozen(cluster: RayCluster, driver: Driver) -> RayNode:
    """A node that has stopped in the middle of a command, whose lease is lost therefore."""
    while True:
        node, _ = busy(cluster, str(driver.journal))
        node.freeze()
        if with_more_to_do(node, driver):
            return node
        node.thaw()


def with_more_to_do(node: RayNode, driver: Driver) -> list[int]:
    """Its commands that are not the last of their leases: such a lease could end well before its loss is
    noticed."""
    last = str(COMMANDS - 1)
    pids = node.named(str(driver.journal))
    return [pid for pid in pids if any(n.rpartition(".")[2] != last for n in driver.names_of(pid))]


@pytest.mark.parametrize("generations", [1, 2], ids=["server", "keeper"])
def test_one_executor_is_killed(cluster: RayCluster, generations: int) -> None:
    """The parent of a command is its server, whose parent is its keeper."""
    with driving(cluster) as driver:
        driver.wait_for(4)
        node = frozen(cluster, driver)
        pid = with_more_to_do(node, driver)[0]
        for _ in range(generations):
            pid = parent(pid)
        os.kill(pid, signal.SIGKILL)
        killed = time.time()
        node.thaw()
        assert check(driver, driver.finish()) == 1
        check_told(driver, killed, (SERVER_SECONDS, KEEPER_SECONDS)[generations - 1], "executor-ended")
        check_nothing_is_left(cluster, driver)


def test_a_frozen_node_wakes_and_runs_nothing_again(cluster: RayCluster) -> None:
    """Its leases are lost; a retry elsewhere begins after what was frozen must have ended."""
    with driving(cluster, retries=1) as driver:
        driver.wait_for(4)
        node, froze = frozen(cluster, driver), time.time()
        begun = {name for pid in node.named(str(driver.journal)) for name in driver.names_of(pid)}
        try:
            assert check(driver, driver.finish()) == 0  # each was tried again
            lived = driver.lived()
            again = {number for number in range(LEASES) if f"{number}.2" in lived}
            assert again
            check_told(driver, froze, NODE_SECONDS, "silent")
            told = min(at for at, _ in driver.losses)
            for number in again:
                # Nobody has seen the end of a frozen attempt: the next one waits for the whole fence.
                assert lived[f"{number}.2"][0] >= told + FENCE
                first = lived.get(f"{number}.1")
                assert first is None or lived[f"{number}.2"][0] > first[1]
            before = set(driver.began())
        finally:
            node.thaw()
        woke = time.monotonic()
        wait_until(lambda: not node.named(SERVER), "the servers of the node end when it wakes", GONE_SECONDS)
        _tell(f"its last server ended {time.monotonic() - woke:.2f} s after it woke")
        # Some had a process already; what was asked before the freeze is not begun after it.
        assert set(driver.began()) - before <= begun
        check_nothing_is_left(cluster, driver)
    cluster.replace(node, CPUS)  # Ray may have given it up meanwhile, for good


def test_a_node_is_killed(cluster: RayCluster) -> None:
    with driving(cluster) as driver:
        driver.wait_for(4)
        node = frozen(cluster, driver)
        killed = time.time()
        node.end()
        assert 1 <= check(driver, driver.finish()) <= CPUS
        check_told(driver, killed, NODE_SECONDS, "executor-ended", "node-lost", "silent")
        check_nothing_is_left(cluster, driver)
    cluster.replace(node, CPUS)


def test_the_driver_freezes_and_its_commands_end_without_it(cluster: RayCluster) -> None:
    """The fence, with real retries: no attempt lives while the next one does."""
    leases = LEASES if FULL_SIZE else 12
    with driving(cluster, retries=2, leases=leases) as driver:
        driver.wait_for(1)
        os.kill(driver.popen.pid, signal.SIGSTOP)
        froze = time.monotonic()
        wait_until(
            lambda: not any(node.named(SERVER) for node in cluster.nodes),
            "servers without their driver end by themselves",
            FENCE + GONE_SECONDS,
        )
        _tell(f"the last server ended {time.monotonic() - froze:.2f} s after the driver froze")
        os.kill(driver.popen.pid, signal.SIGCONT)
        assert check(driver, driver.finish(), leases) == 0
        lived = driver.lived()
        for number in range(leases):
            for attempt in (1, 2):
                one, two = lived.get(f"{number}.{attempt}"), lived.get(f"{number}.{attempt + 1}")
                assert one is None or two is None or one[1] < two[0]
        check_nothing_is_left(cluster, driver)


def test_the_driver_is_killed(cluster: RayCluster) -> None:
    with driving(cluster) as driver:
        driver.wait_for(2)
        os.kill(driver.popen.pid, signal.SIGKILL)
        driver.popen.wait()
        check_nothing_is_left(cluster, driver)
        began = driver.began()
        assert len(began) == len(set(began))


def test_a_raylet_freezes_and_its_leases_go_on(cluster: RayCluster) -> None:
    """Ray gives the node up after a while. Nothing is lost: leases end there; the next ones are elsewhere."""
    with driving(cluster) as driver:
        driver.wait_for(4)
        node, _ = busy(cluster, SERVER)
        raylets = node.named(RAYLET)
        for pid in raylets:
            os.kill(pid, signal.SIGSTOP)
        assert check(driver, driver.finish()) == 0
        check_nothing_is_left(cluster, driver, FENCE + GONE_SECONDS)
    cluster.replace(node, CPUS)


def test_a_raylet_is_killed_and_takes_its_workers_along(cluster: RayCluster) -> None:
    """Ray's workers look every second whether their raylet is there, and end; so do our keepers."""
    with driving(cluster) as driver:
        driver.wait_for(4)
        node, _ = busy(cluster, SERVER)
        killed = time.time()
        for pid in node.named(RAYLET):
            os.kill(pid, signal.SIGKILL)
        if check(driver, driver.finish()):
            check_told(driver, killed, NODE_SECONDS, "executor-ended")
        check_nothing_is_left(cluster, driver)
    cluster.replace(node, CPUS)


def test_the_head_is_killed_and_what_runs_goes_on(cluster: RayCluster) -> None:
    """Last: nothing can be started on this cluster any more. Leases go on until Ray ends its nodes, a minute
    later; the pool's own process stays, and says of every lease what has become of it."""
    with driving(cluster) as driver:
        driver.wait_for(4)
        killed = time.time()
        cluster.head.end()
        outcomes = driver.finish()
        states = [str(one["state"]) for one in outcomes]
        _tell(f"{ {state: states.count(state) for state in sorted(set(states))} }")
        assert sorted(int(str(one["outcome"])) for one in outcomes) == list(range(LEASES))
        assert [one for one in outcomes if one["state"] not in ("done", "lost", "refused")] == []
        assert [at - killed for at, _ in driver.losses if at - killed < HEAD_SECONDS] == []
        began = driver.began()
        assert len(began) == len(set(began))
        check_nothing_is_left(cluster, driver)
