"""Params and result of fs/search (ours)."""

from __future__ import annotations

from ..errors import InvalidParams
from ..record import KW_ONLY
from .fields import Fields, unsigned
from .filesystem import sandbox_member
from .jsontext import dumps, loads, quote
from .results import Result, flag
from .shape import Shape, member, rows, shape
from .watching import patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json
    from .sandbox import SandboxContext
    from .shape import Read
    from .uri import FileUri

MAX_PATTERN = 4096  # characters
DEFAULT_MATCHES, MAX_MATCHES = 1000, 10_000
DEFAULT_FILE_BYTES, MAX_FILE_BYTES = 4 << 20, 64 << 20  # sources are smaller; what is larger is data
MAX_TIMEOUT_MS = 30_000


def _number(most: int) -> Read:
    def read(fields: Fields, name: str) -> int:
        value = fields.unsigned(name)
        if not 1 <= value <= most:
            raise InvalidParams(f"`{name}` must be between 1 and {most}")
        return value

    return read


def _check_pattern(fields: Fields) -> None:
    if len(fields.text("pattern")) > MAX_PATTERN:
        raise InvalidParams(f"`pattern` takes {MAX_PATTERN} characters at most")


@shape(check=_check_pattern)
class SearchParams(Shape):
    """fs/search. `include` and `exclude` are patterns as in a .gitignore file that stands in `path`."""

    path: FileUri
    pattern: str
    _: KW_ONLY
    regex: bool = member(default=True, null=True)
    case_sensitive: bool = member(default=True, null=True)
    include: tuple[str, ...] = member(patterns, default=(), null=True)
    exclude: tuple[str, ...] = member(patterns, default=(), null=True)
    max_matches: int = member(_number(MAX_MATCHES), default=DEFAULT_MATCHES, null=True)
    max_file_bytes: int = member(_number(MAX_FILE_BYTES), default=DEFAULT_FILE_BYTES, null=True)
    hidden: bool = member(default=False, null=True)
    honour_ignore_files: bool = member(default=True, null=True)
    timeout_ms: int = member(_number(MAX_TIMEOUT_MS), default=MAX_TIMEOUT_MS, null=True)
    sandbox: SandboxContext | None = sandbox_member()

    @classmethod
    def read(cls, text: str) -> SearchParams:
        """What `text` wrote, in a program of ours."""
        return cls.decode(loads(text))

    def text(self) -> str:
        return dumps(self.encode())


@shape()
class MatchResult(Shape):
    """One line that fits: `text[start:end]` of what is shown of it, `column` of the whole line, from 1."""

    path: str
    line: int
    column: int
    text: str
    start: int
    end: int

    # By hand: a search finds thousands of them.
    @classmethod
    def decode(cls, result: Json) -> MatchResult:
        fields = Fields(result, "Match")
        return cls(
            fields.text("path"),
            unsigned(fields.raw("line")),
            unsigned(fields.raw("column")),
            fields.text("text"),
            unsigned(fields.raw("start")),
            unsigned(fields.raw("end")),
        )


@shape()
class SearchResult(Result):
    """`errors` are (URI, message) of what could not be looked at."""

    matches: list[MatchResult]
    files_searched: int
    files_skipped: int
    truncated: bool
    errors: list[tuple[str, str]] = member(*rows("Error", "path", "message"))


# A search writes its result match by match, so that it knows how long it is.


def match_text(path: str, line: int, column: int, text: str, start: int, end: int) -> str:
    """One match as JSON text; `path` is a URI."""
    return (
        f'{{"path":{quote(path)},"line":{line},"column":{column},'
        f'"text":{quote(text)},"start":{start},"end":{end}}}'
    )


def error_text(path: str, message: str) -> str:
    """One error as JSON text; `path` is a URI."""
    return f'{{"path":{quote(path)},"message":{quote(message)}}}'


def search_text(
    matches: list[str], files_searched: int, files_skipped: int, truncated: bool, errors: list[str]
) -> str:
    """The result's JSON text, of matches and errors that are written already."""
    return (
        f'{{"matches":[{",".join(matches)}],"filesSearched":{files_searched},'
        f'"filesSkipped":{files_skipped},"truncated":{flag(truncated)},"errors":[{",".join(errors)}]}}'
    )
