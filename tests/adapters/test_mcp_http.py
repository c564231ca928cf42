"""MCP servers that only an executor can reach: Streamable HTTP and OAuth, with the real `mcp` package."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import mcp
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import TextContent
from pydantic import AnyUrl

import outfitter
from outfitter.adapters.mcp import OAUTH_BYTES, http_client
from tests.adapters.test_mcp_stdio import text
from tests.support import mcpserver
from tests.support.mcpweb import Authority, Kept, guarded_server, web_server
from tests.support.rawhttp import HOLD, RawOrigin, raw_origin
from tests.support.servers import Server, serving
from tests.support.tap import tapping


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("outfitter", tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with web_server() as url:
        yield url


@pytest.fixture(scope="module")
def origin() -> Iterator[RawOrigin]:
    with raw_origin() as made:
        yield made


@contextlib.asynccontextmanager
async def reaching(
    executor: outfitter.Client, url: str, auth: httpx2.Auth | None = None, **settings: Any
) -> AsyncIterator[mcp.Client]:
    """The package's client of an MCP server, through an executor."""
    async with (
        http_client(executor, auth=auth) as web,
        mcp.Client(streamable_http_client(url, http_client=web), **settings) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_package_reaches_a_server_through_an_executor(server: Server, place: str, mode: str) -> None:
    steps: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async def main(url: str) -> None:
        async with outfitter.connect(url) as executor, reaching(executor, place, mode=mode) as client:
            assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
            assert (await text(client, "echo", text="ä" * 100_000)).endswith("ä" * 100_000)
            await client.call_tool("count", {"upto": 50}, progress_callback=progress)

    with tapping(server.port) as tap:
        asyncio.run(main(tap.url))
        assert {params["url"] for params in tap.sent("http/request")} == {place}
    assert steps == [float(number) for number in range(1, 51)]


def test_a_cancelled_call_is_cancelled_at_the_server(server: Server, place: str) -> None:
    mcpserver.GATE.clear()
    mcpserver.CANCELLED.clear()

    async def main() -> None:
        async with outfitter.connect(server.url) as executor, reaching(executor, place) as client:
            begun = anyio.Event()

            async def progress(done: float, total: float | None, message: str | None) -> None:
                begun.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(client.call_tool, "hold", {}, progress_callback=progress))
                await begun.wait()  # it came while the answer was still open
                tasks.cancel_scope.cancel()
            assert await asyncio.to_thread(mcpserver.CANCELLED.wait, 20)

    asyncio.run(main())


def test_a_cut_connection_is_resumed_where_the_server_keeps_its_events(server: Server) -> None:
    mcpserver.GATE.clear()

    async def main(place: str) -> None:
        async with outfitter.connect(tap.url) as executor, reaching(executor, place, mode="legacy") as client:

            async def progress(done: float, total: float | None, message: str | None) -> None:
                if tap.connections == 1:
                    tap.cut_at(lambda heard: heard.method == "environment/status")
                    with pytest.raises(outfitter.Disconnected):
                        await executor.status()
                    mcpserver.GATE.set()

            found = await client.call_tool("hold", {}, progress_callback=progress)
            assert isinstance(found.content[0], TextContent)
            assert found.content[0].text == "held"

    with web_server(event_store=Kept(), retry_interval=10) as place, tapping(server.port) as tap:
        asyncio.run(main(place))
        assert tap.connections == 2


# Authorization


class Memory(TokenStorage):
    """Keeps what a client was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


def provider(executor: outfitter.Client, url: str, storage: Memory) -> OAuthClientProvider:
    """The package's own; a browser on the executor's network says yes."""
    told: list[str] = []

    async def browse(address: str) -> None:
        found = await executor.http.request("GET", address, follow=False)
        told.append(found.header("location") or "")

    async def come_back() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(told.pop()).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0])

    metadata = OAuthClientMetadata(client_name="test", redirect_uris=[AnyUrl("http://127.0.0.1:1/back")])
    return OAuthClientProvider(url, metadata, storage, browse, come_back)


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[str, Authority]]:
    with guarded_server() as made:
        yield made


def test_authorization_goes_through_the_executor(server: Server, guarded: tuple[str, Authority]) -> None:
    place, authority = guarded
    storage = Memory()

    async def main(url: str) -> None:
        async with outfitter.connect(url) as executor:
            async with reaching(executor, place, provider(executor, place, storage)) as client:
                assert await text(client, "complain", text="") == "done"
            assert authority.grants == ["registration", "code"]
            # The next one has what was kept, and its token has run out.
            assert storage.tokens is not None
            again = provider(executor, place, storage)
            again.context.token_expiry_time = 1.0
            async with reaching(executor, place, again) as client:
                assert await text(client, "complain", text="") == "done"
            assert authority.grants == ["registration", "code", "refresh"]

    with tapping(server.port) as tap:
        asyncio.run(main(tap.url))
        paths = [urlsplit(params["url"]).path for params in tap.sent("http/request")]
    assert {"/.well-known/oauth-authorization-server", "/register", "/authorize", "/token"} <= set(paths)
    assert any(path.startswith("/.well-known/oauth-protected-resource") for path in paths)


HEAD = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"


def test_answers_about_authorization_are_limited(server: Server, origin: RawOrigin) -> None:
    """A source without an end is left, not read."""
    origin.answers["/mcp"] = [HEAD % (b"401 no", 0, b"")]
    origin.answers["/.well-known/oauth-protected-resource/mcp"] = [
        HEAD % (b"200 OK", OAUTH_BYTES + 2, b"") + b" " * (OAUTH_BYTES + 1),
        HOLD,
    ]
    assert "more than 1048576 bytes" in failure(server, f"{origin.url}/mcp")


def test_compressed_answers_about_authorization_are_refused(server: Server, origin: RawOrigin) -> None:
    origin.answers["/mcp"] = [HEAD % (b"401 no", 0, b"")]
    origin.answers["/.well-known/oauth-protected-resource/mcp"] = [
        HEAD % (b"200 OK", 2, b"content-encoding: gzip\r\n") + b"{}"
    ]
    assert "compressed" in failure(server, f"{origin.url}/mcp")


def failure(server: Server, url: str) -> str:
    """How a request fails for which a token is wanted."""

    async def main() -> str:
        async with (
            outfitter.connect(server.url) as executor,
            http_client(executor, auth=provider(executor, url, Memory())) as web,
        ):
            with pytest.raises(httpx2.HTTPError) as raised:
                await web.post(url, json={})
            return str(raised.value)

    return asyncio.run(main())


# Redirects


def test_redirects_are_followed_as_the_package_does(server: Server, origin: RawOrigin, place: str) -> None:
    """Within an origin, and to no other: the executor follows none by itself."""
    origin.answers["/elsewhere"] = [
        f"HTTP/1.1 307 x\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
    ]

    async def main() -> None:
        async with outfitter.connect(server.url) as executor:
            with pytest.raises(BaseExceptionGroup) as raised:
                async with reaching(executor, f"{origin.url}/elsewhere", mode="legacy"):
                    pass
            assert "not followed" in str(raised.value.exceptions)

    asyncio.run(main())
