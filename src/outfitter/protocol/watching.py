"""Params of fs/watch and fs/unwatch (ours), and the notices of all watches."""

from __future__ import annotations

from ..errors import InvalidParams, Refused
from ..record import record
from .fields import Fields, unsigned, wrong
from .filesystem import check_sandbox, flag_or
from .jsontext import quote
from .results import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json
    from .uri import FileUri

MAX_WATCH_ID = 64  # bytes
DEFAULT_DEBOUNCE_MS = 50  # nobody notices it, and a save by rename is one notice
MAX_DEBOUNCE_MS = 10_000
# Patterns of one request and characters of each: ignore files are longer, requests need not be.
MAX_PATTERNS, MAX_PATTERN = 64, 512


@record
class WatchParams:
    """fs/watch. `ignore` are patterns as in a .gitignore file that stands in the watched folder."""

    watch_id: str
    path: FileUri
    recursive: bool = True
    debounce_ms: int = DEFAULT_DEBOUNCE_MS
    ignore: tuple[str, ...] = ()

    @classmethod
    def decode(cls, params: Json) -> WatchParams:
        fields = Fields(params, "WatchParams")
        watch_id, path = fields.text("watchId"), fields.uri("path")
        check_sandbox(fields)
        if len(watch_id.encode("utf-8", "surrogatepass")) > MAX_WATCH_ID:
            raise Refused(f"watch ID must not exceed {MAX_WATCH_ID} bytes")
        debounce = fields.unsigned_or_none("debounceMs")
        if debounce is None:
            debounce = DEFAULT_DEBOUNCE_MS
        if debounce > MAX_DEBOUNCE_MS:
            raise InvalidParams(f"`debounceMs` must be between 0 and {MAX_DEBOUNCE_MS}")
        recursive = flag_or(fields, "recursive", True)
        return cls(watch_id, path, recursive, debounce, patterns(fields, "ignore"))

    def encode(self) -> Json:
        return {
            "watchId": self.watch_id,
            "path": self.path.text,
            "recursive": self.recursive,
            "debounceMs": self.debounce_ms,
            "ignore": list(self.ignore),
        }


def patterns(fields: Fields, name: str) -> tuple[str, ...]:
    """A list of patterns that may be absent or null."""
    if fields.raw_or_none(name) is None:
        return ()
    found = fields.texts(name)
    if len(found) > MAX_PATTERNS or any(len(one) > MAX_PATTERN for one in found):
        raise InvalidParams(f"`{name}` takes {MAX_PATTERNS} patterns of {MAX_PATTERN} characters at most")
    return tuple(found)


@record
class UnwatchParams:
    watch_id: str

    @classmethod
    def decode(cls, params: Json) -> UnwatchParams:
        return cls(Fields(params, "UnwatchParams").text("watchId"))

    def encode(self) -> Json:
        return {"watchId": self.watch_id}


@record
class WatchResult(Result):
    """fs/watch and fs/watchMissing: whether the paths are watched now."""

    watching: bool

    @classmethod
    def decode(cls, result: Json) -> WatchResult:
        return cls(Fields(result, "WatchResult").flag("watching"))

    def encode(self) -> Json:
        return {"watching": self.watching}


# Notices


@record
class MissingChangedNotice:
    """fs/missingChanged: what the fs/watchMissing of this number waited for has happened."""

    watch_id: int

    @classmethod
    def decode(cls, params: Json) -> MissingChangedNotice:
        return cls(unsigned(Fields(params, "MissingChangedNotice").raw("watchId")))

    def message(self) -> bytes:
        return b'{"method":"fs/missingChanged","params":{"watchId":%d}}' % self.watch_id


@record
class ChangedNotice:
    """fs/changed (ours): `changes` are (URI, kind); with `overflow` they are not all."""

    watch_id: str
    changes: list[tuple[str, str]]
    overflow: bool

    @classmethod
    def decode(cls, params: Json) -> ChangedNotice:
        fields = Fields(params, "ChangedNotice")
        changes = fields.raw("changes")
        if type(changes) is not list:
            raise wrong(changes, "a sequence")
        return cls(
            fields.text("watchId"),
            [(one.text("path"), one.text("kind")) for one in (Fields(item, "Change") for item in changes)],
            fields.flag("overflow"),
        )

    def message(self) -> bytes:
        changes = ",".join(f'{{"path":{quote(path)},"kind":"{kind}"}}' for path, kind in self.changes)
        overflow = "true" if self.overflow else "false"
        return (
            f'{{"method":"fs/changed","params":{{"watchId":{quote(self.watch_id)},'
            f'"changes":[{changes}],"overflow":{overflow}}}}}'
        ).encode()
