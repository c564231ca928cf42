"""What a command has printed while nobody waited: kept, bounded, as text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.collecting import Kept
from ..core.events import Output
from .arguments import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .process import RemoteProcess

LIMIT_BYTES = 1 << 20  # a long screen log; what is older is dropped


class Transcript:
    """Keeps the newest output of a process as it comes, both streams in one.

        process = await client.start(["sh", "-c", "echo password:; sleep 60"])
        transcript = outfitter.Transcript(process)
        print(await transcript.find(["$ ", "password:"], seconds=30))  # password:
        print(transcript.take().split())  # ['password:']
        await process.terminate()

    It takes the events of the process from now on; nobody else should iterate over it. Text is UTF-8, and a
    character that is not whole yet is left for the next time.
    """

    def __init__(self, process: RemoteProcess, limit: int = LIMIT_BYTES) -> None:
        count("limit", limit, 1)
        self._process = process
        self._limit = limit
        self._all = Kept(limit, "tail")
        self._new = Kept(limit, "tail")
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._following = asyncio.ensure_future(self._follow())
        # Not in the task itself: one that is closed at once never runs.
        self._following.add_done_callback(lambda _: self._news.set())

    @property
    def closed(self) -> bool:
        """Whether no more comes: all output is there, an error has ended it, or `close` was called."""
        return self._following.done()

    def text(self) -> str:
        """All that is kept.

            transcript = outfitter.Transcript(await client.start(["echo", "done"]))
            print(transcript.text())

        It stays; `take` gives each piece once.
        """
        return _whole(self._all.bytes(), last=self.closed)[0]

    def take(self) -> str:
        """What has come since it was last taken.

            transcript = outfitter.Transcript(await client.start(["echo", "done"]))
            print(transcript.take())

        `text` goes on to have it.
        """
        text, rest = _whole(self._new.bytes(), last=self.closed)
        self._new = Kept(self._limit, "tail")
        self._new.add(rest)
        return text

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the output, for so many seconds at most; returns whether it has come.

            transcript = outfitter.Transcript(await client.start(["echo", "done"]))
            print(await transcript.wait(seconds=30))  # True

        Raises the error that ended the output, if one did.
        """
        await asyncio.wait([self._following], timeout=seconds)
        self._check()
        return self.closed and not self._following.cancelled()

    async def find(self, strings: Sequence[str], seconds: float | None = None) -> str | None:
        """Waits until the text that is not taken yet contains one of these; returns which.

            transcript = outfitter.Transcript(await client.start(["echo", "done"]))
            print(await transcript.find(["done", "failed"], seconds=30))  # done

        None if the time is over, or the output has ended without it. Raises as `wait`.
        """
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._news.clear()
                    text = _whole(self._new.bytes(), last=True)[0]
                    for one in strings:
                        if one in text:
                            return one
                    self._check()
                    if self.closed:
                        return None
                    await self._news.wait()
        except TimeoutError as error:
            if error is self._failure:
                raise
            return None

    def close(self) -> None:
        """Takes no more events; the process goes on.

            transcript = outfitter.Transcript(await client.start(["echo", "done"]))
            transcript.close()

        What it has kept stays.
        """
        self._following.cancel()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _follow(self) -> None:
        try:
            async for event in self._process:
                if isinstance(event, Output):
                    self._all.add(event.data)
                    self._new.add(event.data)
                    self._news.set()
        except Exception as error:
            self._failure = error


def _whole(data: bytes, *, last: bool) -> tuple[str, bytes]:
    """The text of whole characters, and the bytes of one that has only begun."""
    end = len(data)
    if not last:
        for back in range(1, min(4, end + 1)):
            byte = data[-back]
            if byte >= 0xC0:  # the first one of a character of two, three or four bytes
                if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4):
                    end -= back
                break
            if byte < 0x80:
                break
    text = data[:end].decode(errors="replace")
    # What the bound has cut off at the start is no character either.
    return text.lstrip("�") if data[:1] and 0x80 <= data[0] < 0xC0 else text, data[end:]
