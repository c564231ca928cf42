"""The engine of Ray, on real nodes: raylets, workers and a head as processes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import outfitter
from outfitter.core.leases import Transition
from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed
from outfitter.pool.engine import (
    EXECUTOR_ENDED,
    NODE_LOST,
    OUT_OF_MEMORY,
    Card,
    Endpoint,
    Engine,
    Order,
    Stopped,
)
from outfitter.pool.settings import PoolWishes
from outfitter.record import replace
from outfitter.relay.known import Known, folder
from tests.pool.engines import WatchedServerTests, kill_keeper
from tests.pool.support import until
from tests.support.machine import SECOND
from tests.support.raycluster import RayCluster, cluster_of
from tests.support.relays import meeting
from tests.support.tools import missing


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    try:
        import ray  # noqa: F401
    except ImportError:
        missing("Ray", "run `scripts/engines`")
    with cluster_of(2) as cluster:
        yield cluster


@pytest.mark.timeout(300)
class TestRay(WatchedServerTests):
    kill = staticmethod(kill_keeper)

    @pytest.fixture
    def opened(self, cluster: RayCluster) -> Callable[[], Awaitable[Engine]]:
        from outfitter.pool.ray import RayEngine

        async def make() -> Engine:
            engine = RayEngine(cluster.address)
            await engine.open()
            return engine

        return make


def order(**shape: object) -> Order:
    return Order("s1", "pool1234", Shape(**shape), "0.1.0", ("n7", "n8"))  # type: ignore[arg-type]


@pytest.mark.usefixtures("cluster")
def test_what_an_actor_asks_for() -> None:
    from outfitter.pool.ray import options

    assert options(order(cpus=0.5, memory=1 << 30, gpus=1, labels={"zone": "a"})) == {
        "num_cpus": 0.5,
        "max_restarts": 0,
        "max_task_retries": 0,
        "memory": 1 << 30,
        "num_gpus": 1,
        "label_selector": {"zone": "a", "ray.io/node-id": "!in(n7,n8)"},
    }
    with pytest.raises(EngineFailed, match="image"):
        options(order(image="debian"))


@pytest.mark.usefixtures("cluster")
def test_nothing_of_ray_is_left_in_the_environment() -> None:
    from outfitter.pool.ray import without_ray

    environ = {"PATH": "/bin", "RAY_JOB_ID": "01", "SPT_NOENV": "1", "PYTHONBREAKPOINT": "x"}
    environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environ |= {"PYTHONPATH": "/tmp/ray/session_1/runtime_resources/py_modules_files/x:/own"}
    assert without_ray(environ, 0) == {"PATH": "/bin", "PYTHONPATH": "/own"}
    assert without_ray(environ, 1)["CUDA_VISIBLE_DEVICES"] == ""


def test_addresses_that_cannot_work_are_told(cluster: RayCluster) -> None:
    from outfitter.pool.ray import RayEngine

    with pytest.raises(EngineFailed, match="Ray's client protocol"):
        asyncio.run(RayEngine("ray://head:10001").open())


def test_a_call_that_never_returns_is_given_up_and_holds_up_no_end(
    cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outfitter.pool import ray as engine

    monkeypatch.setattr(engine, "HEAD_SECONDS", 0.1 * SECOND)
    never = threading.Event()
    with pytest.raises(TimeoutError, match="has not answered"):
        asyncio.run(engine._aside(never.wait))
    never.set()


def test_a_node_is_told_no_token_and_no_address_of_all_interfaces(cluster: RayCluster) -> None:
    async def scenario() -> list[bytes]:
        async with (
            outfitter.Pool("ray", address=cluster.address, size=1, limits="none") as pool,
            pool.lease(),
        ):
            (server,) = [pid for node in cluster.nodes for pid in node.named("outfitter.cli.main")]
            pids = [server, *(pid for node in cluster.nodes for pid in node.named("ray::SlotKeeper"))]
            files = [f"/proc/{pid}/{name}" for pid in pids for name in ("cmdline", "environ")]
            return [word for file in files for word in Path(file).read_bytes().split(b"\0")]

    words = asyncio.run(asyncio.wait_for(scenario(), 100))
    digest = words[words.index(b"--ws-token-sha256") + 1].decode()
    shown = [part for word in words for part in (word, word.partition(b"=")[2])]
    assert digest not in [hashlib.sha256(part).hexdigest() for part in shown]
    assert words[words.index(b"--listen") + 1] == b"ws://127.0.0.1:0"


def test_the_example_of_the_guide_runs_here(cluster: RayCluster) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / "examples" / "pool_map.py", "ray"],
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split(None, 2) for line in done.stdout.splitlines()[1:]] == [
        ["right", "done", "resolved"],
        ["wrong", "done", "tests fail"],
        ["stale", "done", "does not apply"],
    ]


def test_nodes_that_cannot_be_reached_are_found_at_a_rendezvous(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes of this cluster have a HOME of their own."""
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path / "user"))
    with meeting(tmp_path / "service") as service:
        for role, environ in (("use-pool", os.environ), ("execute-pool", {"HOME": cluster.folder})):
            known = Known(folder(environ))
            known.keep(known.token_file(service.url, "cluster", role), service.token("cluster", role))

        async def scenario() -> str:
            wishes: PoolWishes = {"address": cluster.address, "relay": f"{service.url}/cluster"}
            async with outfitter.Pool("ray", size=1, limits="none", **wishes) as pool, pool.lease() as client:
                (server,) = [pid for node in cluster.nodes for pid in node.named("outfitter.cli.main")]
                assert b"--listen" not in Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")
                return (await client.run(["echo", "here"])).text

        assert asyncio.run(asyncio.wait_for(scenario(), 100)) == "here\n"


