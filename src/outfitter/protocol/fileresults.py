"""Results of fs/*. Files and folders are most of what a server sends, so their text is written by hand."""

from __future__ import annotations

from bisect import bisect

from ..errors import InvalidParams
from ..record import record
from . import base64
from .fields import Fields
from .jsontext import in_pieces, quote
from .results import Result, flag
from .shape import Shape, member, rows, shape
from .uri import from_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .jsontext import Json
    from .shape import Read, Write


# One file


@shape()
class FileResult(Result):
    """fs/readFile: all of a file."""

    data: bytes = member(name="dataBase64")

    def wire(self) -> list[bytes]:
        return [FILE_HEAD, base64.encode(self.data), FILE_TAIL]


# A large file is sent block by block; these go before the first block and behind the last.
FILE_HEAD, FILE_TAIL = b'{"dataBase64":"', b'"}'


def _signed(fields: Fields, name: str) -> int:
    value = fields.raw(name)
    if type(value) is not int:
        raise InvalidParams(f"invalid type of `{name}`, expected i64")
    return value


@shape(quick=True)
class MetadataResult(Result):
    """fs/getMetadata; times are milliseconds since 1970, 0 where they are not known.

    `mode` are the permission bits (ours), None where the server does not say.
    """

    is_directory: bool
    is_file: bool
    is_symlink: bool
    size: int
    created_ms: int = member(_signed, name="createdAtMs")
    modified_ms: int = member(_signed, name="modifiedAtMs")
    mode: int | None = member(default=None, omit=True)

    def wire(self) -> str:
        mode = "" if self.mode is None else f',"mode":{self.mode}'
        return (
            f'{{"isDirectory":{flag(self.is_directory)},"isFile":{flag(self.is_file)},'
            f'"isSymlink":{flag(self.is_symlink)},"size":{self.size},'
            f'"createdAtMs":{self.created_ms},"modifiedAtMs":{self.modified_ms}{mode}}}'
        )


@shape()
class PathResult(Result):
    """fs/canonicalize: a URI without links and dots."""

    path: str


@shape()
class OpenResult(Result):
    """fs/open: the name of the handle."""

    handle_id: str


@record
class BlockResult(Result):
    """fs/readBlock."""

    chunk: bytes
    eof: bool

    @classmethod
    def decode(cls, result: Json) -> BlockResult:
        fields = Fields(result, "BlockResult")
        return cls(fields.base64("chunk"), fields.flag("eof"))

    def wire(self) -> list[bytes]:
        end = b'","eof":true}' if self.eof else b'","eof":false}'
        return [b'{"chunk":"', base64.encode(self.chunk), end]


# Folders


@shape()
class EntryResult(Shape):
    """One name of fs/readDirectory; `uri` (ours) is there when the name is not UTF-8.

    The rest (ours) is there when a client asks for details. Of a link, `size`, `modified_ms` and `mode` are
    those of what it leads to, or its own if it leads nowhere.
    """

    name: str = member(name="fileName")
    is_directory: bool
    is_file: bool
    uri: str | None = member(default=None, omit=True)
    is_symlink: bool = member(default=False, omit=True)
    size: int | None = member(default=None, omit=True)
    modified_ms: int | None = member(_signed, name="modifiedAtMs", default=None, omit=True)
    mode: int | None = member(default=None, omit=True)
    link_target: str | None = member(default=None, omit=True)

    # By hand: a folder has thousands of them.
    @classmethod
    def decode(cls, result: Json) -> EntryResult:
        fields = Fields(result, "EntryResult")
        return cls(
            fields.text("fileName"),
            fields.flag("isDirectory"),
            fields.flag("isFile"),
            fields.text_or_none("uri"),
            fields.flag_or("isSymlink", False),
            fields.unsigned_or_none("size"),
            None if fields.raw_or_none("modifiedAtMs") is None else _signed(fields, "modifiedAtMs"),
            fields.unsigned_or_none("mode"),
            fields.text_or_none("linkTarget"),
        )


@shape()
class EntriesResult(Result):
    """fs/readDirectory. A server writes a `FolderListing` instead."""

    entries: list[EntryResult]


@record
class FolderListing(Result):
    """What a server says of a folder: names of plain files, and `others` as (name, is a folder, is a file);
    both sorted."""

    folder: str
    files: list[str]
    others: list[tuple[str, bool, bool]]

    def wire(self) -> list[bytes]:
        files = self.files
        texts: list[str] = []
        place = 0
        for other in self.others:
            following = bisect(files, other[0], place)
            texts += _files_text(self.folder, files[place:following])
            texts.append(_entry_text(self.folder, *other))
            place = following
        texts += _files_text(self.folder, files[place:] if place else files)
        return [b'{"entries":[', *in_pieces(texts), b"]}"]


@record
class DetailedListing(Result):
    """The same with details: name, is a folder, is a file, is a link; size, time, mode; where it leads."""

    folder: str
    entries: list[tuple[str, bool, bool, bool, int, int, int, str | None]]

    def wire(self) -> list[bytes]:
        texts = []
        for name, is_directory, is_file, is_symlink, size, modified_ms, mode, target in self.entries:
            text = _entry_text(self.folder, name, is_directory, is_file)[:-1]
            text += (
                f',"isSymlink":{flag(is_symlink)},"size":{size},"modifiedAtMs":{modified_ms},"mode":{mode}'
            )
            texts.append(text + ("}" if target is None else f',"linkTarget":{quote(_shown(target))}}}'))
        return [b'{"entries":[', *in_pieces(texts), b"]}"]


def _shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
    try:
        name.encode()
    except UnicodeEncodeError:
        # A name that is not UTF-8 cannot be addressed by its text; its URI (ours) can.
        uri = from_path(f"{folder.rstrip('/')}/{name}")
        return f'{{"fileName":{quote(_shown(name))},"uri":{quote(uri)}{kind}'
    return f'{{"fileName":{quote(name)}{kind}'


def _pairs(second: str) -> tuple[Read, Write]:
    one_by_one, write = rows("WalkResult", "path", second)

    def read(fields: Fields, name: str) -> list[tuple[str, str]]:
        try:
            # A walk has fifty thousand of them: looked at one by one only if something is wrong.
            return [(one["path"], one[second]) for one in fields.items(name)]
        except (KeyError, TypeError):
            return one_by_one(fields, name)  # type: ignore[no-any-return]

    return read, write


@shape()
class WalkResult(Result):
    """fs/walk: `entries` are (URI, kind), `errors` are (URI, message)."""

    entries: list[tuple[str, str]] = member(*_pairs("kind"))
    errors: list[tuple[str, str]] = member(*_pairs("message"))
    truncated: bool


def walk_text(
    groups: Iterable[tuple[str, list[str], str]], errors: Iterable[tuple[str, str]], truncated: bool
) -> list[bytes]:
    """A walk's JSON text, in pieces. A group is a folder's URI, names as they stand in a URI, and a kind."""
    entries = in_pieces([_group_text(*group) for group in groups])
    complaints = ",".join([f'{{"path":{quote(one)},"message":{quote(text)}}}' for one, text in errors])
    return [b'{"entries":[', *entries, f'],"errors":[{complaints}],"truncated":{flag(truncated)}}}'.encode()]


def _group_text(prefix: str, names: list[str], kind: str) -> str:
    """Entries of one folder and kind; what stands in a URI needs no quoting."""
    end = f'","kind":"{kind}"}}'
    start = f'{{"path":{quote(prefix)[:-1]}'
    return start + f"{end},{start}".join(names) + end
