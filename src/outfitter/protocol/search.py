"""Params and result of fs/search (ours)."""

from __future__ import annotations

from ..errors import InvalidParams
from ..record import KW_ONLY, record
from .fields import Fields, unsigned, wrong
from .filesystem import check_sandbox, flag_or
from .jsontext import dumps, loads, quote
from .results import Result, flag
from .watching import patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json
    from .uri import FileUri

MAX_PATTERN = 4096  # characters
DEFAULT_MATCHES, MAX_MATCHES = 1000, 10_000
DEFAULT_FILE_BYTES, MAX_FILE_BYTES = 4 << 20, 64 << 20  # sources are smaller; what is larger is data
MAX_TIMEOUT_MS = 30_000


@record
class SearchParams:
    """fs/search. `include` and `exclude` are patterns as in a .gitignore file that stands in `path`."""

    path: FileUri
    pattern: str
    _: KW_ONLY
    regex: bool = True
    case_sensitive: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_matches: int = DEFAULT_MATCHES
    max_file_bytes: int = DEFAULT_FILE_BYTES
    hidden: bool = False
    honour_ignore_files: bool = True
    timeout_ms: int = MAX_TIMEOUT_MS

    @classmethod
    def decode(cls, params: Json) -> SearchParams:
        fields = Fields(params, "SearchParams")
        path, pattern = fields.uri("path"), fields.text("pattern")
        check_sandbox(fields)
        if len(pattern) > MAX_PATTERN:
            raise InvalidParams(f"`pattern` takes {MAX_PATTERN} characters at most")
        return cls(
            path,
            pattern,
            regex=flag_or(fields, "regex", True),
            case_sensitive=flag_or(fields, "caseSensitive", True),
            include=patterns(fields, "include"),
            exclude=patterns(fields, "exclude"),
            max_matches=_number(fields, "maxMatches", DEFAULT_MATCHES, MAX_MATCHES),
            max_file_bytes=_number(fields, "maxFileBytes", DEFAULT_FILE_BYTES, MAX_FILE_BYTES),
            hidden=flag_or(fields, "hidden", False),
            honour_ignore_files=flag_or(fields, "honourIgnoreFiles", True),
            timeout_ms=_number(fields, "timeoutMs", MAX_TIMEOUT_MS, MAX_TIMEOUT_MS),
        )

    @classmethod
    def read(cls, text: str) -> SearchParams:
        """What `text` wrote, in a program of ours."""
        return cls.decode(loads(text))

    def text(self) -> str:
        return dumps(self.encode())

    def encode(self) -> Json:
        return {
            "path": self.path.text,
            "pattern": self.pattern,
            "regex": self.regex,
            "caseSensitive": self.case_sensitive,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "maxMatches": self.max_matches,
            "maxFileBytes": self.max_file_bytes,
            "hidden": self.hidden,
            "honourIgnoreFiles": self.honour_ignore_files,
            "timeoutMs": self.timeout_ms,
        }


def _number(fields: Fields, name: str, default: int, most: int) -> int:
    value = fields.unsigned_or_none(name)
    if value is None:
        return default
    if not 1 <= value <= most:
        raise InvalidParams(f"`{name}` must be between 1 and {most}")
    return value


@record
class MatchResult:
    """One line that fits: `text[start:end]` of what is shown of it, `column` of the whole line, from 1."""

    path: str
    line: int
    column: int
    text: str
    start: int
    end: int

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


@record
class SearchResult(Result):
    """`errors` are (URI, message) of what could not be looked at."""

    matches: list[MatchResult]
    files_searched: int
    files_skipped: int
    truncated: bool
    errors: list[tuple[str, str]]

    @classmethod
    def decode(cls, result: Json) -> SearchResult:
        fields = Fields(result, "SearchResult")
        return cls(
            [MatchResult.decode(one) for one in _list(fields, "matches")],
            unsigned(fields.raw("filesSearched")),
            unsigned(fields.raw("filesSkipped")),
            fields.flag("truncated"),
            [
                (one.text("path"), one.text("message"))
                for one in (Fields(item, "Error") for item in _list(fields, "errors"))
            ],
        )


def _list(fields: Fields, name: str) -> list[Json]:
    value = fields.raw(name)
    if type(value) is not list:
        raise wrong(value, "a sequence")
    return value


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
