"""MCP servers on an executor, for the `mcp` package: its own client, over our processes and our HTTP.

`StdioServer` is a transport for a server that the executor runs. `http_client` is what the package's
Streamable HTTP client and its OAuth providers need to reach a server that only the executor can reach.
The package and this module need asyncio.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ..client.environment import CONTRACT
from ..core.events import Exited
from ..errors import AdapterMissing, OutfitterError
from ..protocol.lines import LineReader

try:
    import anyio
    import httpx2
    import mcp_types
    from mcp.shared.message import SessionMessage
except ImportError as error:
    raise AdapterMissing("mcp") from error

from ..client.httpx2 import ExecutorTransport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from ..client.client import Client
    from ..client.environment import ByContract, EnvContract, EnvPolicy
    from ..client.process import RemoteProcess
    from ..client.session import Decide
    from ..core.sandbox import Sandbox

    Streams = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
    ]

__all__ = ["StdioServer", "http_client"]

Received = SessionMessage | Exception

# One message of a server: a screenshot or a file in base64 fits, a server that never ends its line does not.
MAX_MESSAGE = 64 << 20
# What is kept of a server's stderr: the traceback of a server that did not start.
STDERR_BYTES = 64 << 10
# As in the package's own stdio client: for what is still to be sent, and for each step of the end.
_FLUSH_SECONDS = 0.5
GRACE_SECONDS = 2.0
# For the answer to the last request; a connection that is down then is not waited for.
_ANSWER_SECONDS = 2.0
# The most that an answer about authorization may have, as in Codex: metadata, registrations and tokens have a
# few kilobytes.
OAUTH_BYTES = 1 << 20
# The package's own: for most of a request, and for each wait for an event of a stream.
_TIMEOUT = httpx2.Timeout(30.0, read=300.0)


def __dir__() -> list[str]:
    return __all__


class StdioServer:
    """An MCP server that the executor runs: a transport for `mcp.Client`, or for `mcp.ClientSession`.

    async with mcp.Client(StdioServer(client, ["uvx", "a-server"], cwd="/srv/project")) as server:
        await server.list_tools()

    The server gets the environment that a command of `client.start` gets, with the same arguments. A dropped
    connection does not end it. It ends with the block: its input ends, after `grace` seconds it gets SIGTERM,
    and after as many more SIGKILL. Entering raises what `client.start` raises. What is wrong with a message
    or with the connection comes as an exception on the stream; a server that writes a message above
    `max_message` bytes is ended.
    """

    def __init__(
        self,
        client: Client,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        sandbox: Sandbox | None = None,
        decide: Decide | None = None,
        max_message: int = MAX_MESSAGE,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._client = client
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._policy = policy
        self._contract = contract
        self._sandbox = sandbox
        self._decide = decide
        self._max_message = max_message
        self._grace = grace
        self._stderr = bytearray()
        self._process: RemoteProcess | None = None
        self._block: AbstractAsyncContextManager[Streams] | None = None

    @property
    def stderr(self) -> bytes:
        """The end of what the server has written to stderr, at most `STDERR_BYTES`."""
        return bytes(self._stderr[-STDERR_BYTES:])

    @property
    def process(self) -> RemoteProcess | None:
        """The server's process, from the beginning of the block. Its output is taken: do not iterate."""
        return self._process

    async def __aenter__(self) -> Streams:
        self._process = await self._client.start(
            self._argv,
            cwd=self._cwd,
            env=self._env,
            policy=self._policy,
            contract=self._contract,
            sandbox=self._sandbox,
            decide=self._decide,
            stdin=True,
        )
        # Nothing waits between the start and the block that ends what was started.
        self._stderr.clear()
        self._block = self._running(self._process)
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._block is not None
        return await self._block.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _running(self, process: RemoteProcess) -> AsyncIterator[Streams]:
        # Nothing is buffered here: a client that does not read holds the server back.
        inward, received = anyio.create_memory_object_stream[Received](0)
        sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
        exited, flushed = anyio.Event(), anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, inward, exited)
                tasks.start_soon(_write, process, outward, inward, flushed)
                try:
                    yield received, sent
                finally:
                    received.close()
                    sent.close()
                    # Also when the caller is cancelled; every wait is limited.
                    with anyio.CancelScope(shield=True):
                        await _leave(process, flushed, exited, self._grace)
                    tasks.cancel_scope.cancel()
        finally:
            if not process.closed:
                process.end()  # with all that it has left behind
            for stream in (inward, outward):
                stream.close()

    async def _read(
        self, process: RemoteProcess, inward: MemoryObjectSendStream[Received], exited: anyio.Event
    ) -> None:
        lines = LineReader(self._max_message)
        with inward:
            try:
                async for event in process:
                    if isinstance(event, Exited):
                        exited.set()
                    elif event.stream == "stderr":
                        self._keep(event.data)
                    else:
                        for line in lines.feed(event.data):
                            await _deliver(inward, _message(line))
                for line in lines.end():
                    await _deliver(inward, _message(line))
            except OutfitterError as failure:
                process.end()
                await _deliver(inward, failure)
            finally:
                exited.set()

    def _keep(self, data: bytes) -> None:
        self._stderr += data
        if len(self._stderr) > 2 * STDERR_BYTES:
            del self._stderr[:-STDERR_BYTES]


