"""A real `outfitter serve` that is watched: /metrics behind the gate, spans and metrics at a collector."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span
from prometheus_client.parser import text_string_to_metric_families

import outfitter
from outfitter import sync
from outfitter.client.client import Client
from outfitter.client.environment import CONTRACT
from outfitter.protocol.methods import METHODS
from tests.support.machine import SECOND, wait_until
from tests.support.raw import Raw
from tests.support.servers import Server, command, environment, serving

TOKEN = "a token of sixteen bytes"
PARENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    token = home / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    settings = home / ".config" / "outfitter" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[trace]\ncommands = true\n")
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token), "--metrics")
    with serving("outfitter", home, *flags) as server:
        yield server


def ask(server: Server, line: str = "GET /metrics HTTP/1.1", **headers: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    raw = Raw(server)
    head = raw.request(line, {"Host": "localhost", **headers}).decode()
    kind = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("content-type")]
    status, body = int(head.split(" ")[1]), raw.body().decode()
    raw.socket.close()
    return status, "".join(kind), body


def numbers(body: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(body)
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_metrics_are_for_those_who_may_connect(server: Server) -> None:
    status, kind, body = ask(server)
    assert (status, body) == (401, "missing websocket bearer token")
    status, kind, body = ask(server, Authorization="Bearer wrong wrong wrong")
    assert status == 401 and "outfitter_" not in body
    assert ask(server, Authorization=f"Bearer {TOKEN}", Origin="http://localhost")[0] == 403
    assert ask(server, Authorization=f"Bearer {TOKEN}", Host="example.com")[0] == 403
    assert ask(server, "POST /metrics HTTP/1.1", Authorization=f"Bearer {TOKEN}")[0] == 405
    status, kind, body = ask(server, Authorization=f"Bearer {TOKEN}")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    told = numbers(body)
    refused = {
        cause: told["outfitter_connections_refused_total", cause] for cause in ("token", "origin", "host")
    }
    assert refused == {"token": 2, "origin": 1, "host": 1}


def test_hostile_methods_have_one_label(server: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(server.url, token=TOKEN) as client:
            assert (await client.run(["true"])).exit_code == 0
            for number in range(50):
                with pytest.raises(outfitter.RequestFailed):
                    await client.call(f'secret/{number}"\n{{}}', {})
            told = numbers(ask(server, Authorization=f"Bearer {TOKEN}")[2])
            methods = {key[1] for key in told if key[0] == "outfitter_requests_total"}
            assert methods <= {*METHODS, "unknown"}
            assert told["outfitter_requests_total", "unknown", "method-unknown"] == 50
            assert told["outfitter_connections",] == 1
            assert told["outfitter_processes_ended_total", "success"] == 1

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


def test_context_goes_from_a_plain_client_to_the_command(server: Server) -> None:
    """The server has no OpenTelemetry here: it passes on what the client says."""
    show = ["sh", "-c", 'echo "$TRACEPARENT"']
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    with sync.connect(server.url, token=TOKEN) as client:
        with use_span(tracer.start_span("work")) as span:
            context = span.get_span_context()
            for policy in (CONTRACT, None):  # what the files say, or just what the client says
                said = client.run(show, env={"PATH": os.environ["PATH"]}, policy=policy).stdout.decode()
                assert said.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
        assert client.run(show).stdout == b"\n"


def test_without_the_flag_there_is_no_such_page(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server:
        assert ask(server)[0] == 404


def test_own_user_needs_no_token_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        serving("outfitter", tmp_path / "home", "--metrics", listen=f"unix:{path}"),
        socket.socket(socket.AF_UNIX) as raw,
    ):
        raw.connect(str(path))
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b""
        while more := raw.recv(65536):
            said += more
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"outfitter_connections_opened_total 0\n" in said


def test_stdio_has_no_page(tmp_path: Path) -> None:
    words = command("outfitter", "--listen", "stdio", "--metrics")
    done = subprocess.run(
        words, env=environment(tmp_path), capture_output=True, text=True, timeout=60 * SECOND
    )
    assert done.returncode == 1
    assert "--metrics needs --listen with an address" in done.stderr


class Collector:
    """What a server has exported, as OpenTelemetry's own messages."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[dict[str, Any]] = []
        self.services: set[str] = set()
        self.raw = b""

    def take(self, path: str, body: bytes) -> None:
        self.raw += body
        told: Any
        if path == "/v1/traces":
            told = ExportTraceServiceRequest.FromString(body)
            for one in told.resource_spans:
                self._name(one.resource)
                self.spans += [span for scope in one.scope_spans for span in scope.spans]
        else:
            told = ExportMetricsServiceRequest.FromString(body)
            for one in told.resource_metrics:
                self._name(one.resource)
                self.metrics.append(
                    {each.name: each for scope in one.scope_metrics for each in scope.metrics}
                )

    def _name(self, resource: Any) -> None:
        self.services |= {one.value.string_value for one in resource.attributes if one.key == "service.name"}

    def named(self, name: str) -> list[Any]:
        return [one for one in self.spans if one.name == name]


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        serves = threading.Thread(target=http.serve_forever)
        serves.start()
        yield found, f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        serves.join()


async def upgrade(client: Client, server: Server) -> None:
    before: Any = await client.call("server/upgrades", {}, repeat=True)
    os.kill(server.pid, signal.SIGUSR2)
    after: Any = await client.call("server/upgrades", {"after": before["count"]}, repeat=True)
    assert after["outcome"] == "upgraded", after


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def counted(found: Collector, name: str) -> list[float]:
    """The values of a counter in what came last."""
    if not found.metrics:
        return []
    return [point.as_double or point.as_int for point in found.metrics[-1][name].sum.data_points]


def test_collector_gets_spans_and_metrics_across_an_upgrade(
    collector: tuple[Collector, str], tmp_path: Path
) -> None:
    found, endpoint = collector
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-secret=hush",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_BSP_EXPORT_TIMEOUT": str(int(60_000 * SECOND)),  # the end of an upgrade waits so long
    }

    async def scenario(server: Server) -> None:
        async with outfitter.connect(server.url) as client:
            process = await client.start(["cat", "/no/such/secret", "-"], stdin=True)
            with contextlib.suppress(outfitter.RequestFailed):
                await client.call("fs/getMetadata", {"path": "file:///etc/shadow/secret"})
            await upgrade(client, server)
            assert await process.close_stdin() == "accepted"
            assert await process.wait() == 1

    with serving("outfitter", tmp_path, env=variables) as server:
        asyncio.run(asyncio.wait_for(scenario(server), 90 * SECOND))
        wait_until(lambda: len(found.named("process")) == 2, "the second span of the process is there")
        wait_until(lambda: counted(found, "outfitter_processes_ended") == [1], "its end is counted")
    first, second = found.named("process")
    [start] = found.named("process/start")
    assert (first.parent_span_id, first.trace_id) == (start.span_id, start.trace_id)
    assert (second.parent_span_id, second.trace_id) == (first.span_id, first.trace_id)
    assert attributes(first) == {"outfitter.process.handed_over": True}
    assert attributes(second)["process.exit.code"] == 1
    assert attributes(second)["outfitter.process.output_bytes"] > 10
    assert [attributes(one)["error.type"] for one in found.named("fs/getMetadata")] == ["file-failed"]
    assert found.services == {"outfitter"}
    # The second version counts from zero.
    assert counted(found, "outfitter_processes_started") == [0]
    seconds = [each["outfitter_request_seconds"].histogram.data_points for each in found.metrics]
    assert any(point.count for points in seconds for point in points)
    assert b"secret" not in found.raw and b"hush" not in found.raw
