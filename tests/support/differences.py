"""Where our server answers otherwise than the reference on purpose, as data.

Each entry names its source in the protocol description: a row of section 19, the table of weaknesses of
the reference ("19 #8"), or the section that leaves a behaviour optional ("2.3"). A test that meets a
difference finds it here, or fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ANY_VALUE = "<any>"  # in place of a value that depends on timing

# Every malformed message (19 #31): a constant text, and the id of the message if it shows one.

PARSE_ERROR_SOURCE = "19 #31"
PARSE_ERROR_REFERENCE = "failed to parse websocket JSON-RPC message from exec-server websocket "
PARSE_ERROR_OURS = "failed to parse JSON-RPC message: "

# Every error (19 #25): the same code and text, and a machine-readable name in `data`.

ERROR_DATA_SOURCE = "19 #25"
ERROR_DATA_NAME = "error"

# What environment/info says besides: how long a session waits for its client (19 #21 makes it matter).

INFO_OURS = frozenset({"sessionRetentionMs", "base", "weaker"})  # the last where this is not Linux

# Every fatal message (19 #20): a Close frame with a code and a reason, not a dropped socket.

CLOSE_SOURCE = "19 #20"
CLOSE_CODE_OURS = 1002
CLOSE_CODES_OURS = frozenset({1002, 1007, 1009})  # also: text that is not UTF-8, and too long a message


@dataclass(frozen=True)
class InTranscript:
    """One recorded message that our server sends otherwise.

    `where` is `answer CONN ID`, `exited PROCESS` or `output PROCESS`; `ours` replaces the
    result, the exit code or the whole output.
    """

    source: str
    transcript: str
    where: str
    ours: Any
    why: str


TRANSCRIPTS = [
    InTranscript("19 #8", "04-process-pty", "exited t2", 137, "a terminal's child killed by SIGKILL: 128+9"),
    InTranscript(
        "19 #5", "08-late-output", "output g1", "early\n", "terminate ends what outlived the leader"
    ),
    InTranscript(
        "19 #5",
        "08-late-output",
        "answer A 4",
        {
            "output": {"stdout": "early\n"},
            "beyond": 0,
            "exited": True,
            "exitCode": 5,
            "closed": ANY_VALUE,
            "failure": None,
            "sandboxDenied": False,
        },
        "so closed may come before the read",
    ),
    *(
        InTranscript(
            "19 #23",
            "10-fs-basic",
            f"answer A {ident}",
            {
                "isDirectory": is_directory,
                "isFile": not is_directory,
                "isSymlink": is_symlink,
                "size": 0,
                "createdAtMs": ANY_VALUE,
                "modifiedAtMs": 0,
            },
            "the time of birth, whether links are followed or not",
        )
        for ident, is_directory, is_symlink in ((5, False, False), (6, False, True), (7, True, True))
    ),
    InTranscript("19 #24", "11-fs-errors", "answer A 24", {}, "removal that follows no link"),
    InTranscript(
        "19 #2",
        "18-concurrent-2",
        "answer A process/start",
        {"processId": "st", "sandboxType": "none"},
        "FIFO",
    ),
    InTranscript("19 #2", "18-concurrent-2", "answer A process/write", {"status": "accepted"}, "FIFO"),
    InTranscript(
        "19 #2",
        "18-concurrent-2",
        "answer A process/read",
        {
            "output": {},
            "beyond": 0,
            "exited": ANY_VALUE,
            "exitCode": ANY_VALUE,
            "closed": ANY_VALUE,
            "failure": None,
            "sandboxDenied": False,
        },
        "FIFO for writes and terminate; a read may see either side of it",
    ),
    InTranscript("19 #2", "18-concurrent-2", "answer A process/terminate", {"running": True}, "FIFO"),
]


@dataclass(frozen=True)
class InCase:
    """One case of the differential tests: what the reference does, and what ours does instead.

    Both are written as results; an error is its code alone. `reference` is None where it shows by an event
    that never comes, which no test can wait for.
    """

    source: str
    case: str
    reference: Any
    ours: Any


ACCEPTED = {"status": "accepted"}
STDIN_CLOSED = {"status": "stdinClosed"}
READY = {"status": "ready"}
UNKNOWN_PROCESS = {"status": "unknownProcess"}

CASES = [
    # processes
    InCase("19 #3", "story long_poll_and_status", "read", "status"),
    InCase("19 #4", "story terminate_with_grace", 137, 8),
    InCase(
        "19 #5", "story terminate_after_the_leader", [{"running": False}, False], [{"running": False}, True]
    ),
    InCase("19 #8", "story terminate_of_a_terminal", [{"running": True}, 1], [{"running": True}, 137]),
    InCase("19 #8", "start killed terminal", {"exit": 1}, {"exit": 137}),
    InCase("19 #8", "start terminated terminal", {"exit": 1}, {"exit": 143}),
    InCase("19 #9", "start missing cwd terminal", {"exit": 0}, -32603),
    InCase("19 #9", "start cwd is a file terminal", {"exit": 0}, -32603),
    InCase("19 #9", "start cwd is a loop terminal", {"exit": 0}, -32603),
    InCase("19 #10", "start arg0 terminal", -32603, {"exit": 0, "pty": "zero\r\n"}),
    InCase("19 #10", "start empty arg0 terminal", -32603, {"exit": 0, "pty": "\r\n"}),
    InCase("19 #11", "story size_of_a_terminal", "24 80\r\n", "50 132\r\n"),
    InCase("19 #11", "story resize_of_a_terminal", -32601, {}),
    InCase("19 #12", "story interrupt_of_a_foreground_job", None, 6),
    InCase("19 #13", "story end_of_input_on_a_pipe", None, 0),
    InCase("19 #14", "story pipe_exit_then_write", ACCEPTED, STDIN_CLOSED),
    InCase("19 #14", "story terminate_then_write", -32603, STDIN_CLOSED),
    InCase("19 #16", "story loss_of_output_is_told", False, True),
    # a script on a terminal sees the name it was started by, as with pipes
    InCase(
        "7.3",
        "start relative to cwd terminal",
        {"exit": 0, "pty": "good DIR/./good\r\n"},
        {"exit": 0, "pty": "good ./good\r\n"},
    ),
    InCase(
        "7.3",
        "start by name in an empty PATH entry terminal",
        {"exit": 0, "pty": "good DIR/good\r\n"},
        {"exit": 0, "pty": "good good\r\n"},
    ),
    InCase("18.1", "start by name without PATH terminal", -32603, {"exit": 0}),  # as with pipes
    # messages
    InCase("19 #19", "frame 16777217", "ended", UNKNOWN_PROCESS),
    InCase("19 #19", "frame 67108864", "ended", UNKNOWN_PROCESS),
    InCase("19 #28", "story reused_id_in_flight", ["result", "result"], ["-32600", "result"]),
    # structures given as lists of their members, which implementations need not take
    InCase("2.3", "envelope trace list", READY, -32600),
    InCase("2.3", "envelope trace positional", READY, -32600),
    InCase("2.3", "process/start metadata []", ANY_VALUE, -32602),
]


def without_error_data(error: dict[str, Any]) -> dict[str, Any]:
    """Our error object without what `ERROR_DATA_SOURCE` adds to it."""
    if "data" not in error:
        return error
    assert isinstance(error["data"], dict), error
    assert isinstance(error["data"][ERROR_DATA_NAME], str), error
    return {name: value for name, value in error.items() if name != "data"}


def in_transcript(transcript: str, where: str) -> InTranscript | None:
    for entry in TRANSCRIPTS:
        if (entry.transcript, entry.where) == (transcript, where):
            return entry
    return None


def in_case(case: str) -> InCase | None:
    for entry in CASES:
        if entry.case == case:
            return entry
    return None


# Files


BIRTH_SOURCE = "19 #23"  # fs/getMetadata.createdAtMs: real, also where links are followed
LISTING_SOURCE = "19 #27"  # fs/readDirectory: sorted
LISTING_URI_SOURCE = "19 #26"  # and a member more for names that are not UTF-8
LISTING_URI = "uri"
METADATA_OURS = frozenset({"mode"})  # what fs/getMetadata says besides; fs/setMode needs it


@dataclass(frozen=True)
class InFiles:
    """One place in the outcome of one case about files: an answer, or what is left at a path of the tree."""

    source: str
    case: str
    where: str
    reference: Any
    ours: Any


READ_EMPTY = {"dataBase64": ""}
READ_HELLO = {"dataBase64": "aGVsbG8="}
READ_NEW = {"dataBase64": "bmV3"}

FILES = [
    # a copy onto itself, by whatever name, leaves the file alone
    *(
        InFiles(
            "19 #37", f"copy `{source}` `{destination}` recursive={recursive}", f"tree {left}", emptied, None
        )
        for source, destination, left, emptied in (
            ("a.txt", "a.txt", "a.txt", "file 644 b''"),
            ("a.txt", "ln", "a.txt", "file 644 b''"),
            ("exec", "exec", "exec", "file 4751 b''"),
            *(("h1", other, name, "file 644 b''") for other in ("h1", "h2") for name in ("h1", "h2")),
        )
        for recursive in (False, True)
    ),
    # names that are not UTF-8 can be addressed
    InFiles(
        "19 #26",
        "walk over a name that is not UTF-8",
        "answer 1",
        {
            "entries": [],
            "errors": [
                {
                    "path": "file:///TREE/odd/%EF%BF%BD",
                    "message": "No such file or directory (os error 2)",
                }
            ],
            "truncated": False,
        },
        {
            "entries": [{"path": "file:///TREE/odd/%FE", "kind": "file"}],
            "errors": [],
            "truncated": False,
        },
    ),
    # removal that follows no link, which the reference has only for what is not recursive
    *(
        InFiles("19 #24", f"removal of {what} that follows no link", "answer 1", -32603, ours)
        for what, ours in (("a file", {}), ("a folder", {}), ("nothing", {}), ("a link", -32600))
    ),
    InFiles("19 #24", "removal of a file that follows no link", "tree a.txt", None, "gone"),
    InFiles("19 #24", "removal of a folder that follows no link", "tree private", None, "gone"),
    InFiles("19 #24", "removal of a folder that follows no link", "tree private/key", None, "gone"),
    InFiles(
        "19 #24",
        "removal through a link that follows no link",
        "answer 1",
        [-32603, "recursive no-follow removal is unsupported"],
        [-32603, "Not a directory (os error 20)"],
    ),
    # what nobody but its owner may enter stays so in a copy; the description leaves it open
    InFiles("9.2", "copy of a private folder", "tree new", "directory 755", "directory 700"),
    # a replacement is there when it is whole, or not at all
    InFiles(
        "19 #22", "replacement before its end", "answer 2", {"dataBase64": ""}, {"dataBase64": "aGVsbG8="}
    ),
    InFiles(
        "19 #22",
        "replacement before its end",
        "answer 4",
        READ_NEW,
        READ_HELLO,
    ),
    InFiles(
        "19 #22", "replacement that was read", "answer 5", {"dataBase64": ""}, {"dataBase64": "aGVsbG8="}
    ),
    InFiles("19 #22", "replacement that was read", "tree a.txt", "file 644 b''", None),
    InFiles("19 #22", "replacement given up", "answer 4", READ_NEW, READ_HELLO),
    InFiles("19 #22", "replacement given up", "tree a.txt", "file 644 b'new'", None),
    # an address that is none: refused when the URI is used, not when it is read
    InFiles("2.10", "uri file://[/tmp", "answer 1", -32602, -32600),
    # a FIFO that nobody reads; the reference never answers
    InFiles("19 #36", "write to a FIFO", "answer 1", None, -32603),
    InFiles("19 #36", "copy to a FIFO", "answer 1", None, -32603),
]


def in_files(case: str, where: str) -> InFiles | None:
    for entry in FILES:
        if (entry.case, entry.where) == (case, where):
            return entry
    return None
