"""One stream of a command's output, to be read by lines or by bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.events import Output

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .feed import ProcessFeed


class OutputReader:
    """The stdout or the stderr of a command, as it comes.

        async with client.start(["sh", "-c", "echo ready; sleep 60"]) as process:
            print((await process.stdout.readline()).decode().strip())  # ready

    It takes its bytes from the events of the process: read either the readers or the events. What the other
    stream prints meanwhile waits for its reader, and slows the command down when 8 MiB wait.
    """

    def __init__(self, feed: ProcessFeed, stream: str) -> None:
        self._feed = feed
        self._stream = stream

    async def read(self, limit: int = -1) -> bytes:
        """At most `limit` bytes, as soon as there are some, or all to the end; b"" at the end.

            async with client.start(["echo", "hello"]) as process:
                print((await process.stdout.read()).strip())  # b'hello'

        Raises the same errors as iterating over the process.
        """
        with self._feed.reading():
            while limit < 0 or not self._kept:
                if limit == 0 or not await self._more():
                    break
        return self._take(len(self._kept) if limit < 0 else limit)

    async def readline(self) -> bytes:
        """The next line with its end; without one if the output ends with it; b"" at the end.

            async with client.start(["echo", "hello"]) as process:
                print((await process.stdout.readline()).strip())  # b'hello'

        Raises the same errors as iterating over the process.
        """
        looked = 0
        with self._feed.reading():
            while (end := self._kept.find(b"\n", looked)) < 0:
                looked = len(self._kept)
                if not await self._more():
                    return self._take(looked)
        return self._take(end + 1)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        with self._feed.reading():
            while line := await self.readline():
                yield line

    @property
    def _kept(self) -> bytearray:
        """What was taken of this stream. Its reader is here: it does not wait any more."""
        self._feed.unread.count(-self._feed.kept_waiting.pop(self._stream, 0))
        return self._feed.kept_output.setdefault(self._stream, bytearray())

    def _take(self, size: int) -> bytes:
        kept = self._kept
        taken = bytes(kept[:size])
        del kept[:size]
        return taken

    async def _more(self) -> bool:
        """Takes the next event; False at the end. Cancelled, it has taken nothing."""
        before = len(self._kept)
        event = await self._feed.next(lambda: len(self._kept) > before)
        if isinstance(event, Output):
            self._feed.kept_output.setdefault(event.stream, bytearray()).extend(event.data)
            if event.stream != self._stream:  # it still waits for its reader
                waiting = self._feed.kept_waiting
                waiting[event.stream] = waiting.get(event.stream, 0) + len(event.data)
                self._feed.unread.count(len(event.data))
            self._feed.news.set()  # who may be another one
        return event is not None or len(self._kept) > before
