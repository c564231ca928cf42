"""The real client and the real server in one process, joined by memory: nobody has to start anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .client.connect import Opening
from .client.environment import wire_env
from .client.session import RemoteSession
from .providers import inherited
from .server.server import Server
from .server.settings import ServerSettings
from .transport.memory import pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .transport.base import Dialled


def local(
    *,
    environment: Mapping[str, str] | None = None,
    summaries: bool = False,
    max_concurrency: int | None = None,
) -> Opening:
    """A client of a server inside this process, for `async with`; awaited, one that you close yourself.

        async with outfitter.local() as client:
            done = await client.run(["echo", "hello"], text=True)
            print(done.stdout.strip())  # hello

    `environment` is what commands inherit from; by default, the environment of this process. With
    `summaries`, each command reports where its environment came from. At most `max_concurrency` commands of
    `run`, `shell` and `lines` run at once; others wait for their turn. At the end of the block, or with
    `aclose()`, every command and all its descendants are ended. Raises FileInvalid.
    """
    given = None if environment is None else wire_env(environment)
    servers: list[Server] = []

    async def reach() -> Dialled:
        loop = asyncio.get_running_loop()
        executor = inherited.load() if given is None else given
        server = Server(loop, ServerSettings(), executor, retain=False, base="launcher")
        servers.append(server)
        if server.contract.settings(None).snapshot != "none":
            # A login shell takes its time, which is not the loop's.
            await asyncio.to_thread(server.contract.prepare)
        near, far = pair(loop)
        server.connect(far)  # at once before the client is at the other end: only then can it be closed
        return near

    def closed() -> None:
        for server in servers:
            server.stop("the local executor is closed")

    session = RemoteSession(
        reach,
        where="this machine",
        resumable=False,
        same_machine=True,
        summaries=summaries,
        max_concurrency=max_concurrency,
        closed=closed,
    )
    return Opening(session)
