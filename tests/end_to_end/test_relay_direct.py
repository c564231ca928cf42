"""The direct transport: an executor of either kind dials out, and is spoken to on that socket."""

from __future__ import annotations

import itertools
import json
import queue
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from outfitter.core.sigv4 import AwsCredentials, signed_headers
from tests.support.machine import SECOND
from tests.support.registries import FakeRegistry, answering, reply
from tests.support.servers import command, end, environment
from tests.support.wire import Wire

SECRET = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret"}
BODY = {"transport": "direct_jsonrpc_v1"}


class Spoken(Wire):
    """The client's end of a socket that the executor has dialled."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket  # type: ignore[assignment]
        self.notices = []
        self._answers = {}
        self._ids = itertools.count(1)


class Service:
    """Accepts executors' sockets; with `refuse`, answers upgrades with that status."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.refuse: int | None = None
        self._came: queue.SimpleQueue[ServerConnection] = queue.SimpleQueue()
        self._over = threading.Event()
        self._server: Server = serve(
            self._accept, "127.0.0.1", 0, compression=None, process_request=self._judge, ssl=tls
        )
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)  # a test may skip
        self._thread.start()

    def _judge(self, connection: ServerConnection, request: Any) -> Any:
        return None if self.refuse is None else connection.respond(self.refuse, "no")

    def _accept(self, connection: ServerConnection) -> None:
        self._came.put(connection)
        self._over.wait()

    def next(self) -> Spoken:
        return Spoken(self._came.get(timeout=30 * SECOND))

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()


def started(kind: str, home: Path, url: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    flags = ("--remote-transport", "direct", "--aws-sigv4", "--aws-region", "us-east-1")
    with (home / "stderr").open("wb") as stderr:
        return subprocess.Popen(
            command(kind, "--remote", url, "--environment-id", "box", *flags),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(home, {**SECRET, **(env or {})}),
        )


def check_signature(head: dict[str, str], **request: Any) -> None:
    """Recomputes what the executor signed."""
    expected = signed_headers(
        AwsCredentials(*SECRET.values()),
        region="us-east-1",
        service="execute-api",
        date=head["x-amz-date"],
        host=head["host"],
        **request,
    )
    assert head["authorization"] == expected["Authorization"]


def fields(head: str) -> dict[str, str]:
    pairs = (line.split(": ", 1) for line in head.split("\r\n")[1:])
    return {name.lower(): value for name, value in pairs}


def told(registry: FakeRegistry, port: int, **changes: str) -> bytes:
    body = {
        "environment_id": "box",
        **BODY,
        "registration_id": "r",
        "url": f"ws://127.0.0.1:{port}/x?b=2&a=1",
    }
    return reply({**body, **changes})


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_an_executor_serves_the_socket_that_it_dials(kind: str, tmp_path: Path) -> None:
    service = Service()
    with answering(lambda *_: told(registry, service.port)) as registry:
        popen = started(kind, tmp_path, registry.url)
        try:
            one = service.next()
            [(head, body)] = registry.asked
            assert head.startswith("POST /cloud/environment/box/direct/register HTTP/1.1\r\n")
            assert body == BODY
            check_signature(
                fields(head),
                method="POST",
                path="/cloud/environment/box/direct/register",
                content_type="application/json",
                body=json.dumps(body, separators=(",", ":")).encode(),
            )
            asked = one.socket.request
            assert asked is not None
            head_ = {name.lower(): value for name, value in asked.headers.raw_items()}
            check_signature(head_, method="GET", path="/x", query="b=2&a=1")
            session = one.handshake()["sessionId"]
            one.start(
                "p",
                ["sh", "-c", "echo $AWS_SECRET_ACCESS_KEY-; head -c 600000 /dev/zero; read x"],
                pipeStdin=True,
            )
            one.until(lambda notice: notice["method"] == "process/output")
            one.abort()
            # The same URL again, without registering; the session goes on.
            two = service.next()
            assert len(registry.asked) == 1
            two.handshake(resume=session)
            two.call("process/terminate", {"processId": "p"})
            read = two.call(
                "process/read", {"processId": "p", "afterSeq": 0, "maxBytes": 1 << 20, "waitMs": 0}
            )
            assert read["chunks"]
            service.refuse = 403
            two.abort()
            assert popen.wait(30 * SECOND) == 1
        finally:
            service.refuse = 403
            end(popen)
            service.close()
    assert b"Traceback" not in (tmp_path / "stderr").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"transport": "other"},
        {"environment_id": "other"},
        {"url": "ws://relay.example/"},
        {"registration_id": " "},
    ],
)
def test_an_answer_that_cannot_be_used_ends_the_executor(changes: dict[str, str], tmp_path: Path) -> None:
    with answering(lambda *_: told(registry, 9, **changes)) as registry:
        popen = started("outfitter", tmp_path, registry.url)
        assert popen.wait(30 * SECOND) == 1
    assert "very-secret" not in (tmp_path / "stderr").read_text()
