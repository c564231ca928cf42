"""Copies between this machine and an executor: files and trees. Part of `client.files`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import secrets
import stat
from typing import TYPE_CHECKING, cast

from ..errors import Disconnected, InvalidParams, RemoteProtocolError
from ..protocol.uri import encode_name
from .arguments import place
from .openfile import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, BinaryIO, Protocol

    from .arguments import Place
    from .openfile import RemoteFile
    from .session import RemoteSession

    class Stored(Protocol):
        """A file or a folder of the executor."""

        @property
        def is_directory(self) -> bool: ...
        @property
        def is_file(self) -> bool: ...
        @property
        def is_symlink(self) -> bool: ...
        @property
        def mode(self) -> int | None: ...

    class Entry(Protocol):
        @property
        def name(self) -> str: ...
        @property
        def path(self) -> str: ...
        @property
        def is_directory(self) -> bool: ...
        @property
        def is_file(self) -> bool: ...


# What a download takes over of a mode: an executor makes no program here that runs as our user.
_PERMISSIONS = 0o777
_AT_A_TIME = 8  # files of a tree: hides the round trips of small ones


class Transfers:
    """The part of `Files` that copies from and to this machine. Disks here are used in a thread."""

    _session: RemoteSession

    if TYPE_CHECKING:
        # What `Files` has.
        async def write(self, path: Place, data: bytes | str) -> None: ...
        async def open(self, path: Place, mode: str = "read") -> RemoteFile: ...
        async def make_directory(self, path: Place, *, recursive: bool = True) -> None: ...
        async def chmod(self, path: Place, mode: int) -> None: ...
        async def stat(self, path: Place) -> Stored: ...
        async def _list(self, path: Place) -> Sequence[Entry]: ...

    async def upload(self, local: Place, remote: Place) -> None:
        """Copies a file or a tree of this machine to the path `remote`, with modes where the server can.

            await client.files.upload("src", "backup/src")

        `remote` is the copy itself, never a directory to put it into. Files that are there are replaced,
        others stay. Symbolic links are followed; links to directories inside a tree, and what is neither a
        file nor a directory, are errors. Raises OSError for what is wrong here and RequestFailed for there.
        """
        folders, files = await asyncio.to_thread(_tree, place(local), place(remote))
        for folder in folders:
            await self.make_directory(folder)
        await in_turns([lambda one=one: self._send(*one) for one in files])  # type: ignore[misc]

    async def download(self, remote: Place, local: Place) -> None:
        """Copies a file or a tree of the executor to the path `local` of this machine.

            await client.files.download("src", "copy-of-src")

        The rules are those of `upload`. The setuid, setgid and sticky bits of modes are left out.
        """
        top = place(remote)
        pending = [(top, place(local))]
        files: list[tuple[str, str]] = []
        while pending:
            there, here = pending.pop()
            found = await self.stat(there)
            if not found.is_directory:
                files.append((there, here))
                continue
            if found.is_symlink and there != top:
                raise InvalidParams(f"{there} is a link to a directory: it cannot be downloaded")
            await asyncio.to_thread(os.makedirs, here, exist_ok=True)
            for one in await self._list(there):
                check_name(one.name)
                # Of a name that is no text, only the path has every byte.
                pending.append((one.path, os.path.join(here, check_name(posixpath.basename(one.path)))))
        await in_turns([lambda one=one: self._fetch(*one) for one in files])  # type: ignore[misc]

    async def _send(self, here: str, there: str, mode: int) -> None:
        source = await _open(here, "rb")
        try:
            block = await asyncio.to_thread(source.read, BLOCK_BYTES)
            if len(block) < BLOCK_BYTES or not self._session.offers("fileWriteStreaming"):
                await self.write(there, block + await asyncio.to_thread(source.read))
            else:
                while not await self._send_blocks(source, block, there):
                    await asyncio.to_thread(source.seek, 0)
                    block = await asyncio.to_thread(source.read, BLOCK_BYTES)
        finally:
            source.close()
        if self._session.offers("fsChmod"):
            await self.chmod(there, mode)

    async def _send_blocks(self, source: BinaryIO, block: bytes, there: str) -> bool:
        """Returns False if the connection was lost: half of it went nowhere, and it is to begin again."""
        offset = 0
        try:
            async with await self.open(there, "replace") as file:
                while block:
                    await file.write_at(block, offset)
                    offset += len(block)
                    block = await asyncio.to_thread(source.read, BLOCK_BYTES)
        except Disconnected:
            return False
        return True

    async def _fetch(self, there: str, here: str) -> None:
        """Beside its place first: a file that is there is replaced by a whole one, or not at all."""
        # Short, whatever the file is called, and another one for each download.
        partial = os.path.join(os.path.dirname(here), f".{secrets.token_hex(8)}.partial")
        try:
            mode = (await self.stat(there)).mode
            async with await self.open(there) as file:
                # Nobody else reads in the meantime what is private there.
                target = await _open(partial, "wb", None if mode is None else _private)
                try:
                    async for block in file:
                        await asyncio.to_thread(target.write, block)
                finally:
                    await asyncio.to_thread(target.close)
            if mode is not None:
                os.chmod(partial, mode & _PERMISSIONS)
            os.replace(partial, here)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def _open(path: str, mode: str, opener: Callable[[str, int], int] | None = None) -> BinaryIO:
    """Opens a file in a thread. Cancelled, it has closed the file: nobody can stop the thread."""
    opening = asyncio.ensure_future(asyncio.to_thread(open, path, mode, opener=opener))
    try:
        return cast("BinaryIO", await asyncio.shield(opening))
    except asyncio.CancelledError:
        while not opening.done():
            with contextlib.suppress(asyncio.CancelledError):  # again, as by a failure of another copy
                await asyncio.wait([opening])
        if opening.exception() is None:
            opening.result().close()
        raise


def _tree(here: str, there: str) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The folders that are to be there, each after its own, and the files: from where, to where, mode."""
    folders: list[str] = []
    files: list[tuple[str, str, int]] = []
    pending = [(here, there)]
    while pending:
        source, target = pending.pop()
        found = os.stat(source)
        if stat.S_ISREG(found.st_mode):
            files.append((source, target, stat.S_IMODE(found.st_mode)))
        elif stat.S_ISDIR(found.st_mode) and (source == here or not os.path.islink(source)):
            folders.append(target)
            pending += [(os.path.join(source, name), _join(target, name)) for name in os.listdir(source)]
        else:
            raise InvalidParams(f"{source} is a link to a directory, or no file: it cannot be uploaded")
    return folders, files


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{encode_name(name) if folder.startswith('file:') else name}"


def check_name(name: str) -> str:
    """A name of an executor, which nobody here need trust. Raises RemoteProtocolError."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise RemoteProtocolError(f"the executor names an entry {name!r}, which no directory can have")
    return name


async def in_turns(work: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Does all of it, a few at a time. The first failure ends the rest."""
    left = iter(work)

    async def some() -> None:
        for one in left:
            await one()

    tasks = [asyncio.ensure_future(some()) for _ in range(min(_AT_A_TIME, len(work)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
