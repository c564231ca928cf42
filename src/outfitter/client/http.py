"""HTTP requests that an executor sends: from its machine, with its network."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import deque
from typing import TYPE_CHECKING

from ..errors import HttpFailed, OutfitterError, RemoteProtocolError
from ..protocol.http import (
    FOLLOW,
    STOP,
    CancelParams,
    HoldStreamParams,
    HttpHeader,
    RequestParams,
    RequestResult,
)
from ..record import record
from .arguments import milliseconds
from .unread import Unread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ..protocol.http import BodyNotice
    from .session import RemoteSession


@record
class HttpAnswer:
    """An answer: its status, its headers (names in lower case, repeats kept), its body.

        answer = await client.http.request("GET", "http://localhost:8080/health")
        print(answer.status, len(answer.body))

    A status of 400 or more is an answer like any other.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header.

            answer = await client.http.request("GET", "http://localhost:8080/health")
            print(answer.header("Retry-After"))  # None

        None if there is no such header.
        """
        return next((value for one, value in self.headers if one == name.lower()), None)


class HttpStream:
    """An answer whose body is still coming. Iterate over it in `async with`; it ends with the block.

        async with await client.http.stream("GET", "http://localhost:8080/health") as answer:
            async for piece in answer:
                print(answer.status, len(piece))

    A caller that does not iterate holds the other server back.
    """

    def __init__(self, feed: BodyFeed, head: RequestResult) -> None:
        self._feed = feed
        self._head = head

    @property
    def status(self) -> int:
        """The status code."""
        return self._head.status

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case, repeats kept."""
        return self._head.headers

    async def __aenter__(self) -> HttpStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._feed.pieces()

    def close(self) -> None:
        """Ends the request, if it is not over.

            answer = await client.http.stream("GET", "http://localhost:8080/health")
            answer.close()

        The block of `async with` does it, too.
        """
        self._feed.close()


class Http:
    """`client.http`: requests of the executor's machine.

        answer = await client.http.request("GET", "http://localhost:8080/health", timeout=30)
        print(answer.status)  # 200

    A header is (name, value), or (name, value, variable): the value of that variable of the executor is
    appended there, and never leaves it. `timeout` is for all of a request, in seconds.
    """

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, ...]] = (),
        body: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the server's
        follow: bool = True,
    ) -> HttpAnswer:
        """Sends a request and returns its answer, whatever the status.

            answer = await client.http.request("POST", "http://localhost:8080/jobs", body=b"build")
            print(answer.status)  # 200

        Raises RequestFailed or CapabilityMissing.
        """
        params = self._params(method, url, headers, body, timeout, follow, stream=False)
        try:
            found = await self._session.ask(RequestResult, "http/request", params)
        except asyncio.CancelledError:
            _cancel(self._session, params.request_id)  # else it goes on there, without `timeout` for ever
            raise
        return HttpAnswer(found.status, found.headers, found.body)

    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, ...]] = (),
        body: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the server's
        follow: bool = True,
    ) -> HttpStream:
        """Sends a request and returns when its headers are there: `async with await http.stream(...)`.

            async with await client.http.stream("GET", "http://localhost:8080/health") as answer:
                print(answer.status)  # 200

        Raises RequestFailed or CapabilityMissing. Iterating raises HttpFailed when the body is incomplete,
        and ConnectionLost when the connection is lost: a stream is not resumed.
        """
        params = self._params(method, url, headers, body, timeout, follow, stream=True)
        feed = BodyFeed(self._session, params.request_id)
        try:
            head = await self._session.ask(RequestResult, "http/request", params)
        except BaseException:
            feed.close()
            raise
        feed.begin()
        return HttpStream(feed, head)

    def _params(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, ...]],
        body: bytes | None,
        seconds: float | None,
        follow: bool,
        *,
        stream: bool,
    ) -> RequestParams:
        timeout_ms = None if seconds is None else milliseconds("timeout", seconds)
        self._session.require("httpHeaderEnvVars", "send HTTP requests")
        return RequestParams(
            method,
            url,
            f"{self._prefix}-{next(self._numbers)}",
            tuple([HttpHeader(*one) for one in headers]),
            body,
            timeout_ms,
            FOLLOW if follow else STOP,
            stream,
        )


class BodyFeed:
    """What the session tells of a stream."""

    def __init__(self, session: RemoteSession, request_id: str) -> None:
        self._session = session
        self._ident = request_id
        self._pieces: deque[bytes] = deque()
        self._unread = Unread(
            session, "httpHold", "http/hold", lambda on: HoldStreamParams(request_id, on).encode()
        )
        self._seq = 0
        self._news = asyncio.Event()
        self._begun = False  # the head is there; before that, a lost connection is the request's business
        self._over = False  # nothing more comes
        self._failure: OutfitterError | None = None
        self._lost: OutfitterError | None = None
        session.streams[request_id] = self

    def begin(self) -> None:
        """The head has come, over the connection that there is, if it was not lost since."""
        self._begun = True
        if self._lost is not None and self._session.link.connection is None:
            self.fail(self._lost)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._unread.count(-len(piece))
                yield piece
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._over:
                return
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Nobody wants more of it."""
        if not self._over:
            if self._session.link.connection is not None:  # else it has ended with that
                _cancel(self._session, self._ident)
            # Another task may be reading, and would take what it has for all of it.
            self._failure = HttpFailed("the answer was closed before its end")
        self._end()
        self._unread.count(-self._unread.waiting)
        self._pieces.clear()

    def _end(self) -> None:
        self._over = True
        self._unread.ended()
        self._session.streams.pop(self._ident, None)
        self._news.set()

    # From the session

    def receive(self, notice: BodyNotice) -> None:
        self._seq += 1
        if notice.seq != self._seq:
            failure = RemoteProtocolError(f"piece {self._seq} of an HTTP body is missing: send it again")
            self.close()
            self._failure = failure
            return
        if notice.delta:
            self._pieces.append(notice.delta)
            self._unread.count(len(notice.delta))
            self._news.set()
        if notice.done:
            if notice.error is not None:
                self._failure = HttpFailed(notice.error)
            self._end()

    def fail(self, error: OutfitterError) -> None:
        """The connection is lost, and the stream with it; a request without an answer may be sent again."""
        self._lost = error
        if self._begun and not self._over:
            self._failure = error
            self._end()


def _cancel(session: RemoteSession, request_id: str) -> None:
    if session.offers("httpCancel"):
        session.later("http/cancel", CancelParams(request_id).encode())
