"""A watch on an executor's files: what changed, as it changes, across connections."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ..errors import OutfitterError, SessionExpired
from ..protocol.watching import UnwatchParams
from ..record import record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..protocol.watching import ChangedNotice, WatchParams
    from .client import Client

_WAITING = 1000  # notices that nobody has taken; then they become one that says "look for yourself"


@record
class Changes:
    """What changed: (URI, "created", "modified" or "removed"). With `overflow` that is not all: look anew."""

    changes: list[tuple[str, str]]
    overflow: bool = False


class Watch:
    """Iterate over it for changes, in `async with`; it ends with the block.

    A server forgets a watch with its connection. After a recovery it is set up again, and what happened in
    between is told as an overflow.
    """

    def __init__(self, client: Client, params: WatchParams) -> None:
        self.watch_id = params.watch_id
        self._client = client
        self._params = params
        self._changes: deque[Changes] = deque()
        self._news = asyncio.Event()
        self._failure: OutfitterError | None = None
        self._closed = False

    async def begin(self) -> None:
        await self._client.call("fs/watch", self._params.encode())

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[Changes]:
        while True:
            while self._changes:
                yield self._changes.popleft()
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Ends it."""
        if not self._closed:
            self._closed = True
            self._news.set()
            self._client.forget_watch(self)
            self._client.later("fs/unwatch", UnwatchParams(self.watch_id).encode())

    # From the client

    def receive(self, notice: ChangedNotice) -> None:
        if len(self._changes) >= _WAITING:
            self._changes.clear()
            self._changes.append(Changes([], overflow=True))
        else:
            self._changes.append(Changes(notice.changes, notice.overflow))
        self._news.set()

    async def renew(self) -> None:
        """Sets it up again on a new connection."""
        try:
            await self.begin()
        except SessionExpired as error:
            self.fail(error)
        except OutfitterError as error:
            if self._client.failed is None and self._client.state == "connected":
                self.fail(error)  # what was watched is gone
            return
        self._changes.append(Changes([], overflow=True))
        self._news.set()

    def fail(self, error: OutfitterError) -> None:
        if not self._closed and self._failure is None:
            self._failure = error
            self._news.set()