def _message(line: bytes) -> Received:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _deliver(inward: MemoryObjectSendStream[Received], what: Received) -> None:
    try:
        await inward.send(what)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nobody reads any more; the process is still read to its end, so that it can end


async def _write(
    process: RemoteProcess,
    outward: MemoryObjectReceiveStream[SessionMessage],
    inward: MemoryObjectSendStream[Received],
    flushed: anyio.Event,
) -> None:
    try:
        with outward:
            async for one in outward:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                if await process.write(f"{text}\n") != "accepted":
                    inward.close()  # the server does not listen: no answer will come
                    return
    except OutfitterError as error:
        await _deliver(inward, error)
        inward.close()
    finally:
        flushed.set()


async def _leave(process: RemoteProcess, flushed: anyio.Event, exited: anyio.Event, grace: float) -> None:
    with anyio.move_on_after(_FLUSH_SECONDS):
        await flushed.wait()
    # What fails here has ended, or cannot be told so: the next step is the same.
    with suppress(OutfitterError), anyio.move_on_after(grace):
        await process.close_stdin()
        await exited.wait()
    if not exited.is_set():
        with suppress(OutfitterError), anyio.move_on_after(grace + _ANSWER_SECONDS):
            await process.terminate(grace)
            await exited.wait()


def http_client(
    client: Client,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client whose requests the executor sends, for `mcp.client.streamable_http_client`.

    It takes what the package's own factory takes. `auth` may be one of the package's OAuth providers: what it
    asks is sent by the executor too, and its answers are limited to `OAUTH_BYTES`.
    """
    return httpx2.AsyncClient(
        # A compressed answer may be a thousand times what it was on its way.
        headers={"accept-encoding": "identity", **(headers or {})},
        timeout=timeout or _TIMEOUT,
        auth=None if auth is None else _LimitedAuth(auth),
        transport=ExecutorTransport(client),
    )


class _LimitedAuth(httpx2.Auth):
    """Another one, with a limit for all answers that it or its client reads to their ends meanwhile."""

    def __init__(self, inner: httpx2.Auth) -> None:
        self._inner = inner

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._inner.async_auth_flow(request)
        try:
            asked = await anext(flow)
            while True:
                answer = yield asked
                if asked is not request or answer.status_code in (401, 403):
                    _limit(answer)
                asked = await flow.asend(answer)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _limit(answer: httpx2.Response) -> None:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("an answer about authorization is compressed", request=answer.request)
    assert isinstance(answer.stream, httpx2.AsyncByteStream)
    answer.stream = _LimitedStream(answer.stream, answer.request)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > OAUTH_BYTES:
                text = f"an answer about authorization has more than {OAUTH_BYTES} bytes"
                raise httpx2.ReadError(text, request=self._request)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
