"""fs/*: the files of this machine."""

from __future__ import annotations

import os

from ...errors import Refused
from ...host import files
from ...host.pipes import let_go
from ...protocol.fileresults import (
    BlockResult,
    DetailedListing,
    FileResult,
    FolderListing,
    MetadataResult,
    OpenResult,
    PathResult,
)
from ...protocol.results import DONE, Written
from ...protocol.uri import from_path
from ...system import READ_NO_WAIT
from ..files import FileWork, handle_claim
from ..limits import STREAMED_READ_BYTES
from ..seenfiles import known_by_heart, restricting, to_read, to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...host.metadata import Metadata
    from ...host.sandbox.grounding import Bounds
    from ...protocol.filesystem import (
        ChmodParams,
        CloseParams,
        CopyParams,
        CreateDirectoryParams,
        DirectoryParams,
        FileParams,
        OpenParams,
        PathParams,
        ReadBlockParams,
        RemoveParams,
        RenameParams,
        WalkParams,
        WriteBlockParams,
        WriteFileParams,
    )
    from ...protocol.results import Done
    from ...protocol.sandbox import SandboxContext
    from ...protocol.uri import FileUri
    from ..call import Call, Later
    from ..files import Handle

# What the stock client takes in one message; a larger one would cost it its connection.
_STOCK_CLIENT, _STOCK_CLIENT_BYTES = "codex-environment", 48 << 20


def native(path: FileUri) -> str:
    try:
        return path.local_path()
    except ValueError as error:
        raise Refused(str(error)) from None


def confined(call: Call, sandbox: SandboxContext | None) -> Bounds | None:
    """What bounds a request; None where nothing does. Raises InvalidParams, Refused."""
    if sandbox is None:
        return None
    services = call.services
    tmpdir = services.environments.tmpdir
    own, protects = services.own_files, services.protects
    return restricting(sandbox, tmpdir, own, strict_links=services.strict_links, protects=protects)


# One file


