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

    from .jsontext import Json
    from .uri import FileUri

MAX_HANDLE_ID = 32  # bytes, the reference's
MAX_BLOCK = 1 << 20  # the reference's
MAX_OFFSET = (1 << 63) - 1
MAX_MODE = 0o7777
MAX_DEPTH, MAX_DIRECTORIES, MAX_ENTRIES = 64, 10_000, 50_000  # of a walk, the reference's


def check_sandbox(fields: Fields) -> None:
    """Raises Refused for a context that imposes restrictions: ignoring it would be a lie."""
    sandbox = fields.object_or_none("sandbox", "SandboxContext")
    if sandbox is None:
        return
    permissions = Fields(sandbox.raw("permissions"), "PermissionProfile")
    kind = permissions.choice("type", ("managed", "disabled", "external"))
    restricts = False
    if kind == "managed":
        system = Fields(permissions.raw("file_system"), "FileSystemPermissions")
        restricts = system.choice("type", ("restricted", "unrestricted")) == "restricted"
    if kind != "disabled":
        permissions.choice("network", ("restricted", "enabled"))
    sandbox.choice("windowsSandboxLevel", ("disabled", "restricted-token", "elevated", "mxc"))
    if restricts:
        raise Refused("this exec-server cannot confine file operations: `sandbox` is not supported")


@shape(check=check_sandbox)
class PathParams(Shape):
    """fs/canonicalize, fs/readDirectory: a path."""

    path: FileUri


@shape(check=check_sandbox, quick=True)
class FileParams(Shape):
    """fs/readFile, fs/getMetadata: a path, and whether links are followed on the way."""

    path: FileUri
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)


@record
class WriteFileParams:
    """fs/writeFile. `data` is bytes, or a Blob when it is long: `pieces` decodes it as they are taken."""

    path: FileUri
    data: bytes | base64.Blob
    follow: bool = True

    @classmethod
    def decode(cls, params: Json) -> WriteFileParams:
        fields = Fields(params, "WriteFileParams")
        path = fields.uri("path")
        data = fields.raw("dataBase64")
        text = None if type(data) is base64.Blob else fields.text("dataBase64")
        check_sandbox(fields)
        if text is not None:
            try:
                data = base64.decode(text)
            except InvalidParams as error:
                raise _not_base64(error) from None
        follow = True if fields.raw_or_none("followSymlinks") is None else fields.flag("followSymlinks")
        return cls(path, data, follow)

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
        params["dataBase64"] = base64.encode_member(b"".join(self.pieces()))
        return params


def _not_base64(error: InvalidParams) -> Refused:
    # The reference reads the text as a string and refuses it later, with another code.
    return Refused(f"fs/writeFile requires valid base64 dataBase64: {error}")


@shape(check=check_sandbox)
class CreateDirectoryParams(Shape):
    path: FileUri
    recursive: bool = member(default=True, null=True)
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)


@shape(check=check_sandbox)
class RemoveParams(Shape):
    path: FileUri
    recursive: bool = member(default=True, null=True)
    force: bool = member(default=True, null=True)
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)


@shape(check=check_sandbox)
class CopyParams(Shape):
    source: FileUri = member(name="sourcePath")
    destination: FileUri = member(name="destinationPath")
    recursive: bool


@record
class WalkParams:
    path: FileUri
    max_depth: int
    max_directories: int
    max_entries: int
    follow_directories: bool
    prune_hidden: bool = False

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
        )
        check_sandbox(fields)
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
        return {
            "path": self.path.text,
            "options": {
                "maxDepth": self.max_depth,
                "maxDirectories": self.max_directories,
                "maxEntries": self.max_entries,
                "followDirectorySymlinks": self.follow_directories,
                "pruneHiddenDirectories": self.prune_hidden,
            },
        }


@shape()
class OpenParams(Shape):
    """fs/open. Mode `update` (ours) writes into a file as it is, which is made if need be."""

    handle_id: str
    path: FileUri
    mode: str = "read"

    @classmethod
    def decode(cls, params: Json) -> OpenParams:
        fields = Fields(params, "OpenParams")
        handle_id, path = fields.text("handleId"), fields.uri("path")
        mode = "read"
        if "mode" in fields:
            # `update` is ours; a refusal names what the reference knows.
            own = fields.raw("mode") == "update"
            mode = "update" if own else fields.choice("mode", ("read", "replace"))
        check_sandbox(fields)
        if len(handle_id.encode("utf-8", "surrogatepass")) > MAX_HANDLE_ID:
            raise Refused(f"file handle ID must not exceed {MAX_HANDLE_ID} bytes")
        return cls(handle_id, path, mode)


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


@shape(check=check_sandbox)
class RenameParams(Shape):
    """fs/rename (ours). Without `replace`, a destination that exists is refused, whatever else happens."""

    source: FileUri = member(name="sourcePath")
    destination: FileUri = member(name="destinationPath")
    replace: bool = member(default=False, null=True)


def _check_mode(fields: Fields) -> None:
    check_sandbox(fields)
    if fields.unsigned("mode") > MAX_MODE:
        raise InvalidParams(f"`mode` must be between 0 and {MAX_MODE} (octal 7777)")


@shape(check=_check_mode)
class ChmodParams(Shape):
    """fs/chmod (ours)."""

    path: FileUri
    mode: int
    follow: bool = member(name="followSymlinks", default=True, null=True, omit=True)


@shape()
class WatchMissingParams(Shape):
    watch_id: int
    missing: list[FileUri]
    present: FileUri | None = None
