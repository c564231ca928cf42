"""The engine of a Ray cluster: a slot is an actor, which keeps servers on its node.

Ray places actors, waits for room and may add nodes; it carries no command and restarts nothing. Whether an
executor lives is known by the connection to it: Ray takes 12 s to notice a dead node by default. `import ray`
is here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from ..core.shape import Shape
from ..errors import AdapterMissing, EngineFailed
from .carried import heard, told
from .engine import (
    EXECUTOR_ENDED,
    NODE_LOST,
    OUT_OF_MEMORY,
    STARVED,
    Capacity,
    Card,
    Endpoint,
    Loss,
    Node,
    Stopped,
)
from .keeper import Keeper

try:
    import ray
    import ray.exceptions as failures
except ImportError:
    raise AdapterMissing("ray") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from .engine import Order
    from .settings import PoolSettings

    T = TypeVar("T")

STOP_SECONDS = 12.0  # for a keeper to end its server: its own limit, and the way there and back
HEAD_SECONDS = 15.0  # for an answer of the head, which takes milliseconds
REACH_SECONDS = 3.0  # to reach it at all
AGAIN_SECONDS = 0.5  # between two questions to an actor that cannot be reached now
# An actor without a server ends by itself after so long: Ray cannot end it where its raylet is frozen or has
# been given up. A server is asked for as soon as the actor is there, and again when a lease has ended.
LONELY_SECONDS = 5.0
# Set by whoever has an autoscaler, of which Ray says nothing: then no shape is refused as too large.
AUTOSCALES = "OUTFITTER_RAY_AUTOSCALES"
# Ray ends the process of a driver that has not reached the head for a minute, whatever else it does. The pool
# says by itself what has become of its leases, and those that run go on: for a day, as executors live.
_PATIENCE = ("RAY_gcs_rpc_server_reconnect_timeout_s", "86400")
_NODE_ID = "ray.io/node-id"  # a label that Ray gives to every node
# What Ray puts into the environment of its workers, and no command should have: the last has `nproc` say 1.
_OF_RAY = ("PYTHONBREAKPOINT", "SPT_NOENV", "OMP_NUM_THREADS")
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def engine(settings: PoolSettings) -> RayEngine:
    return RayEngine(settings.address, settings.relay)


def without_ray(environ: Mapping[str, str], gpus: float) -> dict[str, str]:
    """The node's own environment: what was there before Ray started its worker."""
    hidden = _OF_RAY if gpus else (*_OF_RAY, *_GPUS)
    found = {
        name: value for name, value in environ.items() if not name.startswith("RAY_") and name not in hidden
    }
    session = "/runtime_resources/"  # where Ray unpacks what a driver sends along
    paths = [path for path in found.pop("PYTHONPATH", "").split(":") if path and session not in path]
    return {**found, "PYTHONPATH": ":".join(paths)} if paths else found


def options(order: Order) -> dict[str, Any]:
    """What an actor asks of Ray for a slot. Raises EngineFailed."""
    shape = order.shape
    if shape.image:
        raise EngineFailed(
            "Ray cannot choose an image for one actor: leave `image` out, and label nodes instead"
        )
    found: dict[str, Any] = {"num_cpus": shape.cpus, "max_restarts": 0, "max_task_retries": 0}
    if shape.memory:
        found["memory"] = shape.memory
    if shape.gpus:
        found["num_gpus"] = shape.gpus
    selector = dict(shape.labels)
    if order.avoid:
        selector[_NODE_ID] = f"!in({','.join(order.avoid)})"
    if selector:
        found["label_selector"] = selector
    return found


class SlotKeeper:
    """The actor: a keeper on a node. Its methods return at once or wait in a thread, so none holds it up."""

    def __init__(self, pool_id: str, gpus: float, relay: str) -> None:
        self._keeper = Keeper(
            pool_id,
            node=ray.get_runtime_context().get_node_id(),
            listen=f"noise+{relay}" if relay else _listen(ray.util.get_node_ip_address()),
            environ=without_ray(os.environ, gpus),
            of_engine=_GPUS,
            watches=True,
        )
        threading.Thread(target=_leave, args=(self._keeper,), daemon=True).start()

    async def serve(self, card: Mapping[str, object], shape: Mapping[str, object]) -> dict[str, object]:
        return told(await asyncio.to_thread(self._keeper.serve, heard(Card, card), heard(Shape, shape)))

    async def prepare(self, card: Mapping[str, object], shape: Mapping[str, object]) -> dict[str, object]:
        return told(await asyncio.to_thread(self._keeper.prepare, heard(Card, card), heard(Shape, shape)))

    async def stop(self, keep: bool) -> dict[str, object]:
        return told(await asyncio.to_thread(lambda: self._keeper.stop(keep=keep)))

    async def wait(self) -> None:
        """Returns when the kernel has killed its server for want of memory. Else it never does: it fails when
        the actor is gone."""
        loop, starved = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(starved.set)

        self._keeper.starved = tell
        await starved.wait()


