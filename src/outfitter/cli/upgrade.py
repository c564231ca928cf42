"""outfitter upgrade: has a server on this machine replace itself by the version that is installed now."""

from __future__ import annotations

import asyncio
import os
import signal
from json import dumps
from typing import TYPE_CHECKING, Any

from ..core.abilities import refusal
from ..errors import OutfitterError, SettingInvalid
from ..protocol.operating import UpgradesParams, UpgradesResult
from ..system import LINUX
from .base import why_stranger
from .console import say, waiting
from .target import named, reach

if TYPE_CHECKING:
    from ..client.client import Client
    from .target import Target

# What a server takes at most until it has done it or refused: it loads the new version, and waits up to a
# minute for what must not be interrupted.
_SECONDS = 120.0


def upgrade(server: str, flags: dict[str, Any]) -> int:
    """Asks a server, by its process id, name or URL; returns the exit status. Raises SettingInvalid."""
    if server.isdecimal():
        _signal(int(server))
        if flags["json"]:
            print(dumps({"outcome": "asked", "pid": int(server)}))
            return 0
        say(f"asked the server with process id {server} to replace itself; its log says if it refuses")
        return 0
    target = named({**flags, "on": server})
    if target.declared is None:
        raise SettingInvalid("there is no server behind `local`: give the process id or the URL of one")
    try:
        told, before = asyncio.run(_upgrade(target))
    except KeyboardInterrupt:
        return 130
    except TimeoutError:
        say(f"the server has not replaced itself within {_SECONDS:g} s; its log may say why")
        return 1
    except SettingInvalid:
        raise
    except OutfitterError as error:
        say(str(error))
        return 1
    if flags["json"]:
        print(dumps({**told.encode(), "before": before.version}))
        return 0 if told.outcome == "upgraded" else 1
    if told.outcome != "upgraded":
        say(f"the server goes on as version {told.version}: {told.reason}")
        return 1
    print(f"upgraded {target.name} from {before.version} to {told.version} (process id {told.pid})")
    return 0


async def _upgrade(target: Target) -> tuple[UpgradesResult, UpgradesResult]:
    async with asyncio.timeout(_SECONDS), reach(target, quiet=True) as client:
        if not client.offers("serverUpgrade"):
            raise SettingInvalid("this server cannot replace itself: stop it and start the new version")
        assert target.declared is not None
        stranger = why_stranger(client.info, target.declared.url)
        if stranger is not None:
            raise SettingInvalid(f"{stranger}: run `outfitter upgrade` there, as the server's user")
        before = await _ask(client, None)
        _signal(before.pid)
        with waiting("waiting for the new version"):
            return await _ask(client, before.count), before


async def _ask(client: Client, after: int | None) -> UpgradesResult:
    params = UpgradesParams(after).encode()
    return UpgradesResult.decode(await client.call("server/upgrades", params, repeat=True))


def _signal(pid: int) -> None:
    """Sends SIGUSR2, which would end a process that does not know it. Raises SettingInvalid."""
    if not LINUX:
        raise SettingInvalid(refusal("upgrade"))
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        raise SettingInvalid(f"no process has the id {pid}") from None
    if not caught >> (signal.SIGUSR2 - 1) & 1 or not _is_server(pid):
        raise SettingInvalid(f"process {pid} is not an Outfitter server that can replace itself")
    try:
        os.kill(pid, signal.SIGUSR2)
    except PermissionError:
        raise SettingInvalid(f"process {pid} belongs to another user") from None


def _is_server(pid: int) -> bool:
    """Whether its words are those of a server: others may wait for the same signal."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return b"serve" in words and any(b"outfitter" in os.path.basename(word) for word in words)
