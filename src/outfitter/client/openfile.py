"""An open file of an executor, read and written in blocks; reads go on after a lost connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ..errors import Disconnected, FileChanged, RequestFailed
from ..protocol import fileresults as results
from ..protocol import filesystem as fs
from ..protocol.codes import NOT_FOUND
from .naming import file_failure, native
from .sandbox import confined

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri
    from .session import RemoteSession

BLOCK_BYTES = 1 << 20  # the largest the protocol has
IN_FLIGHT = 4  # blocks under way: hides a round trip, holds four megabytes


class RemoteFile:
    """An open file. Iterate over it to get its blocks, or read and write at any position.

        async with await client.files.open("build.log") as file:
            print(await file.read_at(0, 5))  # b'built'

    `files.open` makes one.
    """

    uri: FileUri
    """Where the file is."""
    mode: str
    """ "read", "replace" or "update"."""

    def __init__(
        self, session: RemoteSession, uri: FileUri, mode: str, handles: Iterator[int], sandbox: Json
    ) -> None:
        self.uri = uri
        self.mode = mode
        self._session = session
        self._handles = handles
        self._sandbox = sandbox
        self._handle = ""
        self._generation = 0  # of the connection that the handle belongs to
        self._identity: tuple[int, int, int] | None = None
        self._opening = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._closed = False

    async def _begin(self) -> None:
        self._handle, self._generation = await self._open()
        if self.mode == "read":
            try:
                self._identity = await self._identify()
            except BaseException:
                self.abandon()  # nobody gets it, and so nobody else closes it
                raise

    async def _open(self) -> tuple[str, int]:
        """A handle, and the generation of the connection that it belongs to."""
        handle = f"f{next(self._handles)}"
        try:
            params = confined(fs.OpenParams(handle, self.uri, self.mode), self._sandbox)
            # Sent again after a break, to read: what it may have opened went with the connection.
            await self._session.call("fs/open", params.encode(), repeat=self.mode == "read")
        except BaseException as error:
            # It may be open all the same; the server forgets it with the connection at the latest.
            # Nothing was written, which must not take the place of what is there.
            if not isinstance(error, RequestFailed | Disconnected):
                self._discard(handle)
            if isinstance(error, RequestFailed):
                raise file_failure(error, native(self.uri.text)) from None
            raise
        # Not the one before the call, which may have waited for the next.
        return handle, self._session.link.generation

    def _discard(self, handle: str) -> None:
        self._session.later("fs/close", fs.CloseParams(handle, discard=True).encode())

    async def _identify(self) -> tuple[int, int, int]:
        """What tells this file from another one that takes its name."""
        params = confined(fs.FileParams(self.uri), self._sandbox)
        info = await self._session.ask(results.MetadataResult, "fs/getMetadata", params, repeat=True)
        return info.size, info.modified_ms, info.created_ms

    async def __aenter__(self) -> RemoteFile:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.close()
        else:
            self.abandon()

    # Reading

    async def read_at(self, offset: int, length: int = BLOCK_BYTES) -> bytes:
        """Up to `length` bytes (at most one block); fewer only at the end of the file.

            async with await client.files.open("build.log") as file:
                print(await file.read_at(0, 5))  # b'built'

        After a lost connection the file is opened again. Raises FileChanged if it is then a different file.
        """
        while True:
            handle, generation = self._handle, self._generation
            try:
                params = fs.ReadBlockParams(handle, offset, length)
                return (await self._session.ask(results.BlockResult, "fs/readBlock", params)).chunk
            except Disconnected:
                await self._reopen(handle)
            except RequestFailed as error:
                # A call that waited for the next connection finds no handle there.
                if error.code != NOT_FOUND or generation == self._session.link.generation:
                    raise
                await self._reopen(handle)

    async def _reopen(self, lost: str) -> None:
        async with self._opening:
            if self._handle != lost:
                return  # another reader has done it
            handle, generation = await self._open()
            try:
                if await self._identify() != self._identity:
                    raise FileChanged(f"{native(self.uri.text)} changed while the connection was down")
            except BaseException:
                self._discard(handle)  # nobody reads what may be another file
                raise
            self._handle, self._generation = handle, generation

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self.blocks()

    async def blocks(self, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """The blocks from this position to the end; a few are requested ahead.

            async with await client.files.open("build.log") as file:
                async for block in file.blocks(6):
                    print(block)  # b'in 2 seconds'

        Raises as `read_at`.
        """
        ahead: deque[asyncio.Task[bytes]] = deque()
        try:
            while True:
                while len(ahead) < IN_FLIGHT:
                    ahead.append(asyncio.ensure_future(self.read_at(offset)))
                    offset += BLOCK_BYTES
                block = await ahead.popleft()
                if block:
                    yield block
                if len(block) < BLOCK_BYTES:
                    return
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    # Writing

    async def write_at(self, data: bytes, offset: int) -> None:
        """Writes a block (at most 1 MiB). Returns when there is room for the next one.

            async with await client.files.open("build.log", "replace") as file:
                await file.write_at(b"built again", 0)

        Raises the error of an earlier write, if any.
        """
        if self._failure is not None:
            raise self._failure
        while len(self._writes) >= IN_FLIGHT:
            await asyncio.wait(self._writes, return_when=asyncio.FIRST_COMPLETED)
        if self._failure is not None:
            raise self._failure
        task = asyncio.ensure_future(self._write(data, offset))
        self._writes.add(task)
        task.add_done_callback(self._written)

    async def _write(self, data: bytes, offset: int) -> None:
        params = fs.WriteBlockParams(self._handle, offset, data).encode()
        try:
            await self._session.call("fs/writeBlock", params)
        except RequestFailed:
            self._check_connection()
            raise

    def _check_connection(self) -> None:
        """Raises Disconnected when the handle went with an earlier connection, and what it had with it."""
        if self._generation != self._session.link.generation:
            raise Disconnected("the connection was lost before the file was written")

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            self._failure = task.exception()

    # The end

    async def close(self) -> None:
        """Closes the file. The new content replaces the file when this returns, and not before.

            file = await client.files.open("build.log", "replace")
            await file.write_at(b"built again", 0)
            await file.close()

        Raises the error of a write, or Disconnected if what was written is lost.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._close()
        except asyncio.CancelledError:
            self.abandon()  # nobody will close it once more
            raise

    async def _close(self) -> None:
        if self._writes:
            await asyncio.wait(self._writes)
        if self._failure is not None:
            self.abandon()
            raise self._failure
        if self.mode == "read":
            self._session.later("fs/close", fs.CloseParams(self._handle).encode())
            return
        self._check_connection()
        await self._session.call("fs/close", fs.CloseParams(self._handle).encode())
        # Closing a handle that is not there is no error; it only means that nothing was written.
        self._check_connection()

    def abandon(self) -> None:
        """Closes the file without keeping what was written.

            file = await client.files.open("build.log", "replace")
            await file.write_at(b"half of", 0)
            file.abandon()

        The file stays as it was, unless it was opened with "update".
        """
        self._closed = True
        for task in self._writes:
            task.cancel()
        if self._handle and self._generation == self._session.link.generation:
            self._discard(self._handle)
