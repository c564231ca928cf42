"""The engine of a Kubernetes cluster: a slot is a Job, whose one container is a keeper.

Kubernetes queues, places and confines. A keeper is asked through the API, by attaching to its container for
as long as an answer takes; so leases go on while the API is away. One stream of changes tells of all pods of
a pool. Commands go straight to the pod, over TLS. Tested against recorded answers of the API, and not yet
against a cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..errors import EngineFailed
from .carried import heard, told
from .engine import EXECUTOR_ENDED, Capacity, Endpoint, Loss, Stopped
from .kubeapi import KubeApi
from .kubeconfig import found
from .kubepods import CONTAINER, POOL_LABEL, job, job_name, node, now, slot_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Card, Order
    from .kubeapi import Json
    from .kubepods import PodNow
    from .settings import PoolSettings

SERVE_SECONDS = 60.0  # for a keeper to end one server (10 s) and start another (30 s), and the way there
STOP_SECONDS = 12.0  # for it to end its server: its own limit, and the way there and back
LAST_SECONDS = 5.0  # for the last answer of a keeper whose pod is known to have ended
AGAIN_SECONDS = 1.0  # before changes are asked for again, when that failed
# Set by whoever has an autoscaler: then no shape is refused as too large.
AUTOSCALES = "OUTFITTER_KUBERNETES_AUTOSCALES"
_WITH_PODS = {"propagationPolicy": "Background"}  # what is deleted with a job


def engine(settings: PoolSettings) -> KubernetesEngine:
    return KubernetesEngine(settings.address)


class KubernetesSlot:
    """A job, whose pod waits for a place or runs."""

    def __init__(self, engine: KubernetesEngine, order: Order) -> None:
        self.name = job_name(order)
        self._engine = engine
        self._order = order
        self._pod = ""
        self._asked = 0
        loop = asyncio.get_running_loop()
        self._running: asyncio.Future[str] = loop.create_future()  # the pod's name
        self._gone: asyncio.Future[Loss] = loop.create_future()

    def saw(self, pod: PodNow) -> None:
        """What a change of the pod says. A second pod of the job would be nobody's."""
        if self._pod not in ("", pod.name):
            return
        self._pod = pod.name
        if pod.gone is not None:
            self.end(pod.gone)
        elif pod.stuck and not self._running.done():
            self._running.set_exception(EngineFailed(f"pod {pod.name} cannot start: {pod.stuck}"))
            self._running.exception()  # somebody may ask for it later, or nobody
        elif pod.runs and not self._running.done():
            self._running.set_result(pod.name)

    def end(self, loss: Loss) -> None:
        if not self._gone.done():
            self._gone.set_result(loss)

    @property
    def seen(self) -> bool:
        """Whether its pod has been there."""
        return bool(self._pod)

    async def serve(self, card: Card) -> Endpoint:
        return await self._begin("serve", card)

    async def prepare(self, card: Card) -> Endpoint:
        return await self._begin("prepare", card)

    async def _begin(self, how: str, card: Card) -> Endpoint:
        await asyncio.wait((self._running, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if self._gone.done():
            raise EngineFailed(self._gone.result().detail)
        asked = {how: told(card), "shape": told(self._order.shape)}
        answer = await self._ask(self._running.result(), asked, SERVE_SECONDS)
        if "endpoint" not in answer:
            raise EngineFailed(str(answer.get("failed")), retryable=bool(answer.get("retryable")))
        return heard(Endpoint, answer["endpoint"])

    async def gone(self) -> Loss:
        return await asyncio.shield(self._gone)

    async def stop(self, *, keep: bool = False) -> Stopped:
        stopped = Stopped(False, "its keeper has never run")
        if self._gone.done():
            stopped = Stopped(False, self._gone.result().detail)
        elif self._running.done() and self._running.exception() is None:
            try:
                answer = await self._ask(self._running.result(), {"stop": {"keep": keep}}, STOP_SECONDS)
                stopped = heard(Stopped, answer["stopped"])
            except (EngineFailed, KeyError) as error:
                stopped = Stopped(False, str(error))
        self.end(Loss(EXECUTOR_ENDED, "it was stopped"))
        await self._engine.delete(self)
        return stopped

    async def _ask(self, pod: str, what: Mapping[str, object], seconds: float) -> Json:
        """What its keeper answers. Raises EngineFailed, also when the pod is gone before it has."""
        self._asked += 1
        line = json.dumps({"number": self._asked, **what}).encode() + b"\n"
        asking = asyncio.ensure_future(self._converse(pod, line, self._asked))
        try:
            await asyncio.wait((asking, self._gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():  # what it has said last may still be on its way
                await asyncio.wait((asking,), timeout=LAST_SECONDS)
            if asking.done():
                return await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        if self._gone.done():
            raise EngineFailed(self._gone.result().detail)
        raise EngineFailed(f"its keeper has not answered for {seconds:g} s", retryable=True)

    async def _converse(self, pod: str, line: bytes, number: int) -> Json:
        async with self._engine.api.attached(pod, CONTAINER) as container:
            await container.write(line)
            async with aclosing(container.lines()) as lines:
                async for said in lines:
                    answer = _answer(said)
                    if answer.get("number", number if "failed" in answer else 0) == number:
                        return answer
        raise EngineFailed("its keeper ended before it had answered", retryable=True)


def _answer(line: bytes) -> Json:
    """A line of a keeper's; others print, too."""
    try:
        found = json.loads(line) if line.startswith(b"{") else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


class KubernetesEngine:
    """Slots in a namespace. `address` is a context of a kubeconfig, or the URL of `kubectl proxy`."""

    name = "kubernetes"

    def __init__(self, address: str = "", environ: Mapping[str, str] = os.environ) -> None:
        self._address = address
        self._environ = environ
        self._slots: dict[str, KubernetesSlot] = {}
        self._pools: dict[str, asyncio.Task[None]] = {}
        self.api: KubeApi

    async def open(self) -> None:
        self.api = KubeApi(found(self._address, self._environ), self._environ)
        await self.api.log_in()
        asked = await self.api.ask("GET", self._jobs, {"limit": "1"})
        asked.check(f"list jobs in namespace {self.api.namespace}")

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.api.namespace}/jobs"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.api.namespace}/pods"

    async def start(self, order: Order) -> KubernetesSlot:
        wanted = job(order, self._environ)
        if order.pool_id not in self._pools:
            self._pools[order.pool_id] = asyncio.get_running_loop().create_task(self._follow(order.pool_id))
        slot = KubernetesSlot(self, order)
        self._slots[slot.name] = slot
        try:
            (await self.api.ask("POST", self._jobs, {}, wanted)).check(f"take the job {slot.name}")
        except BaseException:
            self._slots.pop(slot.name, None)
            raise
        return slot

    async def capacity(self) -> Capacity:
        grows = bool(self._environ.get(AUTOSCALES))
        version = (await self.api.ask("GET", "/version", {})).check("say its version")
        detail = f"Kubernetes {version.get('gitVersion', '')}".strip()
        asked = await self.api.ask("GET", "/api/v1/nodes", {})
        if asked.status == 403:  # most people may not look at nodes: then nothing is known to be impossible
            return Capacity((), True, f"{detail}, whose nodes we may not see")
        items = asked.check("list nodes").get("items", ())
        return Capacity(tuple([one for one in map(node, items) if one is not None]), grows, detail)

    async def delete(self, slot: KubernetesSlot) -> None:
        """Deletes the job and its pod. Never raises: a keeper that nobody asks ends by itself."""
        self._slots.pop(slot.name, None)
        try:
            await self.api.ask("DELETE", f"{self._jobs}/{slot.name}", {}, _WITH_PODS)
        except EngineFailed:
            pass

    async def aclose(self) -> None:
        await asyncio.gather(*(slot.stop() for slot in list(self._slots.values())))
        for pool_id, following in self._pools.items():
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            selected = {"labelSelector": f"{POOL_LABEL}={pool_id}"}
            try:  # what was asked for and not answered may be there
                await self.api.ask("DELETE", self._jobs, selected, _WITH_PODS)
            except EngineFailed:
                pass  # as above

    # Changes

    async def _follow(self, pool_id: str) -> None:
        """Tells slots of their pods, as long as the pool is there."""
        selected = {"labelSelector": f"{POOL_LABEL}={pool_id}"}
        version = ""
        while True:
            try:
                if not version:
                    version = await self._look(selected)
                version = await self._listen(selected, version)
            except EngineFailed:
                version = ""
            if not version:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _look(self, selected: Mapping[str, str]) -> str:
        """All pods as they are; returns since when changes are to be told. Raises EngineFailed."""
        listed = (await self.api.ask("GET", self._pods, selected)).check("list pods")
        pods = {slot_of(pod): pod for pod in listed.get("items", ())}
        for name, slot in list(self._slots.items()):
            if name in pods:
                slot.saw(now(pods[name]))
            elif slot.seen:
                slot.end(Loss(EXECUTOR_ENDED, "its pod is gone"))
        return str(listed.get("metadata", {}).get("resourceVersion", ""))

    async def _listen(self, selected: Mapping[str, str], version: str) -> str:
        """Changes since a version, until they end; returns how far they went, or nothing if that was too
        long ago. Raises EngineFailed."""
        query = {**selected, "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with aclosing(self.api.watch(self._pods, query)) as changes:
            async for change in changes:
                kind, pod = change.get("type"), change.get("object", {})
                if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                    return ""
                version = str(pod.get("metadata", {}).get("resourceVersion", version))
                slot = self._slots.get(slot_of(pod))
                if slot is not None:
                    slot.saw(now(pod, deleted=kind == "DELETED"))
        return version
