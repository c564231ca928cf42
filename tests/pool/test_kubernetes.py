"""The engine of Kubernetes, against recorded answers of its API: no cluster is asked here.

Pods are processes of this machine; what they serve, and how they are lost, is real.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from outfitter.errors import EngineFailed, LeaseLost
from outfitter.pool.engine import EXECUTOR_ENDED, Engine
from outfitter.pool.kubepods import now
from outfitter.pool.kubernetes import KubernetesEngine, KubernetesSlot
from outfitter.pool.pool import Pool
from tests.pool.engines import EngineTests, Given, kill_keeper
from tests.pool.engines import order as any_order
from tests.pool.support import short_folder, until
from tests.support.kubecluster import Cluster, cluster, recorded
from tests.support.machine import SECOND

IMAGE = "registry.example/outfitter:1"
Found = tuple[Cluster, dict[str, str]]


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    with short_folder() as folder, cluster(folder) as running:
        yield running


class TestKubernetes(EngineTests):
    """What every engine does; its answers are recorded."""

    kill = staticmethod(kill_keeper)
    image = IMAGE

    @pytest.fixture
    def opened(self, found: Found) -> Callable[[], Awaitable[Engine]]:
        async def make() -> Engine:
            engine = KubernetesEngine("", found[1])
            await engine.open()
            return engine

        return make


def run(found: Found, scenario: Callable[[KubernetesEngine], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        engine = KubernetesEngine("tests", found[1])
        await engine.open()
        try:
            await scenario(engine)
        finally:
            await engine.aclose()

    asyncio.run(asyncio.wait_for(all_of_it(), 60 * SECOND))


def test_a_pool_on_it_reports_losses_and_goes_on(found: Found) -> None:
    async def scenario() -> None:
        engine = KubernetesEngine("", found[1])
        async with asyncio.timeout(60 * SECOND), Pool(engine, size=1, image=IMAGE) as pool:
            lease = pool.lease()
            with pytest.raises(LeaseLost) as caught:
                async with lease as client:
                    words = (await client.shell("env")).text
                    (pod,) = found[0].pods.values()
                    os.kill(pod.process.pid, signal.SIGKILL)
                    await client.run(["sleep", "600"])
            assert caught.value.reason == EXECUTOR_ENDED and lease.node == "node-a"
            assert "KUBERNETES" not in words and "OUTFITTER_POD" not in words
            async with pool.lease() as client:
                assert (await client.run(["true"])).ok
            assert pool.status()["engine_says"] == "Kubernetes v1.31.2"

    asyncio.run(scenario())
    assert found[0].pods == {}


def test_a_frozen_pod_is_lost_and_ends_when_it_wakes(found: Found) -> None:
    async def scenario() -> None:
        engine = KubernetesEngine("", found[1])
        async with asyncio.timeout(90 * SECOND), Pool(engine, size=1, image=IMAGE) as pool:
            lease = pool.lease()
            with pytest.raises(LeaseLost) as caught:
                async with lease as client:
                    (place,), (pod,) = pool._places.values(), found[0].pods.values()
                    assert place.link is not None
                    frozen = (pod.process.pid, place.link.endpoint.pid)
                    for pid in frozen:
                        os.kill(pid, signal.SIGSTOP)
                    try:
                        await client.run(["true"])
                    finally:
                        for pid in frozen:
                            os.kill(pid, signal.SIGCONT)
            assert caught.value.reason == "silent"
            await until(lambda: not os.path.exists(f"/proc/{frozen[1]}"), "its server ends")
            assert pool.status()["suspects"] == ["node-a"]

    asyncio.run(scenario())
    assert found[0].pods == {}


def test_a_pod_whose_image_is_not_there_says_so(found: Found) -> None:
    async def scenario(engine: KubernetesEngine) -> None:
        slot = KubernetesSlot(engine, any_order(image=IMAGE))
        pod = {"metadata": {"name": "p-1"}, "status": recorded("pods")["no-image"]}
        slot.saw(now(pod))
        with pytest.raises(EngineFailed, match="pod p-1 cannot start: ImagePullBackOff"):
            await slot.serve(Given().card)
        assert not (await slot.stop()).confirmed

    run(found, scenario)


def test_a_history_that_is_too_old_is_looked_at_anew(found: Found) -> None:
    async def scenario(engine: KubernetesEngine) -> None:
        found[0].oldest = len(found[0].history) + 3  # a watch fails until so much has happened
        slot = await engine.start(any_order(image=IMAGE))
        assert (await slot.serve(Given().card)).node == "node-a"
        (pod,) = found[0].pods.values()
        gone = asyncio.ensure_future(slot.gone())
        pod.process.kill()
        assert "exit status 137" in (await gone).detail

    run(found, scenario)


def test_who_may_not_see_nodes_can_still_start_pods(found: Found) -> None:
    async def scenario(engine: KubernetesEngine) -> None:
        found[0].forbidden = {"/api/v1/nodes"}
        try:
            capacity = await engine.capacity()
        finally:
            found[0].forbidden = set()
        assert (capacity.nodes, capacity.grows) == ((), True)

    run(found, scenario)


def test_a_job_that_is_refused_says_why(found: Found) -> None:
    async def scenario(engine: KubernetesEngine) -> None:
        await engine.start(any_order(image=IMAGE))
        with pytest.raises(
            EngineFailed, match=r"did not take the job .*: jobs.batch already exists"
        ) as caught:
            await engine.start(any_order(image=IMAGE))
        assert not caught.value.retryable

    run(found, scenario)


def test_a_wrong_token_and_a_server_that_is_not_there(found: Found, tmp_path: Path) -> None:
    config = Path(found[1]["KUBECONFIG"]).read_text()
    (tmp_path / "config").write_text(config.replace("token-of-the-tests", "another"))
    for address, environ, said in (
        ("", {"KUBECONFIG": str(tmp_path / "config")}, "did not list jobs in namespace work: Unauthorized"),
        ("http://127.0.0.1:1", {}, "cannot be reached"),
    ):
        with pytest.raises(EngineFailed, match=said):
            asyncio.run(KubernetesEngine(address, environ).open())
