"""Params of fs/*. Paths are `file:` URIs, read strictly; bytes are base64.

`sandbox` is a member of every method. Nothing here can confine a file operation, so a context that
restricts is refused: `restricted` says so.
"""

from __future__ import annotations

from ..errors import InvalidParams, Refused
from ..record import record
from . import base64
from .fields import Fields, unsigned
from .jsontext import dumps, loads
from .shape import Shape, member, said, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .jsontext import Json
    from .sandbox import SandboxContext
    from .uri import FileUri

MAX_HANDLE_ID = 32  # bytes, the reference's
MAX_BLOCK = 1 << 20  # the reference's
MAX_OFFSET = (1 << 63) - 1
MAX_MODE = 0o7777
MAX_DEPTH, MAX_DIRECTORIES, MAX_ENTRIES = 64, 10_000, 50_000  # of a walk, the reference's


def read_sandbox(fields: Fields, name: str) -> SandboxContext:
    """Raises InvalidParams for a context that is not understood: to ignore it would be a lie."""
    from .sandbox import SandboxContext  # most requests have none

    return SandboxContext.decode(fields.raw(name))


def sandbox_member() -> Any:
    """The member that every request about a path has."""
    return member(read_sandbox, lambda context: context.encode(), default=None, omit=True)


def _sandbox(fields: Fields) -> SandboxContext | None:
    return None if fields.raw_or_none("sandbox") is None else read_sandbox(fields, "sandbox")


@shape()
class PathParams(Shape):
    """fs/canonicalize: a path."""

    path: FileUri
    sandbox: SandboxContext | None = sandbox_member()


@shape()
class DirectoryParams(Shape):
    """fs/readDirectory. `details` (ours) asks for more about each entry, and for links that lead nowhere."""

    path: FileUri
    details: bool = member(said, default=False, omit=True)
    sandbox: SandboxContext | None = sandbox_member()


@shape(quick=True)
class FileParams(Shape):
    """fs/readFile, fs/getMetadata: a path, and whether links are followed on the way."""

    path: FileUri
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)
    sandbox: SandboxContext | None = sandbox_member()


@record
class WriteFileParams:
    """fs/writeFile. `data` is bytes, or a Blob when it is long: `pieces` decodes it as they are taken."""

    path: FileUri
    data: bytes | base64.Blob
    follow: bool = True
    sandbox: SandboxContext | None = None

    @classmethod
    def decode(cls, params: Json) -> WriteFileParams:
        fields = Fields(params, "WriteFileParams")
        path = fields.uri("path")
        data = fields.raw("dataBase64")
        text = None if type(data) is base64.Blob else fields.text("dataBase64")
        sandbox = _sandbox(fields)
        if text is not None:
            try:
                data = base64.decode(text)
            except InvalidParams as error:
                raise _not_base64(error) from None
        follow = True if fields.raw_or_none("followSymlinks") is None else fields.flag("followSymlinks")
        return cls(path, data, follow, sandbox)

    def pieces(self) -> Iterator[bytes]:
        """The bytes. Raises Refused where they are not what they should be."""
        if isinstance(self.data, bytes):
            yield self.data
            return
        try:
            yield from self.data.decode()
        except InvalidParams as error:
            raise _not_base64(error) from None

    def encode(self) -> Json:
        params: dict[str, Json] = {"path": self.path.text}
        if not self.follow:
            params["followSymlinks"] = False
        if self.sandbox is not None:
            params["sandbox"] = self.sandbox.encode()
        params["dataBase64"] = base64.encode_member(b"".join(self.pieces()))
        return params


def _not_base64(error: InvalidParams) -> Refused:
    # The reference reads the text as a string and refuses it later, with another code.
    return Refused(f"fs/writeFile requires valid base64 dataBase64: {error}")


@shape()
class CreateDirectoryParams(Shape):
    path: FileUri
    recursive: bool = member(default=True, null=True)
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)
    sandbox: SandboxContext | None = sandbox_member()


@shape()
class RemoveParams(Shape):
    path: FileUri
    recursive: bool = member(default=True, null=True)
    force: bool = member(default=True, null=True)
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)
    sandbox: SandboxContext | None = sandbox_member()


@shape()
class CopyParams(Shape):
    source: FileUri = member(name="sourcePath")
    destination: FileUri = member(name="destinationPath")
    recursive: bool
    sandbox: SandboxContext | None = sandbox_member()


