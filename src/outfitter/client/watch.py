"""A watch on an executor's files: reports changes as they happen, across connections."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ..errors import OutfitterError, SessionExpired
from ..protocol.watching import UnwatchParams
from ..record import record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..protocol.watching import ChangedNotice
    from .session import Params, RemoteSession

_WAITING = 1000  # notices that nobody has taken; then they become one that says "look for yourself"


@record
class FileChanges:
    """What changed: (URI, "created", "modified" or "removed").

        async with await client.files.watch("src") as watch:
            await client.files.remove("src/main.py")
            print((await anext(aiter(watch))).changes[0][1])  # removed

    With `overflow` the list is incomplete: read the files again.
    """

    changes: list[tuple[str, str]]
    overflow: bool = False


class Watch:
    """Iterate over it to get changes, in `async with`; the watch ends with the block.

        async with await client.files.watch("src") as watch:
            await client.files.write("src/new.py", "x = 1")
            print((await anext(aiter(watch))).overflow)  # False

    A server ends a watch with its connection. After a recovery the watch is set up again, and what happened
    in between is reported as an overflow.
    """

    def __init__(self, feed: WatchFeed) -> None:
        self._feed = feed

    @property
    def watch_id(self) -> str:
        """Its name within the connection."""
        return self._feed.watch_id

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncGenerator[FileChanges, None]:
        return self._feed.changes()

    def close(self) -> None:
        """Ends the watch.

            watch = await client.files.watch("src")
            watch.close()

        A loop over its changes ends.
        """
        self._feed.close()


class WatchFeed:
    """What the session tells of a watch, and how the watch is set up again."""

    def __init__(self, session: RemoteSession, watch_id: str, params: Params) -> None:
        self.watch_id = watch_id
        self._session = session
        self._params = params
        self._changes: deque[FileChanges] = deque()
        self._news = asyncio.Event()
        self._failure: OutfitterError | None = None
        self._begun = False
        self._closed = False

    async def begin(self) -> None:
        """Sets the watch up for the first time. Raises RequestFailed, ConnectionLost."""
        self._session.watches[self.watch_id] = self
        try:
            await self._set_up()
            self._begun = True
        except BaseException as error:
            self._session.watches.pop(self.watch_id, None)
            if not isinstance(error, OutfitterError):  # given up: it may be set up all the same
                self._unwatch()
            raise

    async def _set_up(self) -> None:
        await self._session.call("fs/watch", self._params.encode())

    async def changes(self) -> AsyncGenerator[FileChanges, None]:
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
        if not self._closed:
            self._closed = True
            self._news.set()
            self._session.watches.pop(self.watch_id, None)
            self._unwatch()

    def _unwatch(self) -> None:
        self._session.later("fs/unwatch", UnwatchParams(self.watch_id).encode())

    # From the session

    def receive(self, notice: ChangedNotice) -> None:
        if len(self._changes) >= _WAITING:
            self._changes.clear()
            self._add(FileChanges([], overflow=True))
        else:
            self._add(FileChanges(notice.changes, notice.overflow))

    def _add(self, changes: FileChanges) -> None:
        self._changes.append(changes)
        self._news.set()

    async def renew(self) -> None:
        """Sets the watch up again on a new connection."""
        if not self._begun:
            return  # `begin` has waited for this connection, and sets it up
        try:
            await self._set_up()
        except SessionExpired as error:
            self.fail(error)
        except OutfitterError as error:
            link = self._session.link
            if link.failure is None and link.state == "connected":
                self.fail(error)  # what was watched is gone
            return
        self._add(FileChanges([], overflow=True))

    def fail(self, error: OutfitterError) -> None:
        if not self._closed and self._failure is None:
            self._failure = error
            self._news.set()
