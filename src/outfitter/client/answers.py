"""What calls of a client return: plain records, which know nothing of the messages that they came in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..record import fields, record
from .naming import native

if TYPE_CHECKING:
    from typing import TypeVar

    from ..protocol.listing import ProcessSummary
    from ..protocol.search import SearchResult

    T = TypeVar("T")


@record
class FileInfo:
    """What a path is. Times are milliseconds since 1970, 0 where they are not known.

        found = await client.files.stat("build.log")
        print(found.is_file, found.size)  # True 18

    `mode` are the permission bits, None where the server does not say.
    """

    is_directory: bool
    is_file: bool
    is_symlink: bool
    size: int
    created_ms: int
    modified_ms: int
    mode: int | None


@record
class FoundLine:
    """A line that a search has found, the `line`th of the file `path`, and what fits of it.

        [match] = (await client.files.search("src", "main")).matches
        print(match.line, match.column, match.text[match.start : match.end])  # 1 5 main

    `text` is what is shown of the line. `column` counts from 1, in the whole line.
    """

    path: str
    line: int
    column: int
    text: str
    start: int
    end: int


@record
class Searched:
    """The result of a search: `matches`, and in `errors` (path, message) for what could not be read.

        found = await client.files.search("src", "main")
        print(len(found.matches), found.files_searched, found.truncated)  # 1 1 False

    `files_skipped` are no text, or too large. `truncated` says that a limit of the search was reached.
    """

    matches: list[FoundLine]
    files_searched: int
    files_skipped: int
    truncated: bool
    errors: list[tuple[str, str]]


@record
class ProcessInfo:
    """A process of a session, as its server lists it.

        process = await client.start(["make"])
        await process.wait()
        [one] = await client.processes()
        print(one.program, one.exited, one.exit_code)  # make True 0

    `started_at_ms` is in milliseconds since 1970. The events from `first_seq` to before `next_seq` can still
    be read; `dropped_bytes` of output cannot. `closed`: the process has exited, and all its output has ended.
    """

    process_id: str
    pid: int
    program: str
    cwd: str
    tty: bool
    started_at_ms: int
    first_seq: int
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    dropped_bytes: int


@record
class NetworkTarget:
    """What a command wants to reach: `decide` of `start` gets it.

        def decide(wanted):
            return wanted.host.endswith(".example.com") and wanted.port == 443

    `protocol` is "http", "https_connect", "socks5_tcp" or "socks5_udp".
    """

    protocol: str
    host: str
    port: int


@record
class NetworkDecision:
    """What became of a connection that a command wanted: `on_network` of `start` gets it.

        def on_network(told):
            print(told.decision, told.host, told.port, told.reason)

    `decision` is "allow" or "deny". `source` says who decided, `method` is that of HTTP.
    """

    process_id: str
    timestamp: str
    scope: str
    decision: str
    source: str
    reason: str
    protocol: str
    host: str
    port: int
    method: str | None
    client: str
    policy_override: bool


def plain(kind: type[T], result: object, **other: object) -> T:
    """A record with the fields of a result that has the same ones, except for those that are given."""
    return kind(**{name: getattr(result, name) for name in fields(kind)} | other)


def searched(result: SearchResult) -> Searched:
    matches = [plain(FoundLine, one, path=native(one.path)) for one in result.matches]
    return plain(
        Searched, result, matches=matches, errors=[(native(uri), said) for uri, said in result.errors]
    )


def process_info(summary: ProcessSummary) -> ProcessInfo:
    return plain(ProcessInfo, summary, cwd=native(summary.cwd))