@record
class WalkParams:
    path: FileUri
    max_depth: int
    max_directories: int
    max_entries: int
    follow_directories: bool
    prune_hidden: bool = False
    sandbox: SandboxContext | None = None

    @classmethod
    def decode(cls, params: Json) -> WalkParams:
        fields = Fields(params, "WalkParams")
        path = fields.uri("path")
        options = Fields(fields.raw("options"), "WalkOptions")
        walk = cls(
            path,
            unsigned(options.raw("maxDepth")),
            unsigned(options.raw("maxDirectories")),
            unsigned(options.raw("maxEntries")),
            options.flag("followDirectorySymlinks"),
            options.flag_or("pruneHiddenDirectories", False),
            _sandbox(fields),
        )
        if walk.max_directories == 0 or walk.max_entries == 0:
            raise Refused("filesystem walk limits must be greater than zero")
        if (
            walk.max_depth > MAX_DEPTH
            or walk.max_directories > MAX_DIRECTORIES
            or walk.max_entries > MAX_ENTRIES
        ):
            raise Refused(
                f"filesystem walk limits exceed maximums: depth={MAX_DEPTH}, "
                f"directories={MAX_DIRECTORIES}, entries={MAX_ENTRIES}"
            )
        return walk

    @classmethod
    def read(cls, text: str) -> WalkParams:
        """What `text` wrote, in a program of ours."""
        return cls.decode(loads(text))

    def text(self) -> str:
        return dumps(self.encode())

    def encode(self) -> Json:
        params: dict[str, Json] = {
            "path": self.path.text,
            "options": {
                "maxDepth": self.max_depth,
                "maxDirectories": self.max_directories,
                "maxEntries": self.max_entries,
                "followDirectorySymlinks": self.follow_directories,
                "pruneHiddenDirectories": self.prune_hidden,
            },
        }
        if self.sandbox is not None:
            params["sandbox"] = self.sandbox.encode()
        return params


@shape()
class OpenParams(Shape):
    """fs/open. Mode `update` (ours) writes into a file as it is, which is made if need be."""

    handle_id: str
    path: FileUri
    mode: str = "read"
    sandbox: SandboxContext | None = sandbox_member()

    @classmethod
    def decode(cls, params: Json) -> OpenParams:
        fields = Fields(params, "OpenParams")
        handle_id, path = fields.text("handleId"), fields.uri("path")
        mode = "read"
        if "mode" in fields:
            # `update` is ours; a refusal names what the reference knows.
            own = fields.raw("mode") == "update"
            mode = "update" if own else fields.choice("mode", ("read", "replace"))
        sandbox = _sandbox(fields)
        if len(handle_id.encode("utf-8", "surrogatepass")) > MAX_HANDLE_ID:
            raise Refused(f"file handle ID must not exceed {MAX_HANDLE_ID} bytes")
        return cls(handle_id, path, mode, sandbox)


def _check_length(fields: Fields) -> None:
    if not 1 <= fields.unsigned("len") <= MAX_BLOCK:
        raise Refused(f"file read block length must be between 1 and {MAX_BLOCK}")


@shape(check=_check_length)
class ReadBlockParams(Shape):
    handle_id: str = member(Fields.ident)
    offset: int
    length: int = member(name="len")


@shape()
class WriteBlockParams(Shape):
    handle_id: str
    offset: int
    chunk: bytes = member(write=base64.encode_member)

    @classmethod
    def decode(cls, params: Json) -> WriteBlockParams:
        fields = Fields(params, "WriteBlockParams")
        handle_id, offset = fields.ident("handleId"), unsigned(fields.raw("offset"))
        raw = fields.raw("chunk")
        # What is far too long is not decoded first.
        too_long = type(raw) is base64.Blob and len(raw) > 2 * MAX_BLOCK
        chunk = b"" if too_long else fields.base64("chunk")
        if not 1 <= len(chunk) <= MAX_BLOCK:
            raise Refused(f"file write block length must be between 1 and {MAX_BLOCK}")
        if offset + len(chunk) > MAX_OFFSET:
            raise Refused("file write range exceeds the signed 64-bit file offset limit")
        return cls(handle_id, offset, chunk)


@shape()
class CloseParams(Shape):
    """fs/close. `discard` (ours) gives a replacement up: the old content stays."""

    handle_id: str = member(Fields.ident)
    discard: bool = member(said, default=False, omit=True)


@shape()
class RenameParams(Shape):
    """fs/rename (ours). Without `replace`, a destination that exists is refused, whatever else happens."""

    source: FileUri = member(name="sourcePath")
    destination: FileUri = member(name="destinationPath")
    replace: bool = member(default=False, null=True)
    sandbox: SandboxContext | None = sandbox_member()


def _check_mode(fields: Fields) -> None:
    if fields.unsigned("mode") > MAX_MODE:
        raise InvalidParams(f"`mode` must be between 0 and {MAX_MODE} (octal 7777)")


@shape(check=_check_mode)
class ChmodParams(Shape):
    """fs/chmod (ours)."""

    path: FileUri
    mode: int
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)
    sandbox: SandboxContext | None = sandbox_member()


@shape()
class WatchMissingParams(Shape):
    watch_id: int
    missing: list[FileUri]
    present: FileUri | None = None
