"""The engine of a Slurm cluster: a slot is one job, which is one srun that runs a keeper on its node.

Slurm queues, places and reserves; srun's pipes are the keeper's. Commands go straight to the node: their
servers listen on the address that leads to this machine. Run it where srun works: on a login node.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from typing import TYPE_CHECKING

from ..errors import EngineFailed
from .engine import Capacity, Node
from .remote import RemoteSlot, keep_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Order
    from .settings import PoolSettings

TELL_SECONDS = 30.0  # for a question to Slurm's controller, which may be busy
_UP = ("idle", "mix", "alloc", "comp", "plnd")  # states of a node that runs jobs, or will again


def engine(settings: PoolSettings) -> SlurmEngine:
    return SlurmEngine(settings.address, relay=settings.relay)


def words(order: Order, partition: str, environ: Mapping[str, str], listen: str = "") -> list[str]:
    """The words that start a slot. Raises EngineFailed."""
    shape = order.shape
    if shape.image:
        raise EngineFailed("Slurm itself runs no images: leave `image` out")
    found = ["srun", "--quiet", f"--job-name={job_name(order.pool_id)}", "--ntasks=1", "--unbuffered"]
    # Nothing of our environment: that of the node counts, as a login shell there has it.
    found += ["--export=NONE", f"--cpus-per-task={max(1, math.ceil(shape.cpus))}"]
    if shape.memory:
        found.append(f"--mem={math.ceil(shape.memory / (1 << 20))}M")
    if shape.gpus:
        found.append(f"--gres=gpu:{math.ceil(shape.gpus)}")
    if shape.labels:
        if any(value != "1" for value in shape.labels.values()):
            raise EngineFailed('labels of Slurm are features of its nodes: write them as {"NAME": "1"}')
        found.append(f"--constraint={'&'.join(sorted(shape.labels))}")
    if order.avoid:
        found.append(f"--exclude={','.join(order.avoid)}")
    if partition:
        found.append(f"--partition={partition}")
    keep = keep_command(order, "", listen, environ)
    return [*found, "/bin/sh", "-lc", 'exec "$@"', "sh", *keep]


def job_name(pool_id: str) -> str:
    return f"outfitter-{pool_id}"


def nodes(table: str) -> tuple[Node, ...]:
    """What `sinfo` says, a line for each node and partition: name|cpus|MiB|gres|features|state."""
    found: dict[str, Node] = {}
    for line in table.splitlines():
        name, cpus, memory, gres, features, state = line.split("|")
        if state.startswith(_UP):
            labels = {one: "1" for one in features.split(",") if one not in ("", "(null)")}
            found[name] = Node(name, float(cpus), int(memory) << 20, float(_gpus(gres)), labels=labels)
    return tuple(found.values())


def _gpus(gres: str) -> int:
    """Of `gpu:tesla:2(S:0-1),shard:4`."""
    counted = 0
    for one in gres.split(","):
        kind, _, rest = one.partition("(")[0].partition(":")
        if kind == "gpu":
            last = rest.rpartition(":")[2]
            counted += int(last) if last.isdigit() else 1
    return counted


class SlurmEngine:
    """Slots as jobs of a partition, or of the one that is the default."""

    name = "slurm"

    def __init__(
        self, partition: str = "", environ: Mapping[str, str] = os.environ, *, relay: str = ""
    ) -> None:
        self._listen = f"noise+{relay}" if relay else ""
        self._partition = partition
        self._environ = environ
        self._slots: set[RemoteSlot] = set()
        self._pools: set[str] = set()

    async def open(self) -> None:
        if shutil.which("srun") is None:
            raise EngineFailed(
                "there is no srun here: start the pool on a machine of the cluster, such as its login node"
            )
        await self.capacity()

    async def start(self, order: Order) -> RemoteSlot:
        command = words(order, self._partition, self._environ, self._listen)
        slot = RemoteSlot(command, order.shape, self._slots.discard)
        self._pools.add(order.pool_id)
        self._slots.add(slot)
        try:
            await slot.begin()
        except EngineFailed:
            self._slots.discard(slot)
            raise
        return slot

    async def capacity(self) -> Capacity:
        asked = ["sinfo", "--noheader", "--Node", "--format=%n|%c|%m|%G|%f|%t"]
        if self._partition:
            asked.append(f"--partition={self._partition}")
        return Capacity(
            nodes(await self._told(*asked)), detail=(await self._told("sinfo", "--version")).strip()
        )

    async def _told(self, *argv: str) -> str:
        """What a program of Slurm's prints. Raises EngineFailed."""
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise EngineFailed(f"cannot start {argv[0]}: {error.strerror}") from None
        try:
            async with asyncio.timeout(TELL_SECONDS):
                out, said = await child.communicate()
        except TimeoutError:
            child.kill()
            await child.wait()
            raise EngineFailed(f"{argv[0]} has not answered for {TELL_SECONDS:g} s", retryable=True) from None
        if child.returncode:
            words = " ".join(said.decode("utf-8", "replace").split())
            raise EngineFailed(f"{argv[0]} failed: {words}", retryable=True)
        return out.decode("utf-8", "replace")

    async def aclose(self) -> None:
        await asyncio.gather(*(slot.stop() for slot in list(self._slots)))
        for pool_id in self._pools:  # one whose srun was killed may have left its job in the queue
            try:
                await self._told("scancel", "--quiet", f"--name={job_name(pool_id)}")
            except EngineFailed:
                pass  # the keeper's own end is the other way
