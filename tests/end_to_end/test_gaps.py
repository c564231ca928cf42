"""Events that a server sent and that did not come are read, or an error; on both servers.

That one read does it, tests/client/test_client.py says: a busy machine may have a client look once more.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

import outfitter
from outfitter.client.process import RemoteProcess
from outfitter.errors import OutputLost
from tests.support.machine import SECOND
from tests.support.servers import Server, serving

Drops = Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module", params=["codex", "outfitter"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory.mktemp("gaps")) as server:
        yield server


class Sieve:
    """Stands between a client and a server, and lets all messages through but those that `drops` names."""

    def __init__(self, target: str, drops: Drops) -> None:
        self.read: list[str] = []  # of which processes the client has read what it missed
        self.dropped = asyncio.Event()
        self.url = ""
        self._target = target
        self._drops = drops

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Sieve]:
        async with serve(self._pass, "127.0.0.1", 0, compression=None, max_size=None) as listening:
            port = next(iter(listening.sockets)).getsockname()[1]
            self.url = f"ws://127.0.0.1:{port}"
            yield self

    async def _pass(self, client: ServerConnection) -> None:
        async with connect(self._target, compression=None, max_size=None) as server:
            back = asyncio.create_task(self._answers(server, client))
            with contextlib.suppress(ConnectionClosed):
                async for message in client:
                    said = json.loads(message)
                    if said.get("method") == "process/read":
                        self.read.append(said["params"]["processId"])
                    await server.send(message)
            back.cancel()

    async def _answers(self, server: Any, client: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in server:
                said = json.loads(message)
                if said.get("method") == "process/output" and self._drops(said["params"]):
                    self.dropped.set()
                else:
                    await client.send(message)


def through(server: Server, drops: Drops, scenario: Callable[[outfitter.Client, Sieve], Any]) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(30 * SECOND),
            Sieve(server.url, drops).open() as sieve,
            outfitter.connect(sieve.url) as client,
        ):
            await scenario(client, sieve)

    asyncio.run(run())


async def printed(process: RemoteProcess, until: bytes) -> bytes:
    """What a command that goes on has printed, up to a text."""
    found = b""
    async for event in process:
        found += event.data if isinstance(event, outfitter.Output) else b""
        if found.endswith(until):
            return found
    raise AssertionError(f"it ended with {found[-100:]!r}")


def test_an_event_that_does_not_come_is_read_while_its_command_runs(server: Server) -> None:
    async def scenario(client: outfitter.Client, sieve: Sieve) -> None:
        process = await client.start(["cat"], stdin=True)
        await process.write(b"1\n")
        assert await printed(process, b"1\n") == b"1\n"
        await process.write(b"2\n")
        await sieve.dropped.wait()
        await process.write(b"3\n")  # what comes of it shows the gap
        assert await printed(process, b"3\n") == b"2\n3\n"
        assert process.process_id in sieve.read
        await process.terminate()

    through(server, lambda params: base64.b64decode(params["chunk"]) == b"2\n", scenario)


def test_what_is_no_longer_retained_is_an_error_of_that_command_alone(server: Server) -> None:
    async def scenario(client: outfitter.Client, sieve: Sieve) -> None:
        other = await client.start(["cat"], stdin=True)
        flood = await client.start(
            ["sh", "-c", "head -c 3000000 /dev/zero; echo; echo done; exec sleep 1000"]
        )
        with pytest.raises(OutputLost, match="no longer retained"):
            await printed(flood, b"done\n")
        assert flood.process_id in sieve.read
        await other.write(b"still here\n")
        assert await printed(other, b"still here\n") == b"still here\n"
        await other.terminate()

    def drops(params: dict[str, Any]) -> bool:
        chunk = base64.b64decode(params["chunk"])
        return chunk.startswith(b"\0") and not chunk.endswith(b"done\n")

    through(server, drops, scenario)
