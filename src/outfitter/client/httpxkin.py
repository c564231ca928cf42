"""What httpx and httpx2 need to send their requests through an executor: the same for both.

Neither is imported here. A transport for one of them says which.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import ConnectionLost, HttpFailed, OutfitterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from typing import Any, Protocol

    from .http import Http, HttpStream

    class Request(Protocol):
        """A request of either library."""

        method: str

        @property
        def url(self) -> Any: ...  # each library has a class for it
        @property
        def headers(self) -> Any: ...  # and for them
        @property
        def extensions(self) -> Mapping[str, Any]: ...  # whatever a caller has put there
        async def aread(self) -> bytes: ...

    class Library(Protocol):
        """The errors of either library."""

        def ConnectError(self, message: str, *, request: Any) -> Exception: ...
        def ReadError(self, message: str, *, request: Any) -> Exception: ...
        def ReadTimeout(self, message: str, *, request: Any) -> Exception: ...


# Of a connection that is not ours, and of a body that is sent whole.
_NOT_SENT = ("connection", "transfer-encoding", "keep-alive")


async def send(http: Http, request: Request, library: Library) -> HttpStream:
    """Sends a request; returns when the headers of its answer are there. Follows no redirect."""
    body = await request.aread()
    try:
        async with asyncio.timeout(_patience(request)):
            return await http.stream(
                request.method, str(request.url), headers=_headers(request), body=body or None, follow=False
            )
    except TimeoutError:
        raise library.ReadTimeout("no answer in time", request=request) from None
    except OutfitterError as error:
        raise library.ConnectError(str(error), request=request) from error


def raw_headers(stream: HttpStream) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, as both libraries take them."""
    return [(name.encode(), value.encode()) for name, value in stream.headers]


async def pieces(stream: HttpStream, request: Request, library: Library) -> AsyncGenerator[bytes, None]:
    """The body of an answer, as it comes."""
    coming = aiter(stream)
    while True:
        try:
            async with asyncio.timeout(_patience(request)):
                piece = await anext(coming)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise library.ReadTimeout("no piece in time", request=request) from None
        except (HttpFailed, ConnectionLost) as error:
            raise library.ReadError(str(error), request=request) from error
        yield piece


def _patience(request: Request) -> float | None:
    seconds: float | None = request.extensions.get("timeout", {}).get("read")
    return seconds


def _headers(request: Request) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in request.headers.multi_items()
        if name not in _NOT_SENT and not (name == "host" and value == request.url.netloc.decode("ascii"))
    ]
