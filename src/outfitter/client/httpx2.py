"""httpx2 through an executor: what uses httpx2 (the `mcp` package, say) has the executor's network.

async with httpx2.AsyncClient(transport=ExecutorTransport(client)) as web:
    await web.get("http://only-there.internal/")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from .httpxkin import pieces, raw_headers, send

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client import Client
    from .http import HttpStream


class ExecutorTransport(httpx2.AsyncBaseTransport):
    """Every request is sent by the executor. httpx2 itself follows redirects, decompresses and keeps cookies.

    The time limits of httpx2 hold for the wait for the headers, and for each piece of the body.
    """

    def __init__(self, client: Client) -> None:
        self._http = client.http

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        stream = await send(self._http, request, httpx2)
        return httpx2.Response(stream.status, headers=raw_headers(stream), stream=_Body(stream, request))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: HttpStream, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return pieces(self._stream, self._request, httpx2)

    async def aclose(self) -> None:
        self._stream.close()
