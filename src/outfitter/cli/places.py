"""The two ends of `outfitter cp`: this machine's files and an executor's, with the same calls."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from typing import TYPE_CHECKING

from ..client.files import BLOCK_BYTES, native
from ..client.transfer import check_name
from ..errors import CapabilityMissing, InvalidParams, OutfitterError, RequestFailed, SettingInvalid
from ..protocol.codes import NOT_FOUND
from ..record import record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..client.client import Client


@record
class Thing:
    """What a path is: its size and time tell a changed file; `mode` is None where it cannot be told."""

    is_directory: bool
    is_file: bool
    is_link: bool
    size: int
    modified_ms: int
    mode: int | None = None


class Here:
    """This machine."""

    resumable = True  # whether a copy that broke off can go on

    def shown(self, path: str) -> str:
        return path

    def join(self, folder: str, name: str) -> str:
        return os.path.join(folder, name)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    async def find(self, path: str) -> Thing | None:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SettingInvalid(f"{path}: {error.strerror}") from None
        return Thing(
            stat.S_ISDIR(found.st_mode),
            stat.S_ISREG(found.st_mode),
            os.path.islink(path),  # noqa: ASYNC240 - as above
            found.st_size,
            found.st_mtime_ns // 1_000_000,
            stat.S_IMODE(found.st_mode),
        )

    async def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    async def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    async def touch(self, path: str) -> None:
        """Makes an empty file, unless one is there."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    async def read(self, path: str, offset: int) -> AsyncIterator[bytes]:
        with open(path, "rb") as file:  # noqa: ASYNC230 - this process has nothing else to do
            file.seek(offset)
            while block := file.read(BLOCK_BYTES):
                yield block

    async def write(self, path: str, blocks: AsyncIterator[bytes], offset: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb", buffering=0) as file:
            file.truncate(offset)
            file.seek(offset)
            async for block in blocks:
                view = memoryview(block)
                while view:
                    view = view[file.write(view) or 0 :]

    async def finish(self, partial: str, path: str, *, replace: bool, mode: int | None) -> None:
        umask = os.umask(0)
        os.umask(umask)
        # An executor makes no program here that runs as our user: no setuid bit.
        os.chmod(partial, (0o666 if mode is None else mode) & 0o777 & ~umask)
        if replace:
            os.replace(partial, path)
            return
        try:
            os.link(partial, path)  # never replaces, whoever was quicker
        except FileExistsError:
            raise SettingInvalid(f"{path} exists: add --force to replace it") from None
        os.unlink(partial)

    async def digest(self, path: str) -> str:
        with open(path, "rb") as file:  # noqa: ASYNC230 - this process has nothing else to do
            return hashlib.file_digest(file, "sha256").hexdigest()

    async def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


class There:
    """An executor."""

    def __init__(self, name: str, client: Client) -> None:
        self._name = name
        self._client = client
        self._files = client.files
        self.resumable = client.offers("fsOpenUpdate") and client.offers("fsRename")

    def shown(self, path: str) -> str:
        return f"{self._name}:{path}"

    def join(self, folder: str, name: str) -> str:
        return posixpath.join(folder, name)

    def absolute(self, path: str) -> str:
        return native(self._client.resolve(path or ".").text)

    async def find(self, path: str) -> Thing | None:
        try:
            found = await self._files.stat(path)
        except RequestFailed as error:
            if error.code == NOT_FOUND:
                return None
            raise
        return Thing(
            found.is_directory, found.is_file, found.is_symlink, found.size, found.modified_ms, found.mode
        )

    async def names(self, folder: str) -> list[str]:
        # Of a name that is no text, only the path has every byte. `..` would lead out of what is copied to.
        return [check_name(posixpath.basename(one.path)) for one in await self._files._list(folder)]

    async def make_directory(self, path: str) -> None:
        await self._files.make_directory(path)

    async def touch(self, path: str) -> None:
        await self._files.write(path, b"")

    async def read(self, path: str, offset: int) -> AsyncIterator[bytes]:
        async with await self._files.open(path) as file:
            async for block in file.blocks(offset):
                yield block

    async def write(self, path: str, blocks: AsyncIterator[bytes], offset: int) -> None:
        mode = "update" if self.resumable else "replace"
        async with await self._files.open(path, mode) as file:
            async for block in blocks:
                await file.write_at(block, offset)
                offset += len(block)

    async def finish(self, partial: str, path: str, *, replace: bool, mode: int | None) -> None:
        if mode is not None and self._client.offers("fsChmod"):
            await self._files.chmod(partial, mode)
        if partial != path:
            await self._files.rename(partial, path, replace=replace)

    async def digest(self, path: str) -> str:
        """Computed there, if it can be; else by reading it all."""
        try:
            done = await self._client.run(["sha256sum", "--", path])
            if done.exit_code == 0 and len(words := done.stdout.split()[:1]) == 1:
                return words[0].decode("ascii", "replace").lstrip("\\")
        except (RequestFailed, CapabilityMissing, InvalidParams):
            pass  # no such program there, or a name that is no text, which no argument can be
        digest = hashlib.sha256()
        async for block in self.read(path, 0):
            digest.update(block)
        return digest.hexdigest()

    async def remove(self, path: str) -> None:
        try:
            await self._files.remove(path, force=True)
        except OutfitterError:
            pass  # a leftover, told by its name


Place = Here | There  # a machine with files; paths are its own
