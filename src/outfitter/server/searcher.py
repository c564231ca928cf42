"""The program that searches: fs/search's params on stdin, its result on stdout.

The first byte tells what follows: `+` the result's JSON text, `-` a refusal, `!` the name of an error of the
operating system and its text.
"""

from __future__ import annotations

import resource
import signal

from ..errors import FileFailed, Refused
from ..host.files import failed
from ..host.search import Query, Search, interrupt
from ..protocol.search import SearchParams, error_text, match_text, search_text
from ..protocol.uri import from_path
from .limits import (
    SEARCH_BYTES,
    SEARCH_ERRORS,
    SEARCH_FILE_SECONDS,
    SEARCH_FILES,
    SEARCH_GRACE_SECONDS,
    SEARCH_MEMORY_BYTES,
    SEARCH_RESPONSE_BYTES,
    SEARCH_WIDTH,
)
from .walker import sight_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.search import Match


def main() -> None:
    with open(0, encoding="utf-8") as file:
        params = SearchParams.read(file.read())
    seconds = params.timeout_ms / 1000
    _limit_ourselves(seconds)
    try:
        answer = "+" + _search(params, seconds)
    except Refused as error:
        answer = f"-{error}"
    except (OSError, FileFailed) as error:
        failure = failed(error) if isinstance(error, OSError) else error
        answer = f"!{failure.errno_name or ''} {failure}"
    except MemoryError:
        answer = "-the search reached its memory limit"
    with open(1, "wb") as out:
        out.write(answer.encode("utf-8", "replace"))


def _limit_ourselves(seconds: float) -> None:
    """Ends us, whatever we are doing, should the server not be there to do it."""
    signal.signal(signal.SIGALRM, interrupt)
    cpu = int(seconds + SEARCH_GRACE_SECONDS) + 1
    for kind, most in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, SEARCH_MEMORY_BYTES)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _search(params: SearchParams, seconds: float) -> str:
    """The result's JSON text."""
    search = Search(
        Query(
            params.path.local_path(),
            params.pattern,
            regex=params.regex,
            case_sensitive=params.case_sensitive,
            include=list(params.include),
            exclude=list(params.exclude),
            max_matches=params.max_matches,
            max_file_bytes=params.max_file_bytes,
            hidden=params.hidden,
            honour_ignore_files=params.honour_ignore_files,
            files=SEARCH_FILES,
            total_bytes=SEARCH_BYTES,
            response_bytes=SEARCH_RESPONSE_BYTES,
            seconds=seconds,
            file_seconds=SEARCH_FILE_SECONDS,
            width=SEARCH_WIDTH,
            errors=SEARCH_ERRORS,
        ),
        _match_text,
        _error_text,
        sight_for(params.sandbox),
    )
    search.run()
    return search_text(
        search.matches, search.files_searched, search.files_skipped, search.truncated, search.errors
    )


def _match_text(path: str, match: Match) -> str:
    return match_text(from_path(path), match.line, match.column, match.text, match.start, match.end)


def _error_text(path: str, message: str) -> str:
    return error_text(from_path(path), message)