def _leave(keeper: Keeper) -> None:
    """Ends this process when its keeper has had no server for a while."""
    served = time.monotonic()
    while time.monotonic() - served < LONELY_SECONDS:
        time.sleep(LONELY_SECONDS / 10)
        if not keeper.idle:
            served = time.monotonic()
    keeper.stop()
    os._exit(0)


def _listen(address: str) -> str:
    """Where a server of a node with this address listens."""
    scheme = "ws" if address.startswith("127.") else "wss"
    return f"{scheme}://{f'[{address}]' if ':' in address else address}:0"


class RaySlot:
    """An actor, placed or waiting for a place."""

    def __init__(self, engine: RayEngine, actor: Any, shape: Shape) -> None:
        self._engine = engine
        self._actor = actor
        self._shape = shape
        self._placed = False
        self._stopped = asyncio.Event()

    async def serve(self, card: Card) -> Endpoint:
        return await self._begin(self._actor.serve, card)

    async def prepare(self, card: Card) -> Endpoint:
        return await self._begin(self._actor.prepare, card)

    async def _begin(self, method: Any, card: Card) -> Endpoint:
        try:
            endpoint = await method.remote(told(card), told(self._shape))
        except EngineFailed as error:  # what the keeper says; Ray adds where it was said
            raise EngineFailed(_cause(error), retryable=error.retryable) from None
        except failures.RayError as error:
            raise EngineFailed(_said(error), retryable=isinstance(error, _NOT_NOW)) from None
        self._placed = True
        return heard(Endpoint, endpoint)

    async def gone(self) -> Loss:
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while True:
                waiting = asyncio.ensure_future(self._wait())
                await asyncio.wait((stopped, waiting), return_when=asyncio.FIRST_COMPLETED)
                if stopped.done():
                    waiting.cancel()
                    return Loss(EXECUTOR_ENDED, "it was stopped")
                loss = await waiting
                if loss is not None:
                    return loss
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            stopped.cancel()

    async def _wait(self) -> Loss | None:
        """Why the actor is gone; None if it only cannot be reached now."""
        try:
            await self._actor.wait.remote()
        except _NOT_NOW:
            return None
        except failures.RayError as error:
            return Loss(_reason(str(error)), _said(error))
        return Loss(OUT_OF_MEMORY, STARVED)

    async def stop(self, *, keep: bool = False) -> Stopped:
        stopped = Stopped(False, "it has never been placed")
        if self._placed:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    stopped = heard(Stopped, await self._actor.stop.remote(keep))
            except TimeoutError:
                stopped = Stopped(False, f"its keeper has not answered for {STOP_SECONDS:g} s")
            except Exception as error:  # Ray raises what it likes, and nothing more can be done here
                stopped = Stopped(False, _said(error))
        self._stopped.set()
        self._engine.forget(self)
        try:
            await _ask_head(ray.kill, self._actor)
        except Exception as error:
            return Stopped(stopped.confirmed, stopped.detail or _said(error))
        return stopped


_NOT_NOW = (failures.ActorUnavailableError, failures.GetTimeoutError)


def _cause(error: Exception) -> str:
    """What was raised on the node, without Ray's traceback."""
    return str(getattr(error, "cause", None) or error)


