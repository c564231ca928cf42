"""The API of a Kubernetes cluster over plain HTTP: questions, a stream of changes, a container's input.

Each has a connection of its own. HTTP and the frames of WebSocket are read by `core.http1` and
`protocol.websocket`, as everywhere in this package.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from ..core.http1 import NotHttp, head_end, read_head, written
from ..errors import EngineFailed
from ..protocol import websocket as ws
from ..protocol.upgrade import accept_key
from ..record import record
from .kubeconfig import context_of, logged_in, token_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from typing import Any

    from ..core.http1 import AnswerHead
    from .kubeconfig import Access

    Json = Mapping[str, Any]  # see kubepods

ANSWER_SECONDS = 30.0  # for a question: an API server may be busy, and refuses after a minute itself
WATCH_SECONDS = 60  # of one stream of changes; then another begins, so that one that died unseen is noticed
_LATE_SECONDS = 15.0  # that it may take longer
_ANSWER_BYTES = 64 << 20  # 4,096 pods, 10 KiB each, and some
_READ_BYTES = 64 << 10
_LINE_BYTES = 1 << 20  # an answer of a keeper, or one change of a pod
_LATER = (408, 429, 500, 502, 503, 504)  # answers after which the same question may be asked again
_STDIN, _STDOUT, _ERROR = 0, 1, 3  # channels of an attached container
_CHANNELS = "v5.channel.k8s.io, v4.channel.k8s.io"


@record
class Told:
    """An answer."""

    status: int
    body: Json

    def check(self, what: str) -> Json:
        """Raises EngineFailed if it is a refusal."""
        if self.status < 300:
            return self.body
        said = str(self.body.get("message") or f"it answered {self.status}")[:500]
        raise EngineFailed(f"Kubernetes did not {what}: {said}", retryable=self.status in _LATER)


class KubeApi:
    """One cluster."""

    def __init__(self, access: Access, environ: Mapping[str, str]) -> None:
        self._access = access
        self._environ = environ
        self._used = access  # with what a program that logs in has given
        self._context = None if access.plugin else context_of(access)

    @property
    def namespace(self) -> str:
        return self._access.namespace

    async def log_in(self) -> None:
        """Raises EngineFailed."""
        if self._access.plugin:
            self._used = await asyncio.to_thread(logged_in, self._access, self._environ)
            self._context = context_of(self._used)

    async def ask(self, method: str, path: str, query: Mapping[str, str], body: Json | None = None) -> Told:
        """Raises EngineFailed where there is no answer."""
        told = await self._ask(method, path, query, body)
        if told.status == 401 and self._access.plugin:  # what it gave is over
            await self.log_in()
            told = await self._ask(method, path, query, body)
        return told

    async def _ask(self, method: str, path: str, query: Mapping[str, str], body: Json | None) -> Told:
        data = b"" if body is None else json.dumps(body).encode()
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._sent(method, path, query, data) as (head, pieces),
            ):
                whole = bytearray()
                async for piece in pieces:
                    whole += piece
                    if len(whole) > _ANSWER_BYTES:
                        raise EngineFailed(f"Kubernetes answered {path} with more than {_ANSWER_BYTES} bytes")
        except TimeoutError:
            raise EngineFailed(
                f"Kubernetes has not answered for {ANSWER_SECONDS:g} s", retryable=True
            ) from None
        return Told(head.status, _object(bytes(whole)))

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Json]:
        """Changes as they come, until the stream ends. Raises EngineFailed."""
        query = {**query, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        try:
            async with (
                asyncio.timeout(WATCH_SECONDS + _LATE_SECONDS),
                self._sent("GET", path, query, b"") as (head, pieces),
            ):
                if head.status != 200:
                    raise EngineFailed(
                        f"Kubernetes did not tell changes: it answered {head.status}", retryable=True
                    )
                kept = b""
                async for piece in pieces:
                    *lines, kept = (kept + piece).split(b"\n")
                    for line in lines:
                        yield _object(line)
                    if len(kept) > _LINE_BYTES:
                        raise EngineFailed("Kubernetes told a change that is too long")
        except TimeoutError:
            raise EngineFailed("Kubernetes has stopped telling changes", retryable=True) from None

    @asynccontextmanager
    async def attached(self, pod: str, container: str) -> AsyncIterator[Attached]:
        """The input and output of a container that runs. Raises EngineFailed."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/attach"
        query = {"container": container, "stdin": "true", "stdout": "true", "stderr": "false", "tty": "false"}
        key = base64.b64encode(os.urandom(16)).decode()
        more = [
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-key", key.encode()),
            (b"sec-websocket-protocol", _CHANNELS.encode()),
        ]
        async with self._connected() as (reader, writer):
            head, rest = await self._head(reader, writer, "GET", path, query, b"", more)
            said = dict(head.headers).get(b"sec-websocket-accept", b"").decode("ascii", "replace")
            if head.status != 101 or said != accept_key(key):
                refusal = f"Kubernetes did not attach to pod {pod}: it answered {head.status}"
                raise EngineFailed(refusal, retryable=head.status in _LATER)
            yield Attached(reader, writer, rest)

    # Connections

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        url = urlsplit(self._used.server)
        secure = self._context is not None
        try:
            reader, writer = await asyncio.open_connection(
                url.hostname,
                url.port or (443 if secure else 80),
                ssl=self._context,
                server_hostname=(self._used.server_name or url.hostname) if secure else None,
                limit=_READ_BYTES,
            )
        except OSError as error:
            raise EngineFailed(
                f"Kubernetes at {self._used.server} cannot be reached: {error}", retryable=True
            ) from None
        try:
            yield reader, writer
        except (OSError, NotHttp) as error:
            raise EngineFailed(
                f"the connection to {self._used.server} broke: {error}", retryable=True
            ) from None
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[AnswerHead, AsyncIterator[bytes]]]:
        """The head of an answer, and its body as it comes."""
        more = [(b"connection", b"close")]
        if body:
            more += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        async with self._connected() as (reader, writer):
            head, rest = await self._head(reader, writer, method, path, query, body, more)
            async with aclosing(_body(reader, head, rest)) as pieces:
                yield head, pieces

    async def _head(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
        more: list[tuple[bytes, bytes]],
    ) -> tuple[AnswerHead, bytes]:
        """Sends a request; returns the head of its answer, and what came behind it."""
        url = urlsplit(self._used.server)
        headers = [(b"host", url.netloc.encode()), (b"accept", b"application/json"), *more]
        token = await asyncio.to_thread(token_of, self._used) if self._used.token_file else self._used.token
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        target = url.path + path + (f"?{urlencode(query)}" if query else "")
        writer.write(written(method, target, headers, body))
        data = b""
        while (end := head_end(data)) < 0:
            piece = await reader.read(_READ_BYTES)
            if not piece:
                raise NotHttp("it ended before an answer")
            data += piece
        return read_head(method, data[:end]), data[end:]


