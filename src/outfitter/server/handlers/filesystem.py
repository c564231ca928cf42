"""fs/*: the files of this machine."""

from __future__ import annotations

import os
from bisect import bisect

from ...errors import Refused
from ...host import files
from ...protocol import base64
from ...protocol.jsontext import in_pieces, quote
from ...protocol.uri import from_path
from ..files import FileWork, handle_claim
from ..limits import STREAMED_READ_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...host.statx import Metadata
    from ...protocol.filesystem import (
        ChmodParams,
        CloseParams,
        CopyParams,
        CreateDirectoryParams,
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
    from ...protocol.jsonrpc import Request
    from ...protocol.uri import FileUri
    from ..connection import Connection
    from ..files import Handle

_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)  # read what is in memory, or say so
# What the stock client takes in one message; a larger one would cost it its connection.
_STOCK_CLIENT, _STOCK_CLIENT_BYTES = "codex-environment", 48 << 20


def work_of(connection: Connection) -> FileWork:
    if connection.files is None:
        server = connection.server
        connection.files = FileWork(connection, server.workers, server.cached)
    return connection.files


def native(path: FileUri) -> str:
    try:
        return path.local_path()
    except ValueError as error:
        raise Refused(str(error)) from None


# One file


def read_file(connection: Connection, request: Request, params: FileParams) -> None:
    path, follow = native(params.path), params.follow
    work = work_of(connection)
    limit = _STOCK_CLIENT_BYTES if connection.client_name == _STOCK_CLIENT else files.MAX_READ

    def read() -> tuple[int, int, bytes]:
        fd, found = files.open_read(path, follow)
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
                return kept, found.st_size, b""
            return -1, 0, base64.encode(_read_whole(fd, found.st_size, limit))
        finally:
            if fd >= 0:
                os.close(fd)

    def finish(result: tuple[int, int, bytes]) -> None:
        fd, size, text = result
        if fd >= 0:
            work.stream(request.id, fd, size)
        else:
            work.answer_parts(request.id, b'{"dataBase64":"', text, b'"}')

    work.run(request.id, read, looks=(path,), finish=finish)


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


def write_file(connection: Connection, request: Request, params: WriteFileParams) -> None:
    path, follow = native(params.path), params.follow

    def write() -> str:
        files.write_file(path, params.pieces(), follow)
        return "{}"

    work_of(connection).run(request.id, write, changes=(path,), brings=len(params.data))


def get_metadata(connection: Connection, request: Request, params: FileParams) -> str | None:
    path, follow = native(params.path), params.follow
    work = work_of(connection)
    if follow and work.free(path):
        known = work.cached.find(path)
        if known is not None:
            answered = connection.server.answered
            if answered is not None:
                answered()
            return _metadata_text(known)
    work.run(request.id, lambda: _metadata_text(files.metadata(path, follow)), looks=(path,))
    return None


def _metadata_text(known: Metadata) -> str:
    return (
        f'{{"isDirectory":{_json(known.is_directory)},"isFile":{_json(known.is_file)},'
        f'"isSymlink":{_json(known.is_symlink)},"size":{known.size},'
        f'"createdAtMs":{known.created_ms},"modifiedAtMs":{known.modified_ms},'
        # Ours: what a copy needs to be one.
        f'"mode":{known.mode & 0o7777}}}'
    )


def canonicalize(connection: Connection, request: Request, params: PathParams) -> None:
    path = native(params.path)
    work_of(connection).run(
        request.id, lambda: f'{{"path":{quote(from_path(files.canonicalize(path)))}}}', looks=(path,)
    )


# Folders


def create_directory(connection: Connection, request: Request, params: CreateDirectoryParams) -> None:
    path, recursive, follow = native(params.path), params.recursive, params.follow

    def create() -> str:
        files.create_directory(path, recursive, follow)
        return "{}"

    # On its way it may make what a later request needs.
    work_of(connection).run(request.id, create, changes=(path,), makes=_top(path) if recursive else ())


def _top(path: str) -> tuple[str, ...]:
    """The folder in the root below which a path lies."""
    first = path.split("/", 2)[1]
    return (f"/{first}",) if first else ()


def read_directory(connection: Connection, request: Request, params: PathParams) -> None:
    path = native(params.path)

    def listing() -> list[bytes]:
        plain, others = files.scan_directory(path)
        texts = []
        place = 0
        for other in others:
            following = bisect(plain, other[0], place)
            texts += _files_text(path, plain[place:following])
            texts.append(_entry_text(path, *other))
            place = following
        texts += _files_text(path, plain[place:] if place else plain)
        return [b'{"entries":[', *in_pieces(texts), b"]}"]

    work = work_of(connection)
    work.run(request.id, listing, looks=(path,), finish=lambda parts: work.answer_parts(request.id, *parts))


def _files_text(folder: str, names: list[str]) -> list[str]:
    """Files, sorted. Nearly always their names need no quoting, and are put together at once."""
    if not names:
        return []
    joined = "".join(names)
    if len(quote(joined)) != len(joined) + 2:
        return [_entry_text(folder, name, False, True) for name in names]
    kind = _KINDS[False, True]
    return ['{"fileName":"' + f'"{kind},{{"fileName":"'.join(names) + f'"{kind}']


_KINDS = {
    (True, False): ',"isDirectory":true,"isFile":false}',
    (False, True): ',"isDirectory":false,"isFile":true}',
    (False, False): ',"isDirectory":false,"isFile":false}',
}


