"""`client.http` against a real server: answers, streams, gaps, and httpx on top."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import sync
from outfitter.client.http import BodyFeed
from outfitter.errors import Disconnected, HttpFailed, RemoteProtocolError, RequestFailed, SessionExpired
from outfitter.protocol.http import BodyNotice
from outfitter.protocol.session import RESTARTING, RESTARTING_REASON
from tests.client.peer import ALL, Peer, with_a_peer
from tests.support.machine import SECOND, wait_until
from tests.support.rawhttp import CLOSE, HOLD, RawOrigin, raw_origin
from tests.support.servers import Server, serving

PIECES = [b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-a: 1\r\nX-A: 2\r\n\r\n", b"abc", b"def"]


@pytest.fixture(scope="module")
def origin() -> Iterator[RawOrigin]:
    with raw_origin() as made:
        made.answers["/pieces"] = PIECES
        made.answers["/cut"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", CLOSE]
        made.answers["/hold-body"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", HOLD]
        made.answers["/hold"] = [HOLD]
        made.answers["/moved"] = [b"HTTP/1.1 302 x\r\nlocation: /pieces\r\ncontent-length: 0\r\n\r\n"]
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("outfitter", tmp_path_factory.mktemp("home"), env={"TOKEN": "s3cret"}) as made:
        yield made


def test_answer_has_status_headers_and_body(server: Server, origin: RawOrigin) -> None:
    async def main() -> None:
        async with outfitter.connect(server.url) as client:
            found = await client.http.request("GET", f"{origin.url}/moved")
            assert (found.status, found.body) == (200, b"abcdef")
            assert found.headers == [("content-length", "6"), ("x-a", "1"), ("x-a", "2")]
            assert (found.header("X-A"), found.header("x-b")) == ("1", None)
            assert (await client.http.request("GET", f"{origin.url}/moved", follow=False)).status == 302
            headers = [("X-B", "1"), ("Authorization", "Bearer ", "TOKEN")]
            echo = await client.http.request("POST", f"{origin.url}/echo", headers=headers, body=b"hello")
            assert b"authorization: Bearer s3cret" in echo.body and echo.body.endswith(b"\r\n\r\nhello")
            with pytest.raises(RequestFailed, match="error sending request"):
                await client.http.request("GET", f"{origin.url}/hold", timeout=0.1)

    asyncio.run(main())


def test_stream_comes_piece_by_piece(server: Server, origin: RawOrigin) -> None:
    async def main() -> None:
        async with outfitter.connect(server.url) as client:
            async with await client.http.stream("GET", f"{origin.url}/pieces") as stream:
                assert (stream.status, stream.headers[0]) == (200, ("content-length", "6"))
                assert b"".join([piece async for piece in stream]) == b"abcdef"
            async with await client.http.stream("GET", f"{origin.url}/cut") as stream:
                with pytest.raises(HttpFailed, match="error decoding response body"):
                    [piece async for piece in stream]
            with pytest.raises(RequestFailed, match="only supports http"):
                await client.http.stream("GET", "ftp://x/")
            assert client._session.streams == {}
            assert client._session.waiting == 0

    asyncio.run(main())


def test_leaving_the_block_ends_the_request(server: Server, origin: RawOrigin) -> None:
    async def main() -> None:
        async with outfitter.connect(server.url) as client:
            async with await client.http.stream("GET", f"{origin.url}/hold-body") as stream:
                async for piece in stream:
                    assert piece == b"abc"
                    break
            assert client._session.streams == {}

    asyncio.run(main())
    wait_until(lambda: not origin._open or all(one.fileno() < 0 for one in origin._open), "it goes on")


@with_a_peer()
async def test_request_that_is_given_up_is_ended(peer: Peer) -> None:
    for capability in ("httpHeaderEnvVars", "httpCancel"):
        peer.offer(capability)
    asking = asyncio.ensure_future(peer.client.http.request("GET", "http://localhost/"))
    asked = await peer.request("http/request")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    cancelled = await peer.request("http/cancel")
    assert cancelled["params"] == {"requestId": asked["params"]["requestId"]}
    peer.answer(cancelled, {"cancelled": True})


@with_a_peer()
async def test_stream_that_nobody_reads_is_held_alone(peer: Peer) -> None:
    for capability in ("httpHeaderEnvVars", "httpCancel", "httpHold", "processHold"):
        peer.offer(capability)
    process, _ = await peer.started()
    asking = asyncio.ensure_future(peer.client.http.stream("GET", "http://localhost/"))
    asked = await peer.request("http/request")
    ident = asked["params"]["requestId"]
    peer.answer(asked, {"status": 200, "headers": [], "bodyBase64": ""})
    stream = await asking
    for seq in range(1, 10):
        peer.say(BodyNotice(ident, seq, bytes(1 << 20), False).message())
    held = await peer.request("http/hold")
    assert held["params"] == {"requestId": ident, "held": True}
    peer.answer(held, {})
    assert not process.closed
    pieces = aiter(stream)
    for _ in range(5):
        await anext(pieces)
    held = await peer.request("http/hold")
    assert held["params"] == {"requestId": ident, "held": False}
    peer.answer(held, {})
    for seq in range(10, 15):
        peer.say(BodyNotice(ident, seq, bytes(1 << 20), False).message())
    peer.answer(await peer.request("http/hold"), {})
    stream.close()  # which says all that is to be said
    peer.answer(await peer.request("http/cancel"), {"cancelled": True})
    assert (peer.session.waiting, peer.requests) == (0, [])


@with_a_peer(resumable=True, opened=False)
async def test_stream_that_a_restarting_server_has_not_begun_is_asked_for_again(peer: Peer) -> None:
    await peer.opened((*ALL, "httpHeaderEnvVars", "httpCancel"))
    asking = asyncio.ensure_future(peer.client.http.stream("GET", "http://localhost/"))
    asked = await peer.request("http/request")
    peer.far.close(RESTARTING, RESTARTING_REASON)
    await peer.greet((*ALL, "httpHeaderEnvVars", "httpCancel"))
    again = await peer.request("http/request")
    assert again["params"] == asked["params"]
    peer.answer(again, {"status": 200, "headers": [], "bodyBase64": ""})
    ident = again["params"]["requestId"]
    peer.say(BodyNotice(ident, 1, b"all", False).message())
    peer.say(BodyNotice(ident, 2, b"", True).message())
    assert [piece async for piece in await asking] == [b"all"]


@with_a_peer(resumable=True)
async def test_stream_whose_connection_is_lost_behind_its_head_fails(peer: Peer) -> None:
    peer.offer("httpHeaderEnvVars")
    asking = asyncio.ensure_future(peer.client.http.stream("GET", "http://localhost/"))
    asked = await peer.request("http/request")
    peer.answer(asked, {"status": 200, "headers": [], "bodyBase64": ""})
    await asyncio.sleep(0)  # it has come; whoever waits for it is the next to run
    peer.unreachable = True
    peer.near.receiver.lost("the cable was pulled")
    with pytest.raises(Disconnected, match="this stream with it"):
        [piece async for piece in await asking]


@with_a_peer()
async def test_stream_whose_client_is_closed_fails(peer: Peer) -> None:
    peer.offer("httpHeaderEnvVars")
    asking = asyncio.ensure_future(peer.client.http.stream("GET", "http://localhost/"))
    peer.answer(await peer.request("http/request"), {"status": 200, "headers": [], "bodyBase64": ""})
    stream = await asking
    await peer.client.aclose()
    with pytest.raises(SessionExpired, match="the client is closed"):
        [piece async for piece in stream]


def test_body_that_nobody_can_read_any_more_does_not_count(server: Server, origin: RawOrigin) -> None:
    """It holds the connection back while it waits for its reader, and there is none."""

    async def main() -> None:
        async with asyncio.timeout(30 * SECOND), outfitter.connect(server.url) as client:
            stream = await client.http.stream("GET", f"{origin.url}/pieces")
            while client._session.streams:  # until all of it has come
                await asyncio.sleep(0.01)
            assert client._session.waiting == 6
            del stream
            while client._session.waiting:
                gc.collect()
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_gap_ends_that_stream_alone(server: Server, origin: RawOrigin) -> None:
    async def main() -> None:
        async with outfitter.connect(server.url) as client:
            feed = BodyFeed(client._session, "made-up")
            feed.receive(BodyNotice("made-up", 1, b"abc", False))
            feed.receive(BodyNotice("made-up", 3, b"ghi", False))
            with pytest.raises(RemoteProtocolError, match="piece 2 of an HTTP body is missing"):
                [piece async for piece in feed.pieces()]
            assert (await client.http.request("GET", f"{origin.url}/pieces")).body == b"abcdef"

    asyncio.run(main())


def test_stream_is_lost_with_its_connection(tmp_path: Path, origin: RawOrigin) -> None:
    async def main() -> None:
        with serving("outfitter", tmp_path) as server:
            async with (
                outfitter.connect(server.url) as client,
                await client.http.stream("GET", f"{origin.url}/hold-body") as stream,
            ):
                pieces = aiter(stream)
                assert await anext(pieces) == b"abc"
                server.popen.kill()
                with pytest.raises(Disconnected):
                    await anext(pieces)

    asyncio.run(main())


def test_plain_calls_do_the_same(server: Server, origin: RawOrigin) -> None:
    with sync.connect(server.url) as client:
        assert client.http.request("GET", f"{origin.url}/pieces").body == b"abcdef"
        with client.http.stream("GET", f"{origin.url}/pieces") as stream:
            assert stream.status == 200
            assert b"".join(stream) == b"abcdef"


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_httpx_goes_through_an_executor(name: str, server: Server, origin: RawOrigin) -> None:
    library: Any = importlib.import_module(name)
    transport: Any = importlib.import_module(f"outfitter.client.{name}").ExecutorTransport

    async def main() -> None:
        async with (
            outfitter.connect(server.url) as client,
            library.AsyncClient(transport=transport(client), timeout=20) as web,
        ):
            found = await web.get(f"{origin.url}/moved", follow_redirects=True)
            assert (found.status_code, found.content, len(found.history)) == (200, b"abcdef", 1)
            assert found.headers.get_list("x-a") == ["1", "2"]
            echo = await web.post(f"{origin.url}/echo?a=b", json={"a": 1}, headers={"x-b": "2"})
            assert echo.text.startswith("POST /echo?a=b HTTP/1.1\r\n")
            assert "content-type: application/json" in echo.text and echo.text.endswith('{"a":1}')
            async with web.stream("GET", f"{origin.url}/pieces") as stream:
                assert b"".join([piece async for piece in stream.aiter_bytes()]) == b"abcdef"
            with pytest.raises(library.ReadError):
                await web.get(f"{origin.url}/cut")
            with pytest.raises(library.ConnectError):
                await web.get("http://127.0.0.1:1/")
            with pytest.raises(library.ReadTimeout):
                await web.get(f"{origin.url}/hold", timeout=0.1)
            with pytest.raises(library.ReadTimeout):
                await web.get(f"{origin.url}/hold-body", timeout=0.1)

    asyncio.run(main())


@with_a_peer()
async def test_body_that_is_closed_while_another_task_reads_it_is_not_whole(peer: Peer) -> None:
    peer.offer("httpHeaderEnvVars")
    asking = asyncio.ensure_future(peer.client.http.stream("GET", "http://localhost/"))
    asked = await peer.request("http/request")
    peer.answer(asked, {"status": 200, "headers": [], "bodyBase64": ""})
    stream = await asking
    pieces = aiter(stream)
    peer.say(BodyNotice(asked["params"]["requestId"], 1, b"half", False).message())
    assert await anext(pieces) == b"half"
    reading = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)  # it waits for more
    stream.close()
    with pytest.raises(HttpFailed, match="closed before its end"):
        await reading