def read_file(call: Call, params: FileParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, follow = native(params.path), params.follow
    work = call.feature(FileWork)
    limit = _STOCK_CLIENT_BYTES if call.client_name == _STOCK_CLIENT else files.MAX_READ

    def read() -> tuple[int, int, Written | None]:
        fd, found = to_read(bounds).open_read(path, follow)
        try:
            if found.st_size > limit:
                if limit < files.MAX_READ:
                    raise Refused(
                        f"file is too large to read at once: limit is {limit} bytes for this client; "
                        "use fs/open and fs/readBlock"
                    )
                raise Refused(f"file is too large to read: limit is {limit} bytes")
            if found.st_size > STREAMED_READ_BYTES:
                kept, fd = fd, -1
                return kept, found.st_size, None
            # Written here, in the thread, not on the loop.
            return -1, 0, Written(FileResult(_read_whole(fd, found.st_size, limit)).wire())
        finally:
            let_go(fd)

    def finish(result: tuple[int, int, Written | None]) -> Written | None:
        fd, size, written = result
        if fd >= 0:
            work.stream(call, fd, size)
        return written

    return work.run(call, read, looks=(path,), finish=finish)


def _read_whole(fd: int, size: int, limit: int) -> bytes:
    """All of a file, also of one that grows or that does not know its size (/proc)."""
    data = os.read(fd, size + 1)
    parts = [data]
    total = len(data)
    while data:
        data = os.read(fd, 1 << 20)
        parts.append(data)
        total += len(data)
        if total > limit:
            raise Refused(f"file is too large to read: limit is {limit} bytes")
    return parts[0] if len(parts) == 2 else b"".join(parts)


def write_file(call: Call, params: WriteFileParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, follow = native(params.path), params.follow
    write = doing(lambda: to_write(bounds).write_file(path, params.pieces(), follow))
    return call.feature(FileWork).run(call, write, changes=(path,), brings=len(params.data))


def doing(act: Callable[[], object]) -> Callable[[], Done]:
    """Work whose answer says no more than that it was done."""

    def work() -> Done:
        act()
        return DONE

    return work


def get_metadata(call: Call, params: FileParams) -> MetadataResult | Later:
    bounds = confined(call, params.sandbox)
    path, follow = native(params.path), params.follow
    work = call.feature(FileWork)
    if follow and work.free(path):
        cached = work.cached
        known = cached.find(path) if bounds is None else known_by_heart(bounds, cached, path)
        if known is not None:
            call.services.pace.answered()
            return _metadata(known)
    return work.run(call, lambda: _metadata(to_read(bounds).metadata(path, follow)), looks=(path,))


def _metadata(known: Metadata) -> MetadataResult:
    return MetadataResult(
        known.is_directory,
        known.is_file,
        known.is_symlink,
        known.size,
        known.created_ms,
        known.modified_ms,
        known.mode & 0o7777,  # ours: what a copy needs to be one
    )


def canonicalize(call: Call, params: PathParams) -> Later:
    bounds = confined(call, params.sandbox)
    path = native(params.path)
    return call.feature(FileWork).run(
        call, lambda: PathResult(from_path(to_read(bounds).canonicalize(path))), looks=(path,)
    )


# Folders


def create_directory(call: Call, params: CreateDirectoryParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, recursive, follow = native(params.path), params.recursive, params.follow
    create = doing(lambda: to_write(bounds).create_directory(path, recursive, follow))
    # On its way it may make what a later request needs.
    makes = _top(path) if recursive else ()
    return call.feature(FileWork).run(call, create, changes=(path,), makes=makes)


def _top(path: str) -> tuple[str, ...]:
    """The folder in the root below which a path lies."""
    first = path.split("/", 2)[1]
    return (f"/{first}",) if first else ()


def read_directory(call: Call, params: DirectoryParams) -> Later:
    bounds = confined(call, params.sandbox)
    path = native(params.path)
    if params.details:
        return call.feature(FileWork).run(
            call, lambda: DetailedListing(path, to_read(bounds).describe_directory(path)), looks=(path,)
        )
    return call.feature(FileWork).run(
        call, lambda: FolderListing(path, *to_read(bounds).scan_directory(path)), looks=(path,)
    )


def walk(call: Call, params: WalkParams) -> Later:
    bounds = confined(call, params.sandbox)
    path = native(params.path)
    walkers = call.services.walkers
    turns = call.services.walks
    return call.feature(FileWork).run(
        call, lambda: Written(walkers.walk(params, bounds)), looks=(path,), turns=turns
    )


def remove(call: Call, params: RemoveParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, recursive, force, follow = native(params.path), params.recursive, params.force, params.follow
    take_away = doing(lambda: to_write(bounds).remove(path, recursive, force, follow))
    return call.feature(FileWork).run(call, take_away, changes=(path,))


def copy(call: Call, params: CopyParams) -> Later:
    bounds = confined(call, params.sandbox)
    source, destination = native(params.source), native(params.destination)
    duplicate = doing(lambda: to_write(bounds).copy(source, destination, params.recursive))
    makes = _top(destination) if params.recursive else ()
    return call.feature(FileWork).run(call, duplicate, looks=(source,), changes=(destination,), makes=makes)


def rename(call: Call, params: RenameParams) -> Later:
    bounds = confined(call, params.sandbox)
    source, destination = native(params.source), native(params.destination)
    give_name = doing(lambda: to_write(bounds).rename(source, destination, replace=params.replace))
    return call.feature(FileWork).run(call, give_name, changes=(source, destination))


def chmod(call: Call, params: ChmodParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, mode, follow = native(params.path), params.mode, params.follow
    set_mode = doing(lambda: to_write(bounds).chmod(path, mode, follow))
    return call.feature(FileWork).run(call, set_mode, changes=(path,))


# Streams


def open_file(call: Call, params: OpenParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, handle_id = native(params.path), params.handle_id
    work = call.feature(FileWork)

    def opener(handle: Handle) -> None:
        if params.mode == "read":
            handle.fd = to_read(bounds).open_read(path)[0]
        elif params.mode == "update":
            handle.replacement = to_write(bounds).update(path)
            handle.fd = handle.replacement.fd
        else:
            handle.replacement = to_write(bounds).replacement(path, special=False)
            handle.fd = handle.replacement.fd

    def opened(_: object) -> OpenResult:
        work.opened(handle_id, path)
        return OpenResult(handle_id)

    claim = handle_claim(handle_id)
    reads = params.mode == "read"
    later = work.run(
        call,
        lambda: work.open(handle_id, path, opener),
        looks=(path,) if reads else (),
        changes=(claim,) if reads else (claim, path),
        finish=opened,
        failed=lambda: work.opened(handle_id, path),
        of_handle=True,
    )
    work.will_open(handle_id, path)
    return later


def read_block(call: Call, params: ReadBlockParams) -> BlockResult | Later:
    work = call.feature(FileWork)
    handle_id = params.handle_id
    claim = (handle_claim(handle_id),)
    if READ_NO_WAIT and work.free(*claim):
        handle = work.handle(handle_id)
        if handle.replacement is None:
            block = _read_at_once(handle.fd, params.offset, params.length)
            if block is not None:
                return BlockResult(block, len(block) < params.length)

    def read() -> BlockResult:
        handle = work.handle(handle_id)
        try:
            if handle.replacement is not None:
                raise OSError(9, os.strerror(9))  # EBADF: it is for writing
            if params.offset > (1 << 63) - 1:
                raise OSError(22, os.strerror(22))
            block = files.read_block(handle.fd, params.offset, params.length)
        except OSError:
            handle.lost = True  # the reference forgets a handle whose read failed
            raise
        return BlockResult(block, len(block) < params.length)

    def failed() -> None:
        handle = work.handles.get(handle_id)
        if handle is not None and handle.lost:
            work.forget(handle_id, handle)

    return work.run(call, read, looks=claim, failed=failed)


def _read_at_once(fd: int, offset: int, length: int) -> bytes | None:
    """A block that is in memory already, whole; None when somebody would have to wait for it."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], offset, READ_NO_WAIT)
        if count < length and os.fstat(fd).st_size > offset + count:
            return None
    except (OSError, OverflowError):
        return None
    return bytes(buffer) if count == length else bytes(memoryview(buffer)[:count])


def write_block(call: Call, params: WriteBlockParams) -> Later:
    work = call.feature(FileWork)
    handle_id = params.handle_id

    def write() -> Done:
        replacement = work.handle(handle_id).replacement
        if replacement is None:
            raise OSError(9, os.strerror(9))
        replacement.write_at(params.chunk, params.offset)
        return DONE

    # One after the other: of two that overlap, the later one counts.
    claim = handle_claim(handle_id)
    return work.run(call, write, changes=(claim,), brings=len(params.chunk), of_handle=True)


def close_file(call: Call, params: CloseParams) -> Done | Later:
    """Ends a handle; a replacement takes its place with this, and not before."""
    work = call.feature(FileWork)
    handle_id = params.handle_id
    claim = handle_claim(handle_id)
    if work.free(claim) and handle_id not in work.handles:
        return DONE

    def close() -> Done:
        handle = work.handles.pop(handle_id, None)
        if handle is None:
            return DONE
        try:
            if handle.replacement is not None and not params.discard and not handle.lost:
                handle.replacement.commit()
        finally:
            handle.close()
        return DONE

    return work.run(call, close, changes=(claim, *work.paths_of(handle_id)), of_handle=True)