def _entry_text(folder: str, name: str, is_directory: bool, is_file: bool) -> str:
    kind = _KINDS[is_directory, is_file]
    if name.isascii():
        return f'{{"fileName":{quote(name)}{kind}'
    try:
        name.encode()
    except UnicodeEncodeError:
        # A name that is not UTF-8 cannot be addressed by its text; its URI (ours) can.
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        uri = from_path(f"{folder.rstrip('/')}/{name}")
        return f'{{"fileName":{quote(shown)},"uri":{quote(uri)}{kind}'
    return f'{{"fileName":{quote(name)}{kind}'


def walk(connection: Connection, request: Request, params: WalkParams) -> None:
    path = native(params.path)
    walkers = connection.server.walkers
    work = work_of(connection)
    work.run(
        request.id,
        lambda: walkers.walk(params),
        looks=(path,),
        finish=lambda parts: work.answer_parts(request.id, *parts),
    )


def remove(connection: Connection, request: Request, params: RemoveParams) -> None:
    path, recursive, force, follow = native(params.path), params.recursive, params.force, params.follow

    def take_away() -> str:
        files.remove(path, recursive, force, follow)
        return "{}"

    work_of(connection).run(request.id, take_away, changes=(path,))


def copy(connection: Connection, request: Request, params: CopyParams) -> None:
    source, destination = native(params.source), native(params.destination)

    def duplicate() -> str:
        files.copy(source, destination, params.recursive)
        return "{}"

    makes = _top(destination) if params.recursive else ()
    work_of(connection).run(request.id, duplicate, looks=(source,), changes=(destination,), makes=makes)


def rename(connection: Connection, request: Request, params: RenameParams) -> None:
    from ...host.rename import rename as rename_file

    source, destination = native(params.source), native(params.destination)

    def give_name() -> str:
        rename_file(source, destination, replace=params.replace)
        return "{}"

    work_of(connection).run(request.id, give_name, changes=(source, destination))


def chmod(connection: Connection, request: Request, params: ChmodParams) -> None:
    path, mode, follow = native(params.path), params.mode, params.follow

    def set_mode() -> str:
        files.chmod(path, mode, follow)
        return "{}"

    work_of(connection).run(request.id, set_mode, changes=(path,))


# Streams


def open_file(connection: Connection, request: Request, params: OpenParams) -> None:
    path, handle_id = native(params.path), params.handle_id
    work = work_of(connection)

    def opener(handle: Handle) -> None:
        if params.mode == "read":
            handle.fd = files.open_read(path)[0]
        elif params.mode == "update":
            handle.replacement = files.Update(path)
            handle.fd = handle.replacement.fd
        else:
            handle.replacement = files.Replacement(path, special=False)
            handle.fd = handle.replacement.fd

    def open_it() -> str:
        work.open(handle_id, path, opener)
        return f'{{"handleId":{quote(handle_id)}}}'

    def opened(text: str) -> str:
        work.opened(handle_id, path)
        return text

    claim = handle_claim(handle_id)
    reads = params.mode == "read"
    work.run(
        request.id,
        open_it,
        looks=(path,) if reads else (),
        changes=(claim,) if reads else (claim, path),
        finish=opened,
        failed=lambda: work.opened(handle_id, path),
    )
    work.will_open(handle_id, path)


def read_block(connection: Connection, request: Request, params: ReadBlockParams) -> None:
    work = work_of(connection)
    handle_id = params.handle_id
    claim = (handle_claim(handle_id),)
    if _NO_WAIT and work.free(*claim):
        handle = work.handle(handle_id)
        if handle.replacement is None:
            block = _read_at_once(handle.fd, params.offset, params.length)
            if block is not None:
                eof = b'","eof":true}' if len(block) < params.length else b'","eof":false}'
                work.answer_parts(request.id, b'{"chunk":"', base64.encode(block), eof)
                return

    def read() -> tuple[bytes, bytes]:
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
        return base64.encode(block), b"true" if len(block) < params.length else b"false"

    def finish(result: tuple[bytes, bytes]) -> None:
        work.answer_parts(request.id, b'{"chunk":"', result[0], b'","eof":', result[1], b"}")

    def failed() -> None:
        handle = work.handles.get(handle_id)
        if handle is not None and handle.lost:
            work.forget(handle_id, handle)

    work.run(request.id, read, looks=claim, finish=finish, failed=failed)


def _read_at_once(fd: int, offset: int, length: int) -> bytes | None:
    """A block that is in memory already, whole; None when somebody would have to wait for it."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], offset, _NO_WAIT)
        if count < length and os.fstat(fd).st_size > offset + count:
            return None
    except (OSError, OverflowError):
        return None
    return bytes(buffer) if count == length else bytes(memoryview(buffer)[:count])


def write_block(connection: Connection, request: Request, params: WriteBlockParams) -> None:
    work = work_of(connection)
    handle_id = params.handle_id

    def write() -> str:
        replacement = work.handle(handle_id).replacement
        if replacement is None:
            raise OSError(9, os.strerror(9))
        replacement.write_at(params.chunk, params.offset)
        return "{}"

    # One after the other: of two that overlap, the later one counts.
    work.run(request.id, write, changes=(handle_claim(handle_id),), brings=len(params.chunk))


def close_file(connection: Connection, request: Request, params: CloseParams) -> str | None:
    """Ends a handle; a replacement takes its place with this, and not before."""
    work = work_of(connection)
    handle_id = params.handle_id
    claim = handle_claim(handle_id)
    if work.free(claim) and handle_id not in work.handles:
        return "{}"

    def close() -> str:
        handle = work.handles.pop(handle_id, None)
        if handle is None:
            return "{}"
        try:
            if handle.replacement is not None and not params.discard and not handle.lost:
                handle.replacement.commit()
        finally:
            handle.close()
        return "{}"

    work.run(request.id, close, changes=(claim, *work.paths_of(handle_id)))
    return None


def _json(value: bool) -> str:
    return "true" if value else "false"
