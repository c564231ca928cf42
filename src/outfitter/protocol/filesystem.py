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


def flag_or(fields: Fields, name: str, default: bool) -> bool:
    """A flag that may be absent or null."""
    return default if fields.raw_or_none(name) is None else fields.flag(name)


@record
class PathParams:
    """fs/canonicalize, fs/readDirectory: a path."""

    path: FileUri

    @classmethod
    def decode(cls, params: Json) -> PathParams:
        fields = Fields(params, "PathParams")
        path = fields.uri("path")
        check_sandbox(fields)
        return cls(path)

    def encode(self) -> Json:
        return {"path": self.path.text}


@record
class FileParams:
    """fs/readFile, fs/getMetadata: a path, and whether links are followed on the way."""

    path: FileUri
    follow: bool = True

    @classmethod
    def decode(cls, params: Json) -> FileParams:
        fields = Fields(params, "FileParams")
        path = fields.uri("path")
        check_sandbox(fields)
        return cls(path, flag_or(fields, "followSymlinks", True))

    def encode(self) -> Json:
        return _with_follow({"path": self.path.text}, self.follow)


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
        if type(data) is not base64.Blob:
            text = fields.text("dataBase64")
            check_sandbox(fields)
            try:
                data = base64.decode(text)
            except InvalidParams as error:
                raise _not_base64(error) from None
        else:
            check_sandbox(fields)
        return cls(path, data, flag_or(fields, "followSymlinks", True))

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
        params = _with_follow({"path": self.path.text}, self.follow)
        return {**params, "dataBase64": base64.encode_member(b"".join(self.pieces()))}


def _not_base64(error: InvalidParams) -> Refused:
    # The reference reads the text as a string and refuses it later, with another code.
    return Refused(f"fs/writeFile requires valid base64 dataBase64: {error}")


@record
class CreateDirectoryParams:
    path: FileUri
    recursive: bool = True
    follow: bool = True

    @classmethod
    def decode(cls, params: Json) -> CreateDirectoryParams:
        fields = Fields(params, "CreateDirectoryParams")
        path = fields.uri("path")
        check_sandbox(fields)
        recursive = flag_or(fields, "recursive", True)
        return cls(path, recursive, flag_or(fields, "followSymlinks", True))

    def encode(self) -> Json:
        return _with_follow({"path": self.path.text, "recursive": self.recursive}, self.follow)


@record
class RemoveParams:
    path: FileUri
    recursive: bool = True
    force: bool = True
    follow: bool = True

    @classmethod
    def decode(cls, params: Json) -> RemoveParams:
        fields = Fields(params, "RemoveParams")
        path = fields.uri("path")
        check_sandbox(fields)
        recursive = flag_or(fields, "recursive", True)
        force = flag_or(fields, "force", True)
        return cls(path, recursive, force, flag_or(fields, "followSymlinks", True))

    def encode(self) -> Json:
        return _with_follow(
            {"path": self.path.text, "recursive": self.recursive, "force": self.force}, self.follow
        )


@record
class CopyParams:
    source: FileUri
    destination: FileUri
    recursive: bool

    @classmethod
    def decode(cls, params: Json) -> CopyParams:
        fields = Fields(params, "CopyParams")
        source, destination = fields.uri("sourcePath"), fields.uri("destinationPath")
        recursive = fields.flag("recursive")
        check_sandbox(fields)
        return cls(source, destination, recursive)

    def encode(self) -> Json:
        return {
            "sourcePath": self.source.text,
            "destinationPath": self.destination.text,
            "recursive": self.recursive,
        }


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


@record
class OpenParams:
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

    def encode(self) -> Json:
        return {"handleId": self.handle_id, "path": self.path.text, "mode": self.mode}


