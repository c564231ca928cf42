"""httpx through an executor: what uses httpx (an API's client, say) has the executor's network.

async with httpx.AsyncClient(transport=ExecutorTransport(client)) as web:
    await web.get("http://only-there.internal/")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from .httpxkin import pieces, raw_headers, send

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client import Client
    from .http import HttpStream

__all__ = ["ExecutorTransport"]


def __dir__() -> list[str]:
    return __all__


class ExecutorTransport(httpx.AsyncBaseTransport):
    """Every request is sent by the executor. httpx itself follows redirects, decompresses and keeps cookies.

    The time limits of httpx hold for the wait for the headers, and for each piece of the body.
    """

    def __init__(self, client: Client) -> None:
        self._http = client.http

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stream = await send(self._http, request, httpx)
        return httpx.Response(stream.status, headers=raw_headers(stream), stream=_Body(stream, request))


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: HttpStream, request: httpx.Request) -> None:
        self._stream = stream
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return pieces(self._stream, self._request, httpx)

    async def aclose(self) -> None:
        self._stream.close()
