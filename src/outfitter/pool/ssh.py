"""The engine of machines that are reached by ssh: a slot is one ssh, which runs a keeper and brings a socket.

ssh does all of it: it knows the hosts (~/.ssh/config), who may log in, and encrypts. Servers listen on a
socket of the user's, which ssh brings here; there is no port on any network. This is the one engine that
counts slots itself, since machines have no queue.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import tempfile
from typing import TYPE_CHECKING

from ..errors import EngineFailed, SettingInvalid
from ..record import replace
from .engine import Capacity, Node
from .remote import RemoteSlot, keep_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .engine import Endpoint, Order
    from .settings import PoolSettings

# Another program in the place of ssh, with its flags, as for git.
SSH_COMMAND = "OUTFITTER_SSH_COMMAND"
MAX_SLOTS = 1024  # of a host: each is a process there, and one here
# No questions, since nobody would answer; and its end when nothing is heard for 45 s, which frees what is
# left of a host that is gone. Losses are noticed sooner, by the connection to the server.
_FLAGS: tuple[str, ...] = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ControlPersist=no")
_FLAGS += ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")


def engine(settings: PoolSettings) -> SshEngine:
    return SshEngine(hosts(settings.address))


def hosts(text: str) -> dict[str, int]:
    """How many slots each host has: "build1=4,user@build2". Raises SettingInvalid."""
    found: dict[str, int] = {}
    for part in text.split(","):
        host, equals, slots = part.strip().partition("=")
        if not host or host.startswith("-") or (equals and not 1 <= _number(slots) <= MAX_SLOTS):
            raise SettingInvalid(
                f"address: {part.strip()!r} is no host: write the hosts of ssh, each with its number of "
                "slots, such as build1=4,user@build2=8"
            )
        found[host] = _number(slots) if equals else 1
    return found


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


class SshSlot(RemoteSlot):
    """One ssh: its commands reach the keeper, and it brings the sockets of servers here."""

    def __init__(self, engine: SshEngine, host: str, path: str, order: Order) -> None:
        super().__init__(engine.command(host, path, order), order.shape, engine.over)
        self.host = host
        self._engine = engine
        self._path = path
        self._brought: dict[str, str] = {}  # sockets there, and where they are here

    async def reached(self, endpoint: Endpoint, *, only: bool) -> Endpoint:
        there = endpoint.url.removeprefix("unix:")
        for other in [path for path in self._brought if only and path != there]:
            await self._control("cancel", other, self._brought.pop(other))
        if there not in self._brought:
            here = f"{self._path}-{secrets.token_hex(4)}"
            said = await self._control("forward", there, here)
            if said:
                raise EngineFailed(f"ssh cannot bring {there} of {self.host} here: {said}")
            self._brought[there] = here
        return replace(endpoint, url=f"unix:{self._brought[there]}")

    async def _control(self, what: str, there: str, here: str) -> str:
        return await self._engine.control(self.host, self._path, what, "-L", f"{here}:{there}")


class SshEngine:
    """Slots on hosts, so many on each."""

    name = "ssh"

    def __init__(self, room: Mapping[str, int], environ: Mapping[str, str] = os.environ) -> None:
        self._room = room
        self._environ = environ
        self._ssh = shlex.split(environ.get(SSH_COMMAND, "")) or ["ssh"]
        self._slots: set[SshSlot] = set()
        self._folder = ""

    async def open(self) -> None:
        if shutil.which(self._ssh[0]) is None:
            raise EngineFailed(f"there is no program {self._ssh[0]}: install the client of OpenSSH")
        self._folder = tempfile.mkdtemp(prefix="outfitter-ssh-")

    async def start(self, order: Order) -> SshSlot:
        host = self._place(order.avoid)
        slot = SshSlot(self, host, f"{self._folder}/{secrets.token_hex(4)}", order)
        self._slots.add(slot)
        try:
            await slot.begin()
        except EngineFailed:
            self._slots.discard(slot)
            raise
        return slot

    def _place(self, avoid: Sequence[str]) -> str:
        """The host with most room. Raises EngineFailed."""
        used = [slot.host for slot in self._slots]
        free = {host: slots - used.count(host) for host, slots in self._room.items()}
        wanted = {host: left for host, left in free.items() if host not in avoid} or free
        host = max(wanted, key=wanted.__getitem__)
        if wanted[host] < 1:
            raise EngineFailed(
                f"all {sum(self._room.values())} slots of {', '.join(self._room)} are in use: give hosts "
                "more slots, or the pool a smaller `size`",
                retryable=True,
            )
        return host

    def command(self, host: str, path: str, order: Order) -> list[str]:
        """The words that start a slot. The host's shell reads what stands behind its name."""
        keep = keep_command(order, host, "unix:", self._environ)
        return [*self._ssh, *_FLAGS, "-M", "-S", path, "--", host, f"exec {shlex.join(keep)}"]

    async def control(self, host: str, path: str, *words: str) -> str:
        """Tells the ssh of a slot to do something more; returns why it cannot."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *self._ssh, "-S", path, "-O", *words, "--", host, stdin=asyncio.subprocess.DEVNULL, stderr=pipe
        )
        said = (await child.communicate())[1].decode("utf-8", "replace").strip()
        return (said or f"exit status {child.returncode}") if child.returncode else ""

    def over(self, slot: RemoteSlot) -> None:
        self._slots.discard(slot)

    async def capacity(self) -> Capacity:
        """What hosts have is not asked: any shape fits a slot, and `slots` of each is the bound."""
        nodes = tuple([Node(host, float(slots), 1 << 60, 1024.0) for host, slots in self._room.items()])
        return Capacity(nodes, detail=f"ssh to {len(nodes)} hosts")

    async def aclose(self) -> None:
        await asyncio.gather(*(slot.stop() for slot in list(self._slots)))
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