def _said(error: Exception) -> str:
    """The last line that says something: Ray's texts begin with a page of ids."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("The actor", "The node", "Worker exit"))]
    return (told or lines or [type(error).__name__])[-1][:500]


def _reason(text: str) -> str:
    if "low on memory" in text or "OutOfMemory" in text:
        return OUT_OF_MEMORY
    return NODE_LOST if "its node has died" in text or "node failure" in text else EXECUTOR_ENDED


class RayEngine:
    """Slots on a Ray cluster that is already there. `address` is Ray's own: host:port, or empty for what
    RAY_ADDRESS says, then the cluster that runs on this machine. `relay` is the pool of a rendezvous, for
    nodes that cannot be reached."""

    name = "ray"

    def __init__(self, address: str = "", relay: str = "") -> None:
        self._address = address
        self._relay = relay
        self._ours = False  # whether we have connected this process to the cluster
        self._slots: set[RaySlot] = set()
        self._actor: Any = None

    async def open(self) -> None:
        if self._address.startswith("ray://"):
            raise EngineFailed(
                f"{self._address} is Ray's client protocol, and a pool must reach the nodes themselves: run "
                "it on a machine of the cluster, with the address of its head (HOST:6379)"
            )
        await asyncio.to_thread(self._connect)
        self._actor = ray.remote(SlotKeeper)

    def _connect(self) -> None:
        """Raises EngineFailed."""
        if ray.is_initialized():
            return  # the caller's own connection, which stays
        import pybase64

        import outfitter

        # Nodes need nothing of ours: what a server loads is sent along, once for each node.
        sent = [os.path.dirname(module.__file__ or "") for module in (outfitter, pybase64)]
        name, seconds = _PATIENCE
        given = name in os.environ
        os.environ.setdefault(name, seconds)
        try:
            ray.init(
                address=self._address or "auto",
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"py_modules": sent},
            )
        except ConnectionError as error:
            where = self._address or "RAY_ADDRESS or on this machine"
            raise EngineFailed(
                f"there is no Ray cluster at {where} ({_said(error)}): start one with "
                "`ray start --head`, or name its address",
                retryable=True,
            ) from None
        except Exception as error:  # another version of Ray or Python, a cluster that says no
            raise EngineFailed(f"Ray: {' '.join(str(error).split())[:500]}") from None
        finally:
            if not given:
                del os.environ[name]
        self._ours = True

    async def start(self, order: Order) -> RaySlot:
        wanted = options(order)
        try:
            actor = await _ask_head(self._start, wanted, order)
        except (failures.RayError, OSError) as error:
            raise EngineFailed(_said(error), retryable=True) from None
        except ValueError as error:  # a label that Ray does not take
            raise EngineFailed(f"Ray: {error}") from None
        slot = RaySlot(self, actor, order.shape)
        self._slots.add(slot)
        return slot

    def _start(self, wanted: dict[str, Any], order: Order) -> Any:
        return self._actor.options(**wanted).remote(order.pool_id, order.shape.gpus, self._relay)

    async def capacity(self) -> Capacity:
        try:
            return await _ask_head(_capacity)
        except Exception as error:
            raise EngineFailed(
                f"Ray does not say which nodes there are: {_said(error)}", retryable=True
            ) from None

    def forget(self, slot: RaySlot) -> None:
        self._slots.discard(slot)

    async def aclose(self) -> None:
        await asyncio.gather(*(slot.stop() for slot in list(self._slots)))
        if self._ours:
            self._ours = False
            with contextlib.suppress(TimeoutError):
                await _aside(ray.shutdown)


async def _ask_head(call: Callable[..., T], *given: object) -> T:
    """What a call returns for which Ray needs its head. Raises OSError where the head cannot be reached."""
    await _aside(_reach_head)
    return await _aside(call, *given)


async def _aside(call: Callable[..., T], *given: object) -> T:
    """What a call to Ray returns, made in a thread that nobody waits for: without the head it may not return.
    Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(how: Callable[[Any], None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if answer.done() else how(what))

    def run() -> None:
        try:
            found = call(*given)
        except Exception as error:
            tell(answer.set_exception, error)
        else:
            tell(answer.set_result, found)

    threading.Thread(target=run, name="ray-call", daemon=True).start()
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await answer
    except TimeoutError:
        raise TimeoutError(f"Ray's head has not answered for {HEAD_SECONDS:g} s") from None


def _reach_head() -> None:
    """Raises OSError. A call without the head would wait for a minute, and then Ray ends this process."""
    address = ray.get_runtime_context().gcs_address
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"Ray's head at {address} cannot be reached: {error}") from None


def _capacity() -> Capacity:
    # Ray says what is free in all, and not of each node.
    nodes = [_node(found) for found in ray.nodes() if found["Alive"]]
    return Capacity(tuple(nodes), bool(os.environ.get(AUTOSCALES)), f"Ray {ray.__version__}")


def _node(found: Mapping[str, Any]) -> Node:
    has = found["Resources"]
    labels = {name: str(value) for name, value in found.get("Labels", {}).items()}
    return Node(
        found["NodeID"], has.get("CPU", 0.0), int(has.get("memory", 0)), has.get("GPU", 0.0), labels=labels
    )
