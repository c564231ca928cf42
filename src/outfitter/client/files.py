"""The files of an executor: `client.files`.

Paths are those of the executor; relative paths start at its working directory. For an executor with other
path rules, use a `file:` URI. Large files are sent in blocks, a few at a time, so that memory stays flat and
other requests get through. After a lost connection, reads continue where they stopped if the file is still
the same; a whole write is repeated.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING

from ..errors import Disconnected, FileChanged, InvalidParams, RequestFailed
from ..protocol import fileresults as results
from ..protocol import filesystem as fs
from ..protocol.codes import NOT_FOUND
from ..protocol.search import SearchParams, SearchResult
from ..protocol.uri import parse
from ..protocol.watching import WatchParams
from ..record import record
from .sandbox import confined, wire_sandbox
from .watch import Watch, WatchFeed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from ..core.sandbox import Sandbox
    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri
    from .session import Params, R, RemoteSession

AT_ONCE_BYTES = 4 << 20  # one message; above, blocks are quicker to begin with and never held whole twice
BLOCK_BYTES = 1 << 20  # the largest the protocol has
IN_FLIGHT = 4  # blocks under way: hides a round trip, holds four megabytes

FileInfo = results.MetadataResult
Found = SearchResult


@record
class FolderEntry:
    """One entry of a directory. `path` leads to it even if its name is not text."""

    name: str
    path: str
    is_directory: bool
    is_file: bool


@record
class Walked:
    """The result of a walk: (path, "file" or "directory"), and (path, message) for what could not be read."""

    entries: list[tuple[str, str]]
    errors: list[tuple[str, str]]
    truncated: bool


class Files:
    """The files of one executor."""

    def __init__(
        self, session: RemoteSession, sandbox: Json = None, handles: Iterator[int] | None = None
    ) -> None:
        self._session = session
        self._sandbox = sandbox
        self._handles = handles or itertools.count(1)

    def within(self, sandbox: Sandbox, cwd: str | None = None) -> Files:
        """The same files, as a command in this sandbox may read and write them.

        `cwd` is the directory that such a command would run in: the workspace, and where relative patterns
        start. Raises SettingInvalid.
        """
        told = wire_sandbox(sandbox, self._session.resolve(cwd))
        return Files(self._session, told, self._handles)

    # One file

    async def read(self, path: str, *, follow: bool = True) -> bytes:
        """The whole content of a file. Raises RequestFailed (`not_found` is the most frequent reason)."""
        if follow and self._streams and (await self.stat(path)).size > AT_ONCE_BYTES:
            async with await self.open(path) as file:
                return b"".join([block async for block in file])
        params = fs.FileParams(self._uri(path), follow)
        return (await self._ask(results.FileResult, "fs/readFile", params)).data

    async def write(self, path: str, data: bytes, *, follow: bool = True) -> None:
        """Replaces the content of a file, or creates the file; its directory must exist."""
        streams = self._streams and self._session.offers("fileWriteStreaming")
        if len(data) <= AT_ONCE_BYTES or not follow or not streams:
            # Writing the same content twice is the same as once, so it may be repeated.
            await self._call("fs/writeFile", fs.WriteFileParams(self._uri(path), data, follow))
            return
        while True:
            try:
                await self._write_blocks(path, data)
                return
            except Disconnected:
                continue  # half of it went nowhere; begin again when there is a connection

    async def _write_blocks(self, path: str, data: bytes) -> None:
        async with await self.open(path, "replace") as file:
            view = memoryview(data)
            for place in range(0, len(data), BLOCK_BYTES):
                await file.write_at(bytes(view[place : place + BLOCK_BYTES]), place)

    async def open(self, path: str, mode: str = "read") -> RemoteFile:
        """Opens a file to read or write it in blocks; close it, or use it in `async with`.

        With "replace", the new content replaces the file when it is closed; with "update" (if the server
        offers it), blocks are written to the existing file in place.
        """
        if mode not in ("read", "replace", "update"):
            raise InvalidParams(f'mode must be "read", "replace" or "update", not {mode!r}')
        if mode == "update":
            self._session.require("fsOpenUpdate", "write to a file in place")
        if mode == "replace":
            self._session.require("fileWriteStreaming", "write a file in blocks")
        if self._sandbox is not None:
            self._session.require("sandboxedFileStreaming", "open a file in a sandbox")
        file = RemoteFile(self._session, self._uri(path), mode, self._handles, self._sandbox)
        await file._begin()
        return file

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return await self._ask(FileInfo, "fs/getMetadata", fs.FileParams(self._uri(path), follow))

    async def exists(self, path: str) -> bool:
        """Whether the path exists; a broken symbolic link does not."""
        try:
            await self.stat(path)
        except RequestFailed as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True

    async def canonicalize(self, path: str) -> str:
        """The path without symbolic links and dots. It must exist."""
        result = await self._ask(results.PathResult, "fs/canonicalize", fs.PathParams(self._uri(path)))
        return native(result.path)

    # Folders

    async def make_directory(self, path: str, *, recursive: bool = True) -> None:
        """Creates a directory. With `recursive`, also its parents, and an existing directory is accepted."""
        params = fs.CreateDirectoryParams(self._uri(path), recursive)
        await self._call("fs/createDirectory", params, repeat=recursive)

    async def list(self, path: str) -> list[FolderEntry]:
        """The entries of a directory; symbolic links are described by their targets."""
        uri = self._uri(path)
        result = await self._ask(results.EntriesResult, "fs/readDirectory", fs.PathParams(uri))
        folder = native(uri.text).rstrip("/")
        found = []
        for one in result.entries:
            place = native(one.uri) if one.uri is not None else f"{folder}/{one.name}"
            found.append(FolderEntry(one.name, place, one.is_directory, one.is_file))
        return found

    async def walk(
        self,
        path: str,
        *,
        depth: int = 64,
        directories: int = 10_000,
        entries: int = 50_000,
        follow: bool = False,
        hidden: bool = True,
    ) -> Walked:
        """Everything below a directory, within these limits.

        With `hidden=False`, hidden directories are listed but not entered.
        """
        params = fs.WalkParams(self._uri(path), depth, directories, entries, follow, not hidden)
        result = await self._ask(results.WalkResult, "fs/walk", params)
        return Walked(
            [(native(path), kind) for path, kind in result.entries],
            [(native(path), message) for path, message in result.errors],
            result.truncated,
        )

    # Changing names

    async def copy(self, source: str, destination: str, *, recursive: bool = False) -> None:
        """Copies within the executor: a file, a symbolic link, or with `recursive` a directory."""
        params = fs.CopyParams(self._uri(source), self._uri(destination), recursive)
        await self._call("fs/copy", params, repeat=False)

    async def remove(self, path: str, *, recursive: bool = False, force: bool = False) -> None:
        """Removes a file, a symbolic link or an empty directory; with `recursive`, a full directory.

        With `force`, a path that does not exist is accepted.
        """
        params = fs.RemoveParams(self._uri(path), recursive, force)
        await self._call("fs/remove", params, repeat=force)

    async def rename(self, source: str, destination: str, *, replace: bool = False) -> None:
        """Renames a path.

        Raises RequestFailed if the destination exists, unless `replace`; or CapabilityMissing.
        """
        self._session.require("fsRename", "rename files")
        params = fs.RenameParams(self._uri(source), self._uri(destination), replace)
        await self._call("fs/rename", params, repeat=False)

    async def chmod(self, path: str, mode: int, *, follow: bool = True) -> None:
        """Sets the permissions of a path. Raises RequestFailed or CapabilityMissing."""
        self._session.require("fsChmod", "change the mode of files")
        await self._call("fs/chmod", fs.ChmodParams(self._uri(path), mode, follow))

    # Following and finding

    async def watch(
        self,
        path: str,
        *,
        recursive: bool = True,
        debounce: float = 0.05,
        ignore: Sequence[str] = (),
    ) -> Watch:
        """Reports changes of a file or directory as they happen: `async with await files.watch(...)`.

        A directory is watched with everything below it. Changes are collected for `debounce` seconds;
        `ignore` has patterns as in a .gitignore file. Symbolic links are not followed. Raises RequestFailed
        or CapabilityMissing.
        """
        self._session.require("fsWatch", "watch files")
        watch_id = f"w{next(self._handles)}"
        params = WatchParams(watch_id, self._uri(path), recursive, int(debounce * 1000), tuple(ignore))
        feed = WatchFeed(self._session, watch_id, confined(params, self._sandbox))
        await feed.begin()
        return Watch(feed)

    async def search(
        self,
        path: str,
        pattern: str,
        *,
        regex: bool = True,
        case_sensitive: bool = True,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_matches: int = 1000,
        hidden: bool = False,
        honour_ignore_files: bool = True,
        timeout: float = 30.0,  # noqa: ASYNC109 - it is the server's
    ) -> Found:
        """Finds the lines that match a pattern in the text files of a directory, like `grep -r`.

        `include` and `exclude` are patterns as in a .gitignore file. Raises RequestFailed or
        CapabilityMissing.
        """
        self._session.require("fsSearch", "search files")
        params = SearchParams(
            self._uri(path),
            pattern,
            regex=regex,
            case_sensitive=case_sensitive,
            include=tuple(include),
            exclude=tuple(exclude),
            max_matches=max_matches,
            hidden=hidden,
            honour_ignore_files=honour_ignore_files,
            timeout_ms=int(timeout * 1000),
        )
        return await self._ask(Found, "fs/search", params)

    # Calls

    def _uri(self, path: str) -> FileUri:
        return self._session.resolve(path)

    @property
    def _streams(self) -> bool:
        """Whether files go in blocks."""
        return self._sandbox is None or self._session.offers("sandboxedFileStreaming")

    async def _ask(self, kind: type[R], method: str, params: Params) -> R:
        return await self._session.ask(kind, method, confined(params, self._sandbox), repeat=True)

    async def _call(self, method: str, params: Params, *, repeat: bool = True) -> None:
        await self._session.call(method, confined(params, self._sandbox).encode(), repeat=repeat)


class RemoteFile:
    """An open file. Iterate over it to get its blocks, or read and write at any position."""

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
        self._handle = await self._open()
        if self.mode == "read":
            self._identity = await self._identify()

    async def _open(self) -> str:
        handle = f"f{next(self._handles)}"
        self._generation = self._session.link.generation
        try:
            params = confined(fs.OpenParams(handle, self.uri, self.mode), self._sandbox)
            await self._session.call("fs/open", params.encode())
        except BaseException as error:
            # It may be open all the same; the server forgets it with the connection at the latest.
            if not isinstance(error, RequestFailed | Disconnected):
                self._session.later("fs/close", fs.CloseParams(handle).encode())
            raise
        return handle

    async def _identify(self) -> tuple[int, int, int]:
        """What tells this file from another one that takes its name."""
        params = confined(fs.FileParams(self.uri), self._sandbox)
        info = await self._session.ask(FileInfo, "fs/getMetadata", params, repeat=True)
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

        After a lost connection the file is opened again. Raises FileChanged if it is then a different file.
        """
        while True:
            handle = self._handle
            try:
                params = fs.ReadBlockParams(handle, offset, length)
                return (await self._session.ask(results.BlockResult, "fs/readBlock", params)).chunk
            except Disconnected:
                await self._reopen(handle)
            except RequestFailed as error:
                # A call that waited for the next connection finds no handle there.
                if error.code != NOT_FOUND or self._generation == self._session.link.generation:
                    raise
                await self._reopen(handle)

    async def _reopen(self, lost: str) -> None:
        async with self._opening:
            if self._handle != lost:
                return  # another reader has done it
            self._handle = await self._open()
            if await self._identify() != self._identity:
                raise FileChanged(f"{native(self.uri.text)} changed while the connection was down")

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self.blocks()

    async def blocks(self, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """The blocks from this position to the end; a few are requested ahead."""
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
        """Closes the file. The new content replaces the file when this returns, and not before."""
        if self._closed:
            return
        self._closed = True
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
        """Closes the file without keeping what was written."""
        self._closed = True
        for task in self._writes:
            task.cancel()
        if self._handle and self._generation == self._session.link.generation:
            self._session.later("fs/close", fs.CloseParams(self._handle, discard=True).encode())


def native(text: str) -> str:
    """A path as programs of the executor know it; its URI if it has no such form."""
    try:
        return parse(text).local_path()
    except (InvalidParams, ValueError):
        return text