@record
class ReadBlockParams:
    handle_id: str
    offset: int
    length: int

    @classmethod
    def decode(cls, params: Json) -> ReadBlockParams:
        fields = Fields(params, "ReadBlockParams")
        block = cls(fields.text("handleId"), unsigned(fields.raw("offset")), unsigned(fields.raw("len")))
        if not 1 <= block.length <= MAX_BLOCK:
            raise Refused(f"file read block length must be between 1 and {MAX_BLOCK}")
        return block

    def encode(self) -> Json:
        return {"handleId": self.handle_id, "offset": self.offset, "len": self.length}


@record
class WriteBlockParams:
    handle_id: str
    offset: int
    chunk: bytes

    @classmethod
    def decode(cls, params: Json) -> WriteBlockParams:
        fields = Fields(params, "WriteBlockParams")
        handle_id, offset = fields.text("handleId"), unsigned(fields.raw("offset"))
        chunk = fields.base64("chunk")
        if not 1 <= len(chunk) <= MAX_BLOCK:
            raise Refused(f"file write block length must be between 1 and {MAX_BLOCK}")
        if offset + len(chunk) > MAX_OFFSET:
            raise Refused("file write range exceeds the signed 64-bit file offset limit")
        return cls(handle_id, offset, chunk)

    def encode(self) -> Json:
        return {
            "handleId": self.handle_id,
            "offset": self.offset,
            "chunk": base64.encode_member(self.chunk),
        }


@record
class CloseParams:
    """fs/close. `discard` (ours) gives a replacement up: the old content stays."""

    handle_id: str
    discard: bool = False

    @classmethod
    def decode(cls, params: Json) -> CloseParams:
        fields = Fields(params, "CloseParams")
        return cls(fields.text("handleId"), fields.raw_or_none("discard") is True)

    def encode(self) -> Json:
        params: dict[str, Json] = {"handleId": self.handle_id}
        if self.discard:
            params["discard"] = True
        return params


@record
class RenameParams:
    """fs/rename (ours). Without `replace`, a destination that exists is refused, whatever else happens."""

    source: FileUri
    destination: FileUri
    replace: bool = False

    @classmethod
    def decode(cls, params: Json) -> RenameParams:
        fields = Fields(params, "RenameParams")
        source, destination = fields.uri("sourcePath"), fields.uri("destinationPath")
        check_sandbox(fields)
        return cls(source, destination, flag_or(fields, "replace", False))

    def encode(self) -> Json:
        return {
            "sourcePath": self.source.text,
            "destinationPath": self.destination.text,
            "replace": self.replace,
        }


@record
class ChmodParams:
    """fs/chmod (ours)."""

    path: FileUri
    mode: int
    follow: bool = True

    @classmethod
    def decode(cls, params: Json) -> ChmodParams:
        fields = Fields(params, "ChmodParams")
        path, mode = fields.uri("path"), unsigned(fields.raw("mode"))
        check_sandbox(fields)
        if mode > MAX_MODE:
            raise InvalidParams(f"`mode` must be between 0 and {MAX_MODE} (octal 7777)")
        return cls(path, mode, flag_or(fields, "followSymlinks", True))

    def encode(self) -> Json:
        return _with_follow({"path": self.path.text, "mode": self.mode}, self.follow)


@record
class WatchMissingParams:
    watch_id: int
    missing: list[FileUri]
    present: FileUri | None = None

    @classmethod
    def decode(cls, params: Json) -> WatchMissingParams:
        from .uri import parse

        fields = Fields(params, "WatchMissingParams")
        watch_id = unsigned(fields.raw("watchId"))
        missing = [parse(text) for text in fields.texts("missing")]
        present = fields.text_or_none("present")
        return cls(watch_id, missing, None if present is None else parse(present))

    def encode(self) -> Json:
        present = None if self.present is None else self.present.text
        return {
            "watchId": self.watch_id,
            "missing": [path.text for path in self.missing],
            "present": present,
        }


def _with_follow(params: dict[str, Json], follow: bool) -> Json:
    if not follow:
        params["followSymlinks"] = False
    return params
