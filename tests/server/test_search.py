"""fs/search on real trees: what is found, what is passed over, and nothing that can hold the server up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from outfitter.protocol import uri
from outfitter.protocol.search import SearchParams
from outfitter.server.limits import SEARCH_WIDTH, SEARCHES, WAITING_SEARCHES
from tests.support.machine import SECOND, children, command, descriptors, wait_gone, wait_until
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire

# An expression that takes for ever on this line.
ENDLESS, LINE = "(a+)+$", "a" * 64 + "b\n"


def plant(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def search(wire: Wire, root: Path, pattern: str, **params: Any) -> Message:
    result: Message = wire.call("fs/search", {"path": root.as_uri(), "pattern": pattern, **params})
    return result


def found(wire: Wire, root: Path, pattern: str, **params: Any) -> list[str]:
    """Where it was found, as `path:line`."""
    matches = search(wire, root, pattern, **params)["matches"]
    prefix = len(root.as_uri()) + 1
    return [f"{match['path'][prefix:]}:{match['line']}" for match in matches]


def searchers(server: Server) -> list[int]:
    return [pid for pid in children(server.pid) if "outfitter.server.searcher" in command(pid)]


# What is found


def test_a_match_is_told_whole(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"d/f.txt": "one\nsome needle here\n", "other": "hay\n"})
    assert search(wire, tmp_path, "ne+dle") == {
        "matches": [
            {
                "path": (tmp_path / "d/f.txt").as_uri(),
                "line": 2,
                "column": 6,
                "text": "some needle here",
                "start": 5,
                "end": 11,
            }
        ],
        "filesSearched": 2,
        "filesSkipped": 0,
        "truncated": False,
        "errors": [],
    }


def test_files_come_sorted_and_lines_in_their_order(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"b/z": "x\nx\n", "a": "x\n", "b.txt": "x\n", "b/a": "-\nx\n", "c/f": "x"})
    assert found(wire, tmp_path, "x") == ["a:1", "b/a:2", "b/z:1", "b/z:2", "b.txt:1", "c/f:1"]


def test_text_and_case(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"f": "a.c\nabc\nA.C\n"})
    assert found(wire, tmp_path, "a.c") == ["f:1", "f:2"]
    assert found(wire, tmp_path, "a.c", regex=False) == ["f:1"]
    assert found(wire, tmp_path, "a.c", regex=False, caseSensitive=False) == ["f:1", "f:3"]


def test_one_file_can_be_searched(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {".hidden": "x\n", ".gitignore": "*"})
    assert [match["line"] for match in search(wire, tmp_path / ".hidden", "x")["matches"]] == [1]


def test_odd_names_and_text_come_back(wire: Wire, tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/sp ace\xff", "wb") as file:
        file.write(b"\xff needle\n")
    [match] = search(wire, tmp_path, "needle")["matches"]
    assert match["path"] == tmp_path.as_uri() + "/sp%20ace%FF"
    assert (match["text"], match["column"]) == ("\ufffd needle", 3)


def test_a_root_given_by_a_link_keeps_its_name(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path / "repo", {".git/HEAD": "", ".gitignore": "no.txt", "sub/no.txt": "x", "sub/f.txt": "x"})
    (tmp_path / "link").symlink_to("repo/sub")
    assert found(wire, tmp_path / "link", "x") == ["f.txt:1"]


def test_what_was_written_just_before_is_found(wire: Wire, tmp_path: Path) -> None:
    path = (tmp_path / "f").as_uri()
    wire.request("fs/writeFile", {"path": path, "dataBase64": "bmVlZGxl"})
    assert found(wire, tmp_path, "needle") == ["f:1"]


# What is passed over


def test_binary_large_and_special_files_are_passed_over(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"binary": b"x\0", "late": b"x\n" * 5000 + b"\0", "large": "x" * 2000, "small": "x"})
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("small")
    (tmp_path / "up").symlink_to("..")
    result = search(wire, tmp_path, "x", maxFileBytes=1000)
    assert [match["path"] for match in result["matches"]] == [(tmp_path / "small").as_uri()]
    assert (result["filesSearched"], result["filesSkipped"]) == (1, 3)
    result = search(wire, tmp_path, "^x$")
    assert (len(result["matches"]), result["filesSkipped"], result["truncated"]) == (1000, 1, True)


TREE: dict[str, str | bytes] = {
    "a.py": "x",
    "a.txt": "x",
    ".hidden/f.py": "x",
    ".env": "x",
    "src/b.py": "x",
    "src/gen/c.py": "x",
    "docs/d.txt": "x",
}


@pytest.mark.parametrize(
    ("params", "files"),
    [
        ({}, ["a.py", "a.txt", "docs/d.txt", "src/b.py", "src/gen/c.py"]),
        ({"include": ["*.py"]}, ["a.py", "src/b.py", "src/gen/c.py"]),
        ({"include": ["/src"]}, ["src/b.py", "src/gen/c.py"]),
        ({"include": ["src/*.py", "*.txt"]}, ["a.txt", "docs/d.txt", "src/b.py"]),
        ({"exclude": ["gen/", "*.txt"]}, ["a.py", "src/b.py"]),
        ({"include": ["*.py"], "exclude": ["/src/**", "!/src/b.py"]}, ["a.py", "src/b.py"]),
        ({"hidden": True, "include": [".*", "!.git"]}, [".env", ".hidden/f.py"]),
    ],
    ids=str,
)
def test_include_exclude_and_hidden(params: Message, files: list[str], wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, TREE)
    assert found(wire, tmp_path, "x", **params) == [f"{name}:1" for name in files]


def test_ignore_files_count_also_nested_and_negated(wire: Wire, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        ".git/config": "x",
        ".git/info/exclude": "local.txt\n",
        ".gitignore": "*.log\nbuild/\n!keep.log\n/top.txt\n",
        "a.log": "x",
        "keep.log": "x",
        "top.txt": "x",
        "local.txt": "x",
        "build/x.txt": "x",
        "sub/.gitignore": "!a.log\nkeep.log\n",
        "sub/a.log": "x",
        "sub/keep.log": "x",
        "sub/top.txt": "x",
        "sub/deep/.ignore": "*\n",
        "sub/deep/x.txt": "x",
    }
    plant(tmp_path, files)
    assert found(wire, tmp_path, "x") == ["keep.log:1", "sub/a.log:1", "sub/top.txt:1"]
    # From below, the rules above hold all the same.
    assert found(wire, tmp_path / "sub", "x") == ["a.log:1", "top.txt:1"]
    every = [name for name, text in files.items() if text == "x" and not name.startswith(".")]
    assert found(wire, tmp_path, "x", honourIgnoreFiles=False) == [f"{name}:1" for name in sorted(every)]
    assert ".git/config:1" in found(wire, tmp_path, "x", honourIgnoreFiles=False, hidden=True)
    assert ".git/config:1" not in found(wire, tmp_path, "x", hidden=True)


# Bounds


def test_matches_are_bounded(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"f": "x\n" * 3000, "g": "x\n"})
    for most in (1, 10, 2999):
        result = search(wire, tmp_path, "x", maxMatches=most)
        assert (len(result["matches"]), result["truncated"]) == (most, True)
    result = search(wire, tmp_path, "x", maxMatches=3001)
    assert (len(result["matches"]), result["truncated"]) == (3001, False)


def test_a_long_line_is_shown_around_its_match(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"f": "-" * 100_000 + "needle" + "+" * 100_000})
    [match] = search(wire, tmp_path, "needle")["matches"]
    assert (match["column"], len(match["text"])) == (100_001, SEARCH_WIDTH)
    assert match["text"][match["start"] : match["end"]] == "needle"


def test_the_answer_is_bounded(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"f": ("\u20ac" * 500 + "\n") * 2700})
    request = wire.request(
        "fs/search", {"path": tmp_path.as_uri(), "pattern": "\u20ac$", "maxMatches": 10_000}
    )
    while not isinstance(text := wire.socket.recv(timeout=20), str) or f'"id":{request}' not in text[:20]:
        pass
    assert 3 << 20 < len(text) <= (4 << 20) + 1000
    assert '"truncated":true' in text[-100:]


# The searcher as it is started, but as somebody who may not read everything, whoever runs the tests.
AS_NOBODY = """
import os, sys
sys.path[:] = sys.argv[1:]
from outfitter.server.searcher import main
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
main()
"""


def test_what_cannot_be_read_is_told_and_the_rest_is_found() -> None:
    # Not in tmp_path, which is its owner's alone.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        plant(root, {"a/f": "x", "b/f": "x", "c": "x"})
        (root / "a").chmod(0)
        (root / "c").chmod(0)
        params = SearchParams(uri.parse(root.as_uri()), "x").encode()
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", AS_NOBODY, *sys.path],
                input=json.dumps(params).encode(),
                capture_output=True,
                check=True,
                cwd="/",
            )
        finally:
            (root / "a").chmod(0o700)
        assert done.stdout[:1] == b"+", done
        result = json.loads(done.stdout[1:])
        assert [match["path"] for match in result["matches"]] == [(root / "b/f").as_uri()]
        assert result["errors"] == [
            {"path": (root / name).as_uri(), "message": "Permission denied (os error 13)"} for name in "ac"
        ]


def test_what_the_kernel_does_not_let_us_read_is_told(wire: Wire) -> None:
    # The searcher's own memory begins with nothing.
    params = {"path": "file:///proc/self/task", "pattern": "nonesuch", "include": ["mem"], "timeoutMs": 5000}
    result = wire.call("fs/search", params)
    assert result["errors"] != []
    for error in result["errors"]:
        assert error["path"].endswith("/mem")
        assert error["message"].endswith("(os error 5)")


@pytest.mark.parametrize(
    ("params", "code", "text"),
    [
        (
            {"pattern": "("},
            -32600,
            "the pattern is not valid: missing ), unterminated subpattern at position 0",
        ),
        ({"pattern": ""}, -32600, "the pattern is empty"),
        ({"pattern": "a\nb"}, -32600, "the pattern contains a line break"),
        ({"path": "file:///nonesuch"}, -32004, "No such file or directory (os error 2)"),
        ({"path": "file:///etc/passwd/x"}, -32603, "Not a directory (os error 20)"),
        ({"path": "file:///dev/null"}, -32600, "only files and directories can be searched"),
        ({"maxMatches": 0}, -32602, "`maxMatches` must be between 1 and 10000"),
        ({"maxMatches": 10_001}, -32602, "`maxMatches` must be between 1 and 10000"),
        ({"timeoutMs": 30_001}, -32602, "`timeoutMs` must be between 1 and 30000"),
        ({"include": ["x" * 513]}, -32602, "`include` takes 64 patterns of 512 characters at most"),
        ({"pattern": "x" * 4097}, -32602, "`pattern` takes 4096 characters at most"),
        ({"pattern": None}, -32602, "invalid type: null, expected a string"),
    ],
    ids=str,
)
def test_refusals(params: Message, code: int, text: str, wire: Wire, tmp_path: Path) -> None:
    error = wire.error("fs/search", {"path": tmp_path.as_uri(), "pattern": "x", **params})
    assert (error["code"], error["message"][: len(text)]) == (code, text)


# Expressions that take for ever


def test_an_endless_expression_is_told_and_holds_up_nobody(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE, "b": "aa\n"})
    begun = time.monotonic()
    params = {"path": tmp_path.as_uri(), "pattern": ENDLESS, "timeoutMs": int(1000 * SECOND)}
    request = wire.request("fs/search", params)
    slowest = 0.0
    for _ in range(50):
        asked = time.monotonic()
        assert wire.call("environment/status") == {"status": "ready"}
        slowest = max(slowest, time.monotonic() - asked)
    result = wire.answer(request)["result"]
    assert (result["truncated"], result["matches"]) == (True, [])
    assert [error["path"] for error in result["errors"]] == [(tmp_path / "a").as_uri()]
    assert result["errors"][0]["message"].startswith("the pattern took more than ")
    assert slowest < 0.5 * SECOND
    assert time.monotonic() - begun < 8 * SECOND


def test_a_search_that_is_killed_is_told(server: Server, wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE})
    request = wire.request("fs/search", {"path": tmp_path.as_uri(), "pattern": ENDLESS})
    wait_until(lambda: len(searchers(server)) == 1, "it runs")
    os.kill(searchers(server)[0], signal.SIGKILL)
    error = wire.answer(request)["error"]
    assert (error["code"], error["message"]) == (-32603, "the search failed")


def test_a_search_that_does_not_stop_by_itself_is_killed(server: Server, wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE})
    params = {"path": tmp_path.as_uri(), "pattern": ENDLESS, "timeoutMs": 500}
    request = wire.request("fs/search", params)
    wait_until(lambda: len(searchers(server)) == 1, "it runs")
    os.kill(searchers(server)[0], signal.SIGSTOP)  # its own alarm does not reach it now
    error = wire.answer(request)["error"]
    assert (error["code"], error["message"]) == (-32603, "the search did not finish in time")
    assert searchers(server) == []


def test_searches_end_with_their_connection(server: Server, tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE})
    with Wire(server.url) as wire:
        wire.handshake()
        search(wire, tmp_path, "x")  # from now on the server has what it needs for files
        open_before = descriptors(server.pid)
        for _ in range(SEARCHES + 3):
            wire.request("fs/search", {"path": tmp_path.as_uri(), "pattern": ENDLESS})
        wait_until(lambda: len(searchers(server)) == SEARCHES, "as many run as may")
        running = searchers(server)
        # The others wait, and other requests do not wait for them.
        assert wire.call("environment/status") == {"status": "ready"}
        wire.call("fs/writeFile", {"path": (tmp_path / "b").as_uri(), "dataBase64": ""})
    wait_gone(running)
    wait_until(lambda: descriptors(server.pid) <= open_before, "nothing stays open")
    assert searchers(server) == []


def test_waiting_searches_get_their_turn(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"a": "x"})
    params = {"path": tmp_path.as_uri(), "pattern": "x"}
    requests = [wire.request("fs/search", params) for _ in range(3 * SEARCHES)]
    answers = [wire.answer(request)["result"]["matches"] for request in requests]
    assert [len(matches) for matches in answers] == [1] * 3 * SEARCHES


def test_searches_that_wait_are_bounded(wire: Wire, tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE})
    params = {"path": tmp_path.as_uri(), "pattern": ENDLESS}
    asked = [wire.request("fs/search", params) for _ in range(SEARCHES + WAITING_SEARCHES + 1)]
    first = wire.receive()
    assert first["id"] in asked
    assert first["error"] == {
        "code": -32600,
        "message": "64 searches of this connection are waiting already; wait for one of them first (at most "
        "4 of a connection run at a time)",
        "data": {"error": "refused"},
    }


def test_searches_end_with_the_server(tmp_path: Path) -> None:
    plant(tmp_path, {"a": LINE})
    for number in (signal.SIGTERM, signal.SIGKILL):
        with serving("outfitter", tmp_path / "home") as server:
            wire = Wire(server.url)
            wire.handshake()
            params = {"path": tmp_path.as_uri(), "pattern": ENDLESS, "timeoutMs": 1000}
            wire.request("fs/search", params)
            wait_until(lambda s=server: len(searchers(s)) == 1, "it runs")  # type: ignore[misc]
            running = searchers(server)
            os.kill(server.pid, number)
            server.popen.wait(20)
            wait_gone(running)
            with contextlib.suppress(Exception):
                wire.close()
