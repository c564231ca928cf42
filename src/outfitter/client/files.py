"""The files of an executor: `client.files`.

Paths are those of the executor; relative paths start at its working directory. For an executor with other
path rules, use a `file:` URI. Large files are sent in blocks, a few at a time, so that memory stays flat and
other requests get through. After a lost connection, reads continue where they stopped if the file is still
the same; a whole write is repeated.
"""

from __future__ import annotations

import itertools
import posixpath
import sys
from typing import TYPE_CHECKING

from ..core.lines import Lines
from ..errors import Disconnected, InvalidParams, NotFound, RequestFailed
from ..protocol import fileresults as results
from ..protocol import filesystem as fs
from ..protocol.search import SearchParams, SearchResult
from ..protocol.watching import WatchParams
from ..record import record
from . import answers, arguments
from .answers import FileInfo, Searched
from .arguments import count, encodable, milliseconds, octets, place
from .naming import directory_failure, file_failure
from .naming import native as native
from .openfile import BLOCK_BYTES as BLOCK_BYTES
from .openfile import RemoteFile as RemoteFile
from .sandbox import confined, wire_sandbox
from .transfer import Transfers, in_turns
from .watch import Watch, WatchFeed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.sandbox import Sandbox
    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri
    from .arguments import Place
    from .session import Params, R, RemoteSession

AT_ONCE_BYTES = 4 << 20  # one message; above, blocks are quicker to begin with and never held whole twice


@record
class FolderEntry:
    """One entry of a directory. `path` leads to it even if its name is not text.

        for entry in await client.files.list("src"):
            print(entry.path, entry.kind)

    Of a symbolic link, everything but `link_target` describes what it leads to, or the link itself if it
    leads nowhere: then it is neither a directory nor a file. `modified_ms` are milliseconds since 1970.
    """

    name: str
    path: str
    is_directory: bool
    is_file: bool
    is_symlink: bool = False
    size: int = 0
    modified_ms: int = 0
    mode: int | None = None
    link_target: str | None = None

    @property
    def kind(self) -> str:
        """What the entry itself is: "file", "directory", "symlink" or "other"."""
        if self.is_symlink:
            return "symlink"
        return "directory" if self.is_directory else "file" if self.is_file else "other"


@record
class Walked:
    """The result of a walk: (path, "file" or "directory"), and (path, message) for what could not be read.

        found = await client.files.walk("src")
        print(len(found.entries), found.truncated)  # 1 False

    `truncated` says that a limit of the walk was reached.
    """

    entries: list[tuple[str, str]]
    errors: list[tuple[str, str]]
    truncated: bool