class Cut:
    """A way to the servers of a cluster that can fall silent, as a network does that loses every packet."""

    def __init__(self) -> None:
        self.silent = False
        self._open: list[asyncio.Server | asyncio.StreamWriter] = []

    async def to(self, port: int) -> int:
        """The port of this way to a port."""

        async def connected(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
            far, back = await asyncio.open_connection("127.0.0.1", port)
            self._open += [back, out]
            await asyncio.gather(self._pump(near, back), self._pump(far, out))

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._open.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not self.silent:
                    target.write(data)
        if not self.silent:
            target.close()

    def close(self) -> None:
        for one in self._open:
            one.close()


def cut_engine(address: str, cut: Cut) -> Engine:
    """An engine of Ray whose driver is cut off from its first executor, and from that one's keeper."""
    from outfitter.pool.ray import RayEngine, RaySlot

    class CutEngine(RayEngine):
        async def start(self, order: Order) -> RaySlot:
            slot = await super().start(order)
            if order.slot_id != "s1":
                return slot
            serve, stop = slot.serve, slot.stop

            async def cut_serve(card: Card) -> Endpoint:
                endpoint = await serve(card)
                head, _, port = endpoint.url.rpartition(":")
                return replace(endpoint, url=f"{head}:{await cut.to(int(port))}")

            async def cut_stop(*, keep: bool = False) -> Stopped:
                return Stopped(False, "it cannot be reached") if cut.silent else await stop(keep=keep)

            slot.serve, slot.stop = cut_serve, cut_stop  # type: ignore[method-assign]
            return slot

    return CutEngine(address)


def test_behind_a_cut_a_task_is_tried_again_when_its_commands_have_ended(
    cluster: RayCluster, tmp_path: Path
) -> None:
    """They go on for seconds after the loss was told. Only the fence keeps the next attempt from them."""
    journal = tmp_path / "journal"
    journal.touch()
    signs = 'while :; do echo "$1 $(date +%s.%N)" >>"$0"; sleep 0.05; done'
    cut, told, attempts = Cut(), [0.0], 0

    async def task(client: outfitter.Client, item: int) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await client.run(["sh", "-c", signs, journal, "1"])
        await client.run(["sh", "-c", 'echo "2 $(date +%s.%N)" >>"$0"', journal], check=True)

    def happened(event: Transition) -> None:
        if (event.what, event.after) == ("lease", "lost"):
            told[0] = time.time()

    async def scenario() -> None:
        engine = cut_engine(cluster.address, cut)
        async with outfitter.Pool(engine, size=2, limits="none", on_event=happened) as pool:

            async def cut_off() -> None:
                await until(lambda: bool(journal.read_text()), "the command runs")
                cut.silent = True

            cutting = asyncio.ensure_future(cut_off())
            (outcome,) = [outcome async for outcome in pool.map(task, [1], retries=1)]
            await cutting
            cut.close()
            assert (outcome.state, outcome.attempts) == ("done", 2)

    asyncio.run(asyncio.wait_for(scenario(), 100 * SECOND))
    lines = [line.split() for line in journal.read_text().splitlines()]
    first = [float(at) for attempt, at in lines if attempt == "1"]
    (second,) = [float(at) for attempt, at in lines if attempt == "2"]
    assert told[0] < first[-1] < second


@pytest.mark.usefixtures("cluster")
def test_why_an_actor_is_gone() -> None:
    from outfitter.pool.ray import _reason

    usual = "The actor is dead because its worker process has died. Common causes: OOM killer; node deaths"
    assert _reason(usual) == EXECUTOR_ENDED
    assert _reason("The actor died because its node has died. Node Id: ab") == NODE_LOST
    assert _reason("Task was killed due to the node running low on memory.") == OUT_OF_MEMORY