async def _body(reader: asyncio.StreamReader, head: AnswerHead, rest: bytes) -> AsyncGenerator[bytes]:
    body = head.body
    if rest:
        yield body.feed(rest)
    while not body.over:
        piece = await reader.read(_READ_BYTES)
        if not piece:
            if not body.is_whole():
                raise NotHttp("it ended within an answer")
            return
        yield body.feed(piece)


def _object(data: bytes) -> Json:
    """An object of the API; what is none (a proxy's page) has its text as its message."""
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": data[:200].decode("utf-8", "replace")}


class Attached:
    """What a container reads and prints, while we listen."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = rest
        self._frames = ws.FrameReader(masked=False, limit=_LINE_BYTES)

    async def write(self, data: bytes) -> None:
        self._send(bytes((_STDIN,)) + data)
        await self._writer.drain()

    def _send(self, payload: bytes, opcode: int = ws.BINARY) -> None:
        self._writer.write(ws.masked(payload, os.urandom(4), opcode))

    async def lines(self) -> AsyncGenerator[bytes]:
        """What it prints from now on; ends with the container. Raises EngineFailed."""
        kept = b""
        async with aclosing(self._pieces()) as pieces:
            async for channel, piece in pieces:
                if channel == _ERROR and _object(piece).get("status") == "Failure":
                    said = _object(piece).get("message")
                    raise EngineFailed(f"Kubernetes let go of a container: {said}", retryable=True)
                if channel == _STDOUT:
                    *lines, kept = (kept + piece).split(b"\n")
                    for line in lines:
                        yield line
                    if len(kept) > _LINE_BYTES:
                        raise EngineFailed("a keeper has printed a line that is too long")

    async def _pieces(self) -> AsyncGenerator[tuple[int, bytes]]:
        data = self._rest
        while True:
            for opcode, payload in self._frames.feed(data):
                if opcode == ws.BINARY and isinstance(payload, bytes) and payload:
                    yield payload[0], payload[1:]
                elif opcode == ws.PING and isinstance(payload, bytes):
                    self._send(payload, ws.PONG)
                elif opcode == ws.CLOSE:
                    return
            if self._frames.fault is not None:
                raise NotHttp(str(self._frames.fault))
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return
