"""The real client and the real server in one process, joined by memory: nobody has to start anything."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from .client.client import Client
from .client.session import RemoteSession
from .providers import inherited
from .server.server import Server
from .server.settings import ServerSettings
from .transport.memory import pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from .transport.base import Dialled


@contextlib.asynccontextmanager
async def local(
    *, environment: Mapping[str, str] | None = None, summaries: bool = False
) -> AsyncIterator[Client]:
    """A client of a server inside this process.

    `environment` is what commands inherit from; by default, the environment of this process. With
    `summaries`, each command reports where its environment came from. At the end of the block, every command
    and all its descendants are ended. Raises FileInvalid.
    """
    loop = asyncio.get_running_loop()
    executor = inherited.load() if environment is None else dict(environment)
    server = Server(loop, ServerSettings(), executor, retain=False, base="launcher")
    near, far = pair(loop)

    async def reach() -> Dialled:
        return near

    session = RemoteSession(
        reach, where="this machine", resumable=False, same_machine=True, summaries=summaries
    )
    try:
        contract = server.contract
        if contract.settings(None).snapshot != "none":
            await asyncio.to_thread(contract.prepare)  # a login shell takes its time, which is not the loop's
        server.connect(far)  # at once before the client is at the other end: only then can it be closed
        await session.open()
        yield Client(session)
    finally:
        try:
            await session.aclose()
        finally:  # also when that is cancelled
            server.stop("the local executor is closed")
