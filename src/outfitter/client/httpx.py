"""httpx through an executor: what uses httpx (an API's client, the `mcp` package) has the executor's network.

async with httpx.AsyncClient(transport=ExecutorTransport(client)) as web:
    await web.get("http://only-there.internal/")
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from ..errors import ConnectionLost, HttpFailed, OutfitterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client import Client
    from .http import HttpStream

# Of a connection that is not ours, and of a body that is sent whole.
_NOT_SENT = ("connection", "transfer-encoding", "keep-alive")


class ExecutorTransport(httpx.AsyncBaseTransport):
    """Every request is sent by the executor. httpx itself follows redirects, decompresses and keeps cookies.

    httpx's time limits hold for the wait for the headers, and for each piece of the body.
    """

    def __init__(self, client: Client) -> None:
        self._http = client.http

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {})
        body = await request.aread()
        try:
            async with asyncio.timeout(seconds.get("read")):
                stream = await self._http.stream(
                    request.method,
                    str(request.url),
                    headers=_headers(request),
                    body=body or None,
                    follow=False,
                )
        except TimeoutError:
            raise httpx.ReadTimeout("no answer in time", request=request) from None
        except OutfitterError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        return httpx.Response(
            stream.status,
            headers=[(name.encode(), value.encode()) for name, value in stream.headers],
            stream=_Body(stream, seconds.get("read"), request),
        )


def _headers(request: httpx.Request) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in request.headers.multi_items()
        if name not in _NOT_SENT and not (name == "host" and value == request.url.netloc.decode("ascii"))
    ]


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: HttpStream, seconds: float | None, request: httpx.Request) -> None:
        self._stream = stream
        self._seconds = seconds
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._stream)
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise httpx.ReadTimeout("no piece in time", request=self._request) from None
            except (HttpFailed, ConnectionLost) as error:
                raise httpx.ReadError(str(error), request=self._request) from error
            yield piece

    async def aclose(self) -> None:
        self._stream.close()