class Files(Transfers):
    """The files of one executor. Paths are text or PathLike.

        await client.files.write("notes/today.md", "# Today", parents=True)
        print(await client.files.read_text("notes/today.md"))  # # Today

    A relative path starts at the executor's working directory.
    """

    def __init__(
        self, session: RemoteSession, sandbox: Json = None, handles: Iterator[int] | None = None
    ) -> None:
        self._session = session
        self._sandbox = sandbox
        self._handles = handles or itertools.count(1)

    def within(self, sandbox: Sandbox, cwd: Place | None = None) -> Files:
        """The same files, as a command in this sandbox may read and write them.

            confined = client.files.within(outfitter.Sandbox.read_only(deny_read=["secrets"]))
            print(await confined.read_text("notes.md"))  # remember the milk

        `cwd` is the directory that such a command would run in: the workspace, and where relative patterns
        start. Raises SettingInvalid.
        """
        from ..core.sandbox import Sandbox

        if not isinstance(sandbox, Sandbox):
            raise TypeError(f"sandbox is made with outfitter.Sandbox, and is {sandbox!r}")
        told = wire_sandbox(sandbox, self._session.resolve(cwd))
        return Files(self._session, told, self._handles)

    # One file

    async def read(self, path: Place, *, follow: bool = True, limit: int | None = None) -> bytes:
        """The whole content of a file; with `limit`, at most its first so many bytes.

            head = await client.files.read("build.log", limit=10_000)

        Raises NotFound, IsADirectory, PermissionDenied or another RequestFailed.
        """
        try:
            return await self._read(path, follow=follow, limit=limit)
        except RequestFailed as error:
            # Servers say of a directory only that it is no file.
            if error.errno is None and (await self.stat(path)).is_directory:
                raise directory_failure(error, place(path)) from None
            raise

    async def _read(self, path: Place, *, follow: bool, limit: int | None) -> bytes:
        if limit is not None:
            return await self._read_head(path, limit, follow=follow)
        if follow and self._streams and (await self.stat(path)).size > AT_ONCE_BYTES:
            async with await self.open(path) as file:
                return b"".join([block async for block in file])
        params = fs.FileParams(self._uri(path), follow)
        return (await self._ask(results.FileResult, "fs/readFile", params, path)).data

    async def _read_head(self, path: Place, limit: int, *, follow: bool) -> bytes:
        count("limit", limit)
        if not follow or not self._streams:
            return (await self._read(path, follow=follow, limit=None))[:limit]
        parts: list[bytes] = []
        async with await self.open(path) as file:
            while limit > 0 and (block := await file.read_at(sum(map(len, parts)), min(limit, BLOCK_BYTES))):
                parts.append(block)
                limit -= len(block)
        return b"".join(parts)

    async def read_text(self, path: Place, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole content of a file as text.

            print(await client.files.read_text("notes.md"))  # remember the milk

        Raises UnicodeDecodeError, and what `read` raises.
        """
        return (await self.read(path)).decode(encoding, errors)

    async def read_lines(
        self, path: Place, start: int = 0, count: int | None = None, *, errors: str = "replace"
    ) -> list[str]:
        """`count` lines of a text file from the line `start`, which counts from 0, without their ends.

            await client.files.read_lines("main.py", 10, 20)  # the lines 11 to 30

        A file is read no further than is needed.
        """
        arguments.count("start", start)
        arguments.count("count", count)
        end = None if count is None else start + count
        parts, ended = list[bytes](), 0
        if not self._streams:
            parts.append(await self.read(path))
        else:
            async with await self.open(path) as file:
                async for block in file:
                    parts.append(block)
                    ended += block.count(b"\n")
                    if end is not None and ended >= end:
                        break
        lines = Lines(sys.maxsize)  # in one piece each: whoever numbers them counts their ends
        found = lines.add(b"".join(parts)) + lines.rest()
        return [line.decode(errors=errors) for line in found[start:end]]

    async def write(
        self, path: Place, data: bytes | str, *, follow: bool = True, parents: bool = False
    ) -> None:
        """Replaces the content of a file, or creates the file. Text is written as UTF-8.

            await client.files.write("notes/today.md", "# Today", parents=True)

        Its directory must exist; with `parents`, missing directories are made.
        """
        data = octets(data)
        try:
            await self._write(path, data, follow=follow)
        except NotFound:
            if not parents:
                raise
            await self.make_directory(posixpath.dirname(native(self._uri(path).text)))
            await self._write(path, data, follow=follow)

    async def _write(self, path: Place, data: bytes, *, follow: bool) -> None:
        streams = self._streams and self._session.offers("fileWriteStreaming")
        if len(data) <= AT_ONCE_BYTES or not follow or not streams:
            # Writing the same content twice is the same as once, so it may be repeated.
            await self._call("fs/writeFile", fs.WriteFileParams(self._uri(path), data, follow), path)
            return
        while True:
            try:
                await self._write_blocks(path, data)
                return
            except Disconnected:
                continue  # half of it went nowhere; begin again when there is a connection

    async def _write_blocks(self, path: Place, data: bytes) -> None:
        async with await self.open(path, "replace") as file:
            view = memoryview(data)
            for place in range(0, len(data), BLOCK_BYTES):
                await file.write_at(bytes(view[place : place + BLOCK_BYTES]), place)

    async def open(self, path: Place, mode: str = "read") -> RemoteFile:
        """Opens a file to read or write it in blocks; close it, or use it in `async with`.

            async with await client.files.open("build.log") as file:
                async for block in file:
                    print(len(block))  # 18

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

    async def stat(self, path: Place, *, follow: bool = True) -> FileInfo:
        """What a path is: its kind, size, times and mode. Without `follow`, of a symbolic link itself.

            found = await client.files.stat("build.log")
            print(found.is_file, found.size)  # True 18

        Raises NotFound or another RequestFailed.
        """
        params = fs.FileParams(self._uri(path), follow)
        result = await self._ask(results.MetadataResult, "fs/getMetadata", params, path)
        return answers.plain(FileInfo, result)

    async def exists(self, path: Place) -> bool:
        """Whether the path exists; a broken symbolic link does not.

            print(await client.files.exists("no-such-file"))  # False

        Raises RequestFailed if that cannot be said.
        """
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    async def canonicalize(self, path: Place) -> str:
        """The path without symbolic links and dots. It must exist.

            print((await client.files.canonicalize("src/../src")).endswith("/src"))  # True

        Raises NotFound or another RequestFailed.
        """
        result = await self._ask(results.PathResult, "fs/canonicalize", fs.PathParams(self._uri(path)), path)
        return native(result.path)

    # Folders

    async def make_directory(self, path: Place, *, recursive: bool = True) -> None:
        """Creates a directory. With `recursive`, also its parents, and an existing directory is accepted.

            await client.files.make_directory("dist/wheels")

        Raises AlreadyExists without `recursive`, or another RequestFailed.
        """
        params = fs.CreateDirectoryParams(self._uri(path), recursive)
        await self._call("fs/createDirectory", params, path, repeat=recursive)

    async def list(self, path: Place) -> list[FolderEntry]:
        """The entries of a directory, each with its kind, size, time and, for a symbolic link, its target.

            for entry in await client.files.list("src"):
                print(entry.kind, entry.size, entry.name)

        The stock server is asked about each entry; it tells the target of a link without links and dots, and
        leaves out links that lead nowhere. Raises NotFound, NotADirectory or another RequestFailed.
        """
        if self._session.offers("fsReadDirectoryDetails"):
            return [*await self._list(path, details=True)]
        found: list[FolderEntry | None] = []

        async def look(entry: FolderEntry) -> None:
            found.append(await self._described(entry))

        entries = await self._list(path)
        await in_turns([lambda one=one: look(one) for one in entries])  # type: ignore[misc]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    async def _list(self, path: Place, *, details: bool = False) -> Sequence[FolderEntry]:
        """Without details, the entries have no more than names and what is a directory or a file."""
        uri = self._uri(path)
        params = fs.DirectoryParams(uri, details)
        result = await self._ask(results.EntriesResult, "fs/readDirectory", params, path)
        folder = native(uri.text).rstrip("/")
        return [
            FolderEntry(
                one.name,
                native(one.uri) if one.uri is not None else f"{folder}/{one.name}",
                one.is_directory,
                one.is_file,
                one.is_symlink,
                one.size or 0,
                one.modified_ms or 0,
                one.mode,
                one.link_target,
            )
            for one in result.entries
        ]

    async def _described(self, entry: FolderEntry) -> FolderEntry | None:
        """The same with what other requests tell of it; None if it has gone."""
        try:
            found = await self.stat(entry.path)
            target = await self.canonicalize(entry.path) if found.is_symlink else None
        except NotFound:
            return None
        return FolderEntry(
            entry.name,
            entry.path,
            found.is_directory,
            found.is_file,
            found.is_symlink,
            found.size,
            found.modified_ms,
            found.mode,
            target,
        )

    async def walk(
        self,
        path: Place,
        *,
        depth: int = 64,
        directories: int = 10_000,
        entries: int = 50_000,
        follow: bool = False,
        hidden: bool = True,
    ) -> Walked:
        """Everything below a directory, within these limits.

            for path, kind in (await client.files.walk("src")).entries:
                print(kind, path.rpartition("/")[2])  # file main.py

        With `hidden=False`, hidden directories are listed but not entered.
        """
        count("depth", depth, 0, fs.MAX_DEPTH)
        count("directories", directories, 1, fs.MAX_DIRECTORIES)
        count("entries", entries, 1, fs.MAX_ENTRIES)
        params = fs.WalkParams(self._uri(path), depth, directories, entries, follow, not hidden)
        result = await self._ask(results.WalkResult, "fs/walk", params, path)
        return Walked(
            [(native(path), kind) for path, kind in result.entries],
            [(native(path), message) for path, message in result.errors],
            result.truncated,
        )

    # Changing names

    async def copy(self, source: Place, destination: Place, *, recursive: bool = False) -> None:
        """Copies within the executor: a file, a symbolic link, or with `recursive` a directory.

            await client.files.copy("src", "copy-of-src", recursive=True)

        Raises RequestFailed.
        """
        params = fs.CopyParams(self._uri(source), self._uri(destination), recursive)
        await self._call("fs/copy", params, source, repeat=False)

    async def remove(self, path: Place, *, recursive: bool = False, force: bool = False) -> None:
        """Removes a file, a symbolic link or an empty directory; with `recursive`, a full directory.

            await client.files.remove("src", recursive=True)

        With `force`, a path that does not exist is accepted.
        """
        params = fs.RemoveParams(self._uri(path), recursive, force)
        await self._call("fs/remove", params, path, repeat=force)

    async def rename(self, source: Place, destination: Place, *, replace: bool = False) -> None:
        """Renames a path.

            await client.files.rename("build.log", "old.log")

        Raises RequestFailed if the destination exists, unless `replace`; or CapabilityMissing.
        """
        self._session.require("fsRename", "rename files")
        params = fs.RenameParams(self._uri(source), self._uri(destination), replace)
        await self._call("fs/rename", params, source, repeat=False)

    async def chmod(self, path: Place, mode: int, *, follow: bool = True) -> None:
        """Sets the permissions of a path.

            await client.files.chmod("build.log", 0o600)

        Raises RequestFailed or CapabilityMissing.
        """
        count("mode", mode, 0, fs.MAX_MODE)
        self._session.require("fsChmod", "change the mode of files")
        await self._call("fs/chmod", fs.ChmodParams(self._uri(path), mode, follow), path)

    # Following and finding

    async def watch(
        self,
        path: Place,
        *,
        recursive: bool = True,
        debounce: float = 0.05,
        ignore: Sequence[str] = (),
    ) -> Watch:
        """Reports changes of a file or directory as they happen: `async with await files.watch(...)`.

            async with await client.files.watch("src") as watch:
                await client.files.write("src/new.py", "x = 1")
                async for found in watch:
                    print(found.changes)
                    break

        A directory is watched with everything below it. Changes are collected for `debounce` seconds;
        `ignore` has patterns as in a .gitignore file. Symbolic links are not followed. Raises RequestFailed
        or CapabilityMissing.
        """
        debounce_ms = milliseconds("debounce", debounce)
        self._session.require("fsWatch", "watch files")
        watch_id = f"w{next(self._handles)}"
        params = WatchParams(watch_id, self._uri(path), recursive, debounce_ms, tuple(ignore))
        feed = WatchFeed(self._session, watch_id, confined(params, self._sandbox))
        await feed.begin()
        return Watch(feed)

    async def search(
        self,
        path: Place,
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
    ) -> Searched:
        """Finds the lines that match a pattern in the text files of a directory, like `grep -r`.

            found = await client.files.search("src", r"^def ")
            print(found.matches[0].text)  # def main():

        `include` and `exclude` are patterns as in a .gitignore file. Raises RequestFailed or
        CapabilityMissing.
        """
        encodable("pattern", pattern)
        count("max_matches", max_matches)
        timeout_ms = milliseconds("timeout", timeout)
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
            timeout_ms=timeout_ms,
        )
        return answers.searched(await self._ask(SearchResult, "fs/search", params, path))

    # Calls

    def _uri(self, path: Place) -> FileUri:
        return self._session.resolve(path)

    @property
    def _streams(self) -> bool:
        """Whether files go in blocks."""
        return self._sandbox is None or self._session.offers("sandboxedFileStreaming")

    async def _ask(self, kind: type[R], method: str, params: Params, path: Place) -> R:
        try:
            return await self._session.ask(kind, method, confined(params, self._sandbox), repeat=True)
        except RequestFailed as error:
            raise file_failure(error, place(path)) from None

    async def _call(self, method: str, params: Params, path: Place, *, repeat: bool = True) -> None:
        try:
            await self._session.call(method, confined(params, self._sandbox).encode(), repeat=repeat)
        except RequestFailed as error:
            raise file_failure(error, place(path)) from None
