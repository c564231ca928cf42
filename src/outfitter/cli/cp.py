"""outfitter cp SRC DST: files and trees between here and any environment.

A file goes to a partial one beside its destination first, named after what is copied; a copy that broke off
goes on there. It takes its place when its hash is that of the source. A tree has an empty file of that kind
beside it until all of it is there. What a tree's destination means never depends on what is there, so the
same command again always means the same tree: it goes on there, or finds that nothing is left to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from json import dumps
from typing import TYPE_CHECKING, Any

from ..client.files import BLOCK_BYTES
from ..environments.file import LOCAL, load
from ..errors import OutfitterError, SettingInvalid
from .console import say
from .places import Here, There
from .progress import Progress
from .target import find, named, reach

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .places import Place, Thing

    _File = tuple[str, Thing, str]  # from where, what, to where

_AT_A_TIME = 8  # files of a tree: hides the round trips of small ones
FAILED = 1


def cp(source: str, destination: str, flags: dict[str, Any]) -> int:
    """Copies; returns the exit status."""
    partials: dict[str, str] = {}
    try:
        return asyncio.run(_run(source, destination, flags, partials))
    except KeyboardInterrupt:
        say("interrupted; run the same command again to continue")
        return 130
    except OutfitterError as error:
        say(_told(str(error), partials))
        return FAILED
    except OSError as error:
        say(_told(f"{error.filename or 'cannot copy'}: {error.strerror}", partials))
        return FAILED


def _told(text: str, partials: dict[str, str]) -> str:
    """In the names that people gave: those of partial files are ours."""
    for partial, destination in partials.items():
        text = text.replace(partial, destination)
    return text


async def _run(source: str, destination: str, flags: dict[str, Any], partials: dict[str, str]) -> int:
    async with contextlib.AsyncExitStack() as stack:
        places: dict[str, Place] = {}
        here, from_path = await _place(source, flags, stack, places)
        there, to_path = await _place(destination, flags, stack, places)
        with Progress(quiet=flags["quiet"]) as progress:
            copy = _Copy(here, there, progress, partials, force=flags["force"], recursive=flags["recursive"])
            await copy.run(here.absolute(from_path), to_path)
        for line in copy.skipped:
            say(line)
        if flags["json"]:
            before = progress.bytes_before
            told = {"files": progress.files_done, "bytes": progress.bytes_done, "resumedBytes": before}
            print(dumps({**told, "skipped": copy.skipped}))
        return FAILED if copy.skipped else 0


async def _place(
    text: str, flags: dict[str, Any], stack: contextlib.AsyncExitStack, places: dict[str, Place]
) -> tuple[Place, str]:
    """Where a path is: `NAME:PATH`, `:PATH` for that of --on, or a path of this machine."""
    name, path = split(text, flags)
    if name == LOCAL:
        return places.setdefault(LOCAL, Here()), path
    if name not in places:
        target = find(name, flags["codex_home"]) if name else named(flags)
        if target.declared is None:
            return places.setdefault(LOCAL, Here()), path
        places[name] = There(target.name, await stack.enter_async_context(reach(target)))
    return places[name], path


def split(text: str, flags: dict[str, Any]) -> tuple[str, str]:
    """The environment's name ("" for that of --on) and the path. Raises SettingInvalid."""
    if not text:
        raise SettingInvalid("an empty text names no file: for the directory you are in, write .")
    name, colon, path = text.partition(":")
    if not colon or "/" in name or os.path.lexists(text):
        return LOCAL, text
    if name == "":
        if flags["on"] is None:
            raise SettingInvalid(f"{text!r} is a path on the executor of --on: add --on NAME or --on URL")
        return "", path
    if path.startswith("//"):
        raise SettingInvalid(f"{text!r} is a URL: write --on URL for the server, and :PATH for a path on it")
    configuration = load(os.environ, flags["codex_home"])
    known = [LOCAL, *(one.id for one in configuration.environments)]
    if name not in known:
        raise SettingInvalid(
            f"no environment is named {name!r} (known: {', '.join(known)}); for a local file, write ./{text}"
        )
    return name, path


