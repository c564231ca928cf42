"""From a client's span to the server's, over a socket, with the real SDK; and what the server counted."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import use_span

import outfitter
from outfitter.client.client import Client
from outfitter.errors import RequestFailed
from outfitter.observe.metrics import Metrics
from outfitter.observe.observer import Several
from outfitter.server.auth import gate
from outfitter.server.observed import observed
from outfitter.server.server import Server
from outfitter.server.settings import ServerSettings
from outfitter.transport.listener import Listener
from outfitter.transport.sockets import listen
from tests.observe.test_metrics import samples
from tests.observe.test_traces import Exported
from tests.support.machine import SECOND


class Observed:
    """A server on this loop, what it has counted and traced, and a client over a socket."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.exported = Exported()
        self.metrics = Metrics()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        loop: Any = asyncio.get_running_loop()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TRACESTATE": "stale=1"}
        traces = self.exported.traces
        server = Server(
            loop,
            ServerSettings(),
            environment,
            observer=Several((self.metrics, traces)),
            connection=observed(self.metrics, traces),
        )
        self.metrics.watch(server)
        sock = listen("127.0.0.1", 0)
        listener = Listener(loop, sock, gate(frozenset(), None, None), server.connect, 10)
        try:
            async with outfitter.connect(f"ws://127.0.0.1:{sock.getsockname()[1]}") as client:
                yield client
        finally:
            server.stop()
            listener.stop()

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.exported.spans if one.name == name]

    def run(self, scenario: Callable[[Client], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            async with self.client() as client:
                await scenario(client)

        asyncio.run(asyncio.wait_for(all_of_it(), 60 * SECOND))


@pytest.fixture
def there(tmp_path: Path) -> Observed:
    return Observed(tmp_path)


def test_spans_of_server_and_process_are_below_the_clients(there: Observed, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (3 << 20))

    async def scenario(client: Client) -> None:
        with use_span(there.exported.tracer.start_span("work")) as span:
            done = await client.run(["sh", "-c", "printf 12345; exit 3"])
            assert (done.exit_code, done.stdout) == (3, b"12345")
            await client.files.write(str(big) + "2", b"y" * (1 << 20))  # whose params are put together apart
            assert len(await client.files.read(str(big))) == 3 << 20
            with pytest.raises(RequestFailed):
                await client.call("/etc/shadow", {})
            own = span.get_span_context()
        await client.call("environment/status", {})
        [start] = there.named("process/start")
        assert start.parent is not None and start.parent.span_id == own.span_id
        [process] = there.named("process")
        assert process.parent == start.context
        assert dict(process.attributes or {}) == {
            "process.exit.code": 3,
            "outfitter.process.output_bytes": 5,
        }
        [unknown] = there.named("unknown")
        assert dict(unknown.attributes or {})["error.type"] == "method-unknown"
        for name in ("fs/writeFile", "fs/writeBlock", "fs/readFile", "fs/open", "fs/readBlock", "unknown"):
            for one in there.named(name):
                assert one.parent is not None and one.parent.span_id == own.span_id, name
        assert there.named("fs/writeFile") + there.named("fs/writeBlock")
        assert there.named("fs/readFile") + there.named("fs/readBlock")
        # What is asked outside of a span has no parent.
        assert [one.parent for one in there.named("environment/status")] == [None]
        told = str([(one.name, one.attributes, one.events) for one in there.exported.spans])
        assert not any(word in told for word in ("printf", "big", "shadow", str(tmp_path)))

    there.run(scenario)


def test_long_poll_is_open_until_it_is_answered_and_lost_with_its_connection(there: Observed) -> None:
    async def scenario(client: Client) -> None:
        process = await client.start(["cat"], stdin=True)
        params = {"processId": process.process_id, "afterSeq": 0, "waitMs": 60_000}
        first = asyncio.ensure_future(client.call("process/read", params))
        await client.call("environment/status", {})
        assert there.named("process/read") == []
        await process.write(b"hello\n")
        answer = await first
        assert base64.b64decode(answer["chunks"][0]["chunk"]) == b"hello\n"
        assert len(there.named("process/read")) == 1
        lost = asyncio.ensure_future(client.call("process/read", {**params, "afterSeq": 1}))
        await client.call("environment/status", {})
        connection = client._session.link.connection
        assert connection is not None
        connection.transport.close(1000, "")
        with pytest.raises(outfitter.Disconnected):
            await lost
        assert (await client.run(["true"])).exit_code == 0  # after the recovery
        outcomes = [dict(one.attributes or {}).get("error.type") for one in there.named("process/read")]
        assert outcomes[:2] == [None, "lost"]
        told = samples(there.metrics)
        assert told["outfitter_requests_total", "process/read", "lost"] == 1
        assert told["outfitter_session_events_total", "detached"] == 1
        assert told["outfitter_session_events_total", "resumed"] == 1
        assert told["outfitter_processes",] == 1

    there.run(scenario)


def test_numbers_are_those_of_what_happened(there: Observed, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (3 << 20))

    async def scenario(client: Client) -> None:
        assert (await client.run(["true"])).exit_code == 0
        assert (await client.run(["sh", "-c", "kill -9 $$"])).exit_code == 137
        await client.call("fs/readFile", {"path": big.as_uri()})
        told = samples(there.metrics)
        assert told["outfitter_message_bytes_total", "out"] > (3 << 20) * 4 // 3  # sent in pieces
        assert told["outfitter_requests_total", "fs/readFile", "ok"] == 1
        assert told["outfitter_processes_started_total",] == 2
        assert told["outfitter_processes_ended_total", "success"] == 1
        assert told["outfitter_processes_ended_total", "signal"] == 1
        assert (told["outfitter_connections",], told["outfitter_sessions", "attached"]) == (1, 1)
        [killed] = [
            one for one in there.named("process") if "outfitter.process.signal" in (one.attributes or {})
        ]
        assert dict(killed.attributes or {})["outfitter.process.signal"] == 9

    there.run(scenario)


@pytest.mark.parametrize("wanted", [True, False])
def test_commands_get_the_context_of_their_request_where_the_user_wants_it(
    wanted: bool, there: Observed, tmp_path: Path
) -> None:
    file = tmp_path / ".config" / "outfitter" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"[trace]\ncommands = {str(wanted).lower()}\n")
    show = ["sh", "-c", 'echo "$TRACEPARENT $TRACESTATE"']

    async def scenario(client: Client) -> None:
        done = await client.run(show)
        [start] = there.named("process/start")
        assert start.context is not None
        ids = f"{start.context.trace_id:032x}-{start.context.span_id:016x}"
        said = done.stdout.decode().split(" ")
        if wanted:
            assert said[0].startswith(f"00-{ids}-") and said[1] == "\n"
            mine = await client.run(show, env={"TRACEPARENT": "mine"})
            assert mine.stdout == b"mine stale=1\n"
        else:
            assert done.stdout == b" stale=1\n"
        told = await client.explain()
        layers = {one["id"]: one["state"] for one in told["layers"]}
        assert layers.get("trace") == ("not-applicable" if wanted else None)

    there.run(scenario)
