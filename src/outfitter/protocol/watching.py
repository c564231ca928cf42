"""Params of fs/watch and fs/unwatch (ours), and the notices of all watches."""

from __future__ import annotations

from ..errors import InvalidParams, Refused
from .fields import Fields
from .filesystem import sandbox_member
from .jsontext import quote
from .results import Result
from .shape import Shape, member, rows, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sandbox import SandboxContext
    from .uri import FileUri

MAX_WATCH_ID = 64  # bytes
DEFAULT_DEBOUNCE_MS = 50  # nobody notices it, and a save by rename is one notice
MAX_DEBOUNCE_MS = 10_000
# Patterns of one request and characters of each: ignore files are longer, requests need not be.
MAX_PATTERNS, MAX_PATTERN = 64, 512


def patterns(fields: Fields, name: str) -> tuple[str, ...]:
    """Reads a list of patterns."""
    found = fields.texts(name)
    if len(found) > MAX_PATTERNS or any(len(one) > MAX_PATTERN for one in found):
        raise InvalidParams(f"`{name}` takes {MAX_PATTERNS} patterns of {MAX_PATTERN} characters at most")
    return tuple(found)


def _check_watch(fields: Fields) -> None:
    if len(fields.text("watchId").encode("utf-8", "surrogatepass")) > MAX_WATCH_ID:
        raise Refused(f"watch ID must not exceed {MAX_WATCH_ID} bytes")
    if (fields.unsigned_or_none("debounceMs") or 0) > MAX_DEBOUNCE_MS:
        raise InvalidParams(f"`debounceMs` must be between 0 and {MAX_DEBOUNCE_MS}")


@shape(check=_check_watch)
class WatchParams(Shape):
    """fs/watch. `ignore` are patterns as in a .gitignore file that stands in the watched folder."""

    watch_id: str
    path: FileUri
    recursive: bool = member(default=True, null=True)
    debounce_ms: int = member(default=DEFAULT_DEBOUNCE_MS, null=True)
    ignore: tuple[str, ...] = member(patterns, default=(), null=True)
    sandbox: SandboxContext | None = sandbox_member()


@shape()
class UnwatchParams(Shape):
    watch_id: str = member(Fields.ident)


@shape()
class WatchResult(Result):
    """fs/watch and fs/watchMissing: whether the paths are watched now."""

    watching: bool


# Notices


@shape()
class MissingChangedNotice(Shape):
    """fs/missingChanged: what the fs/watchMissing of this number waited for has happened."""

    watch_id: int

    def message(self) -> bytes:
        return b'{"method":"fs/missingChanged","params":{"watchId":%d}}' % self.watch_id


@shape(before=lambda fields: fields.items("changes"))
class ChangedNotice(Shape):
    """fs/changed (ours): `changes` are (URI, kind); with `overflow` they are not all."""

    watch_id: str
    changes: list[tuple[str, str]] = member(*rows("Change", "path", "kind"))
    overflow: bool

    def message(self) -> bytes:
        changes = ",".join(f'{{"path":{quote(path)},"kind":"{kind}"}}' for path, kind in self.changes)
        overflow = "true" if self.overflow else "false"
        return (
            f'{{"method":"fs/changed","params":{{"watchId":{quote(self.watch_id)},'
            f'"changes":[{changes}],"overflow":{overflow}}}}}'
        ).encode()