class _Copy:
    """One run of the command."""

    def __init__(
        self,
        source: Place,
        target: Place,
        progress: Progress,
        partials: dict[str, str],
        *,
        force: bool,
        recursive: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._partials = partials  # those under way, and what each becomes
        self._force = force
        self._recursive = recursive
        self._goes_on = False  # into a tree that an earlier copy of ours has begun
        self.skipped: list[str] = []

    async def run(self, path: str, destination: str) -> None:
        thing = await self._source.find(path)
        if thing is None:
            raise SettingInvalid(f"{self._source.shown(path)} does not exist")
        into = destination.rpartition("/")[2] in ("", ".", "..")  # no name of its own
        if not into and not thing.is_directory:
            there = await self._target.find(destination)
            into = there is not None and there.is_directory
        if into:
            # Into a folder, under its own name.
            name = os.path.basename(path.rstrip("/"))
            if not name:
                raise SettingInvalid(
                    "the root directory has no name to copy: give the name in the destination"
                )
            destination = self._target.join(destination or ".", name)
        destination = self._target.absolute(destination)
        if thing.is_directory:
            await self._tree(path, destination)
        elif thing.is_file:
            self._progress.expect(1, thing.size)
            await self._file(path, thing, destination)
        else:
            raise SettingInvalid(f"{self._source.shown(path)} is neither a file nor a directory")

    # Trees

    async def _tree(self, path: str, destination: str) -> None:
        if not self._recursive:
            raise SettingInvalid(f"{self._source.shown(path)} is a directory: add --recursive to copy it")
        found = await self._target.find(destination)
        if found is not None and not found.is_directory:
            raise SettingInvalid(f"{self._target.shown(destination)} exists and is not a directory")
        self._goes_on = found is not None and await self._is_begun(path, destination)
        folders, files = await self._plan(path, destination)
        if found is not None and not self._force and not self._goes_on:
            if await self._has_all(folders, files):
                return
            shown = self._target.shown(destination)
            raise SettingInvalid(
                f"{shown} exists and is not the same: add --force to copy into it, or write {shown}/ for "
                f"{shown}/{os.path.basename(path.rstrip('/'))}"
            )
        marked = found is None or self._goes_on
        if marked:
            await self._target.make_directory(destination.rpartition("/")[0] or "/")
            mark = self._begun_mark(path, destination)
            self._partials[mark] = destination
            await self._target.touch(mark)
        for folder in folders:
            await self._target.make_directory(folder)
        self._progress.expect(len(files), sum(thing.size for _, thing, _ in files))
        room = asyncio.Semaphore(_AT_A_TIME)

        async def one(file: _File) -> None:
            async with room:
                await self._file(*file)

        try:
            async with asyncio.TaskGroup() as group:
                for file in files:
                    group.create_task(one(file))
        except* (OutfitterError, OSError) as errors:
            raise errors.exceptions[0] from None  # the first one says enough
        if marked:
            await self._target.remove(self._begun_mark(path, destination))

    async def _is_begun(self, path: str, destination: str) -> bool:
        """Whether a copy of this tree to there has begun, made the folder, and not ended."""
        return await self._target.find(self._begun_mark(path, destination)) is not None

    def _begun_mark(self, path: str, destination: str) -> str:
        return _beside(destination, f"{self._source.shown(path)}\0tree")

    async def _plan(self, path: str, destination: str) -> tuple[list[str], list[_File]]:
        """The folders that are to be there, each after its own, and the files that are to be copied."""
        folders: list[str] = []
        files: list[_File] = []
        pending = [(path, destination)]
        while pending:
            here, there = pending.pop()
            folders.append(there)
            for name in await self._source.names(here):
                place = self._source.join(here, name)
                thing = await self._source.find(place)
                if thing is None:
                    self._skip(place, "a broken symbolic link")
                elif thing.is_directory and thing.is_link:
                    self._skip(place, "a symbolic link to a directory")
                elif thing.is_directory:
                    pending.append((place, self._target.join(there, name)))
                elif thing.is_file:
                    files.append((place, thing, self._target.join(there, name)))
                else:
                    self._skip(place, "neither a file nor a directory")
        return folders, files

    async def _has_all(self, folders: list[str], files: list[_File]) -> bool:
        """Whether nothing is to be copied: what is there is as it is here."""
        for folder in folders:
            found = await self._target.find(folder)
            if found is None or not found.is_directory:
                return False
        for path, thing, destination in files:
            found = await self._target.find(destination)
            if found is None or not await self._is_copied(path, thing, destination, found):
                return False
        return True

    def _skip(self, path: str, what: str) -> None:
        self.skipped.append(f"{self._source.shown(path)} is {what}: not copied")

    # One file

    async def _file(self, path: str, thing: Thing, destination: str) -> None:
        there = await self._target.find(destination)
        if there is not None:
            if there.is_directory:
                raise SettingInvalid(f"{self._target.shown(destination)} is a directory")
            if not there.is_file:  # `cp --force x /dev/null` of root would put a file in its place
                raise SettingInvalid(f"{self._target.shown(destination)} is no file: it is not replaced")
            if self._goes_on and await self._is_copied(path, thing, destination, there):
                self._progress.resumed(thing.size)
                self._progress.done(path)
                return
            # Where files are written in place, a torn one is ours.
            if not self._force and (self._target.resumable or not self._goes_on):
                raise SettingInvalid(f"{self._target.shown(destination)} exists: add --force to replace it")
        partial = self._partial(path, thing, destination)
        self._partials[partial] = destination
        offset = await self._begun(partial, thing) if self._target.resumable else 0
        self._progress.resumed(offset)
        digest = hashlib.sha256()
        await self._hash_begun(path, offset, digest)
        await self._target.write(partial, self._blocks(path, offset, digest), offset)
        if await self._target.digest(partial) != digest.hexdigest():
            await self._target.remove(partial)
            raise SettingInvalid(
                f"{self._target.shown(destination)} changed on the way (wrong hash); nothing was replaced"
            )
        await self._target.finish(partial, destination, replace=self._force, mode=thing.mode)
        del self._partials[partial]
        self._progress.done(path)

    def _partial(self, path: str, thing: Thing, destination: str) -> str:
        """Named after what is copied, so that another file, or another state of it, never goes on there."""
        if not self._target.resumable:
            return destination
        return _beside(destination, f"{self._source.shown(path)}\\0{thing.size}\\0{thing.modified_ms}")

    async def _is_copied(self, path: str, thing: Thing, destination: str, there: Thing) -> bool:
        """Whether a file of a tree is there already, as it is here."""
        if not there.is_file or there.size != thing.size:
            return False
        return await self._target.digest(destination) == await self._source.digest(path)

    async def _begun(self, partial: str, thing: Thing) -> int:
        """How much of it is there already, in whole blocks."""
        found = await self._target.find(partial)
        if found is None or not found.is_file or found.size > thing.size:
            return 0
        return found.size - found.size % BLOCK_BYTES

    async def _hash_begun(self, path: str, size: int, digest: hashlib._Hash) -> None:
        """What was copied before, read again: the source must be what it was."""
        if not size:
            return
        async for block in self._source.read(path, 0):
            digest.update(block[:size])
            size -= len(block)
            if size <= 0:
                return

    async def _blocks(self, path: str, offset: int, digest: hashlib._Hash) -> AsyncIterator[bytes]:
        async for block in self._source.read(path, offset):
            digest.update(block)
            yield block
            self._progress.moved(len(block))


def _beside(destination: str, identity: str) -> str:
    """The name of what is under way, in the folder of its destination."""
    mark = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    folder, _, name = destination.rpartition("/")
    short = name.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore")  # a name has 255 bytes
    return f"{folder}/.{short}.{mark}.partial"
