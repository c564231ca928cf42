"""A place that can start executors: what a pool asks of it, and nothing about queues, retries or leases.

    engine.open()            can it be reached
    engine.start(order)      a slot, which the engine may make wait until it has room
    slot.serve(card)         a new server in the slot, with a new workspace; the one before is ended first
    slot.prepare(card)       the same beside the one before, which a later serve with that card ends
    slot.gone()              returns when the engine knows that the slot is gone
    slot.stop()              ends the slot
    engine.capacity()        nodes and what they have; can a shape ever be placed
    engine.aclose()          ends every slot that it started

The data path is not the engine's: a client dials the `Endpoint`, and notices by itself whether it lives.
One file of tests (tests/pool/engines.py) runs against every engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..record import EMPTY, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.shape import Shape

# Why an executor is gone: `Loss.reason`, and `LeaseLost.reason`.
NODE_LOST, EXECUTOR_ENDED, OUT_OF_MEMORY = "node-lost", "executor-ended", "out-of-memory"
SILENT, ENGINE_LOST = "silent", "engine-lost"
REASONS = (NODE_LOST, EXECUTOR_ENDED, OUT_OF_MEMORY, SILENT, ENGINE_LOST)

STARVED = "the kernel has killed its server: out of memory"  # what a keeper says of that

# What confines the commands of a slot: `Endpoint.limits`.
CGROUP2, CGROUP1, RLIMIT, NONE = "cgroup2", "cgroup1", "rlimit", "none"


@record
class Order:
    """A slot that a pool wants. `avoid` names nodes where it should not be, if the engine can say so."""

    slot_id: str  # unique in the pool
    pool_id: str  # 8 to 16 characters of a-z, 0-9: a folder's name
    shape: Shape
    version: str  # Outfitter's, where the pool runs
    avoid: tuple[str, ...] = ()


@record
class Card:
    """One server of a slot: what it needs to know before anybody dials it.

    `lease_id` is also the name of its workspace's folder. `keep_last`: the workspace of the server before is
    renamed and stays. `env` is a layer over the node's own environment. The pool's `setup` is not here: the
    pool runs it over the data path, where the environment contract holds and output can be read.
    """

    lease_id: str
    token_sha256: str  # the engine never sees the token; empty where the endpoint is a program
    fence: float  # seconds without a client after which the server ends its commands and itself
    keepalive: float  # seconds of silence after which each side asks the other
    retention: float = 6.0  # seconds that the server keeps a session for its client to come back
    env: Mapping[str, str] = EMPTY
    limits: str = "wanted"  # "required": refuse (EngineFailed) where there are no control groups; "none"
    home: str = "lease"  # "node": commands have the HOME of the node's user
    keep_last: bool = False


@record
class Endpoint:
    """Where a new server is reached. Exactly one of `url`, `argv` and `relay` is set."""

    url: str = ""  # ws://127.0.0.1:PORT, unix:///..., or wss:// with `certificate`
    certificate: str = ""  # PEM: the only authority that the client trusts, without a host name check
    argv: tuple[str, ...] = ()  # a program that speaks the protocol on its stdin and stdout
    relay: str = ""  # noise+https://REGISTRY/ENVIRONMENT
    node: str = ""  # the engine's name of the node, as `Order.avoid` has it
    workspace: str = ""  # the directory in which commands start
    boot_id: str = ""
    pid: int = 0
    version: str = ""  # Outfitter's on the node
    limits: str = NONE
    kept: str = ""  # where the workspace of the server before is now, if the card has asked for that
    kept_bytes: int = 0  # in its files


@record
class Loss:
    """The engine knows that a slot is gone: one of REASONS, and what the engine said."""

    reason: str
    detail: str = ""


@record
class Stopped:
    """`confirmed`: the server has exited and nothing of it lives, seen by the slot's own keeper."""

    confirmed: bool
    detail: str = ""
    kept: str = ""  # as of an Endpoint
    kept_bytes: int = 0


@record
class Node:
    """What a node has in all, and what of that is free. Memory is in bytes."""

    name: str
    cpus: float
    memory: int
    gpus: float = 0.0
    free_cpus: float = 0.0
    free_memory: int = 0
    free_gpus: float = 0.0
    labels: Mapping[str, str] = EMPTY

    def holds(self, shape: Shape) -> bool:
        """Whether the shape fits into this node when nothing else is there."""
        labelled = all(self.labels.get(name) == value for name, value in shape.labels.items())
        return (
            labelled and shape.cpus <= self.cpus and shape.memory <= self.memory and shape.gpus <= self.gpus
        )


@record
class Capacity:
    """The nodes now. `grows`: an autoscaler may add others, so nothing is impossible for certain."""

    nodes: tuple[Node, ...]
    grows: bool = False
    detail: str = ""  # what the engine says of itself, for status: its name and version

    def ever(self, shape: Shape) -> bool:
        """Whether a slot of this shape can be placed, now or later."""
        return self.grows or any(node.holds(shape) for node in self.nodes)


class Slot(Protocol):
    """One executor's place. Its calls are not made at the same time, except `gone` and `stop`."""

    async def serve(self, card: Card) -> Endpoint:
        """Ends the server before, if any, and starts a new one, ready to be dialled.

        Waits until the engine has placed the slot. Raises EngineFailed, also if the server before cannot be
        ended.
        """
        ...

    async def prepare(self, card: Card) -> Endpoint:
        """Starts the server of the next lease while the present one goes on, ready to be dialled.

        `serve` with the same `lease_id` then ends the present one and returns this one. Raises EngineFailed.
        """
        ...

    async def gone(self) -> Loss:
        """Returns when the engine knows that the slot is gone, also by `stop`. It may be cancelled."""
        ...

    async def stop(self, *, keep: bool = False) -> Stopped:
        """Ends the server and the slot. Never raises; what it could not see done is not confirmed.

        With `keep` the last workspace stays.
        """
        ...


class Engine(Protocol):
    """Where slots are. A pool calls `open` first and `aclose` last."""

    name: str

    async def open(self) -> None:
        """Raises EngineFailed, with what to type if the engine is not there. Never starts a cluster."""
        ...

    async def start(self, order: Order) -> Slot:
        """Asks for a slot, and does not wait for its place. Raises EngineFailed."""
        ...

    async def capacity(self) -> Capacity:
        """Raises EngineFailed."""
        ...

    async def aclose(self) -> None:
        """Ends every slot of this pool, and what they left on their nodes."""
        ...
