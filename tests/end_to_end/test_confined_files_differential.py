"""The same file requests under the same sandbox to our server and to the reference, each in its own tree.

Codes and words are compared, and what becomes of the trees. Where we differ on purpose, a row says how.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.compare import Peer
from tests.support.differences import without_error_data
from tests.support.filetrees import snapshot
from tests.support.profiles import at, context, hidden, read_only, special, workspace_write
from tests.support.servers import serving
from tests.support.wire import Message, b64

DONE: Message = {}
READ_ONLY = [-32603, "Read-only file system (os error 30)"]
MISSING = [-32004, "No such file or directory (os error 2)"]
DENIED = [-32600, "Permission denied (os error 13)"]
BUSY = [-32603, "Resource busy (os error 16)"]

# Requests by a short name; the last word is the path below DIR, two words for a copy.
REQUESTS: dict[str, tuple[str, Message]] = {
    "read": ("fs/readFile", {}),
    "read no links": ("fs/readFile", {"followSymlinks": False}),
    "stat": ("fs/getMetadata", {}),
    "stat no links": ("fs/getMetadata", {"followSymlinks": False}),
    "list": ("fs/readDirectory", {}),
    "real": ("fs/canonicalize", {}),
    "walk": (
        "fs/walk",
        {
            "options": {
                "maxDepth": 8,
                "maxDirectories": 99,
                "maxEntries": 999,
                "followDirectorySymlinks": False,
            }
        },
    ),
    "write": ("fs/writeFile", {"dataBase64": b64(b"new")}),
    "write no links": ("fs/writeFile", {"dataBase64": b64(b"new"), "followSymlinks": False}),
    "mkdir": ("fs/createDirectory", {"recursive": False}),
    "mkdir -p": ("fs/createDirectory", {"recursive": True}),
    "rm": ("fs/remove", {"recursive": True, "force": False}),
    "rm -f": ("fs/remove", {"recursive": True, "force": True}),
    "open": ("fs/open", {"handleId": "h"}),
    "replace": ("fs/open", {"handleId": "h", "mode": "replace"}),
    "copy": ("fs/copy", {"recursive": True}),
}

# What is the same, by profile.
SAME: dict[str, list[str]] = {
    "read-only": [
        "read WORK/file", "read WORK/none", "read WORK/to-outside", "read WORK/sub", "read WORK/fifo",
        "stat WORK/file", "list WORK", "walk WORK", "real WORK/to-file", "open WORK/file", "write WORK/file",
        "write WORK/new", "write WORK/none/new", "write WORK/sub", "mkdir WORK/new", "mkdir -p WORK/new/er",
        "mkdir WORK/sub", "mkdir -p WORK/sub", "mkdir -p WORK/file", "rm WORK/file", "rm WORK/sub", "rm WORK",
        "rm WORK/none", "rm -f WORK/none", "rm WORK/to-file", "replace WORK/file", "copy WORK/file WORK/copy",
        "copy WORK/sub WORK/copy", "copy WORK/to-file WORK/copy", "copy WORK/none WORK/copy",
    ],
    "workspace-write": [
        "write WORK/file", "write WORK/new", "write WORK/to-file", "write WORK/to-outside",
        "write WORK/to-folder/new", "write WORK/dangling", "write WORK/dangling-in", "write OUT/file",
        "write OUT/new", "write WORK/.git/config", "write WORK/.git/new", "write WORK/.codex/new",
        "write WORK/sub", "mkdir WORK/new", "mkdir -p WORK/new/er", "mkdir OUT/new", "mkdir WORK/.git",
        "mkdir -p WORK/.git", "mkdir WORK/.codex", "mkdir -p WORK/.codex/new", "mkdir WORK/.git/new",
        "rm WORK/file", "rm WORK/sub", "rm WORK/to-folder", "rm WORK/.git", "rm WORK/.git/config", "rm WORK",
        "rm OUT/file", "copy WORK/file WORK/.git/new", "copy WORK/sub WORK/.codex",
        "copy WORK/.git WORK/copy", "copy OUT WORK/copy", "copy WORK/sub OUT/copy", "copy WORK/file OUT/copy",
        "copy WORK/sub WORK/sub/in",
        "copy WORK/to-outside WORK/copy", "replace WORK/.git/config", "replace WORK/new", "stat WORK/.codex",
        "list WORK", "read no links WORK/to-file", "read no links WORK/to-folder/file",
        "stat no links WORK/to-file", "stat no links WORK/to-folder/file", "write no links WORK/to-file",
        "write no links WORK/to-folder/file", "write no links OUT/new", "write no links WORK/.git/new",
    ],
    "deny": [
        "read WORK/secret/key", "read WORK/secret", "read WORK/token", "read WORK/to-token",
        "stat WORK/secret/key", "stat WORK/secret/none", "list WORK/secret", "real WORK/secret",
        "real WORK/token", "real WORK/secret/key", "write WORK/token", "write WORK/secret/key",
        "write WORK/secret/new", "mkdir -p WORK/secret", "mkdir WORK/secret", "mkdir -p WORK/secret/new",
        "rm WORK/secret", "rm WORK/token", "copy WORK/token WORK/copy", "copy WORK/secret WORK/copy",
        "copy WORK/file WORK/token", "open WORK/token", "replace WORK/token", "read no links WORK/token",
        "read no links WORK/secret/key", "write no links WORK/token", "read WORK/file", "write WORK/new",
    ],
    "deny with a way": [
        "read WORK/secret/key", "list WORK/secret", "stat WORK/secret/key", "read WORK/secret/open/file",
        "write WORK/secret/open/file", "write WORK/secret/open/new", "write WORK/secret/new",
        "rm WORK/secret",
    ],
    "globs": [
        "read WORK/top.env", "read WORK/sub/in.env", "read WORK/file", "write WORK/new.env",
        "write WORK/top.env", "copy WORK/sub WORK/copy", "rm WORK/sub", "rm WORK/top.env",
    ],
    "parts": [
        "read WORK/file", "write WORK/file", "read OUT/file", "read WORK/to-outside", "stat OUT",
        "stat OUT/file", "stat WORK/to-outside", "rm OUT/file", "rm -f OUT/file", "copy OUT/file WORK/copy",
        "copy WORK/file OUT/copy", "real OUT/file", "real WORK/to-outside", "write WORK/to-outside",
        "write OUT/new", "read no links WORK/to-file", "read no links OUT/file",
        "write no links OUT/file", "read no links WORK/to-folder/file", "write WORK/.git/new",
    ],
    "read parts": [
        "read WORK/file", "write WORK/file", "list WORK", "walk WORK", "read WORK/to-file",
        "write WORK/sub/new", "read WORK/sub/in.env", "rm WORK/file",
    ],
    "nothing": ["read WORK/file", "write WORK/file", "stat WORK", "list WORK", "walk WORK", "rm WORK/file"],
    "root write": [
        "write OUT/new", "write WORK/sub/file", "read WORK/secret/key", "write WORK/.git/config",
        "rm WORK/sub", "rm WORK/secret", "rm WORK/file",
    ],
    "a root that is a link": ["write WORK/to-folder/new", "write OUT/other", "write WORK/new",
        "read WORK/to-folder/file"],
}  # fmt: skip

# What differs: the profile, the request, the reference's answer and ours.
DIFFERENT: list[tuple[str, str, Any, Any, str]] = [
    ("workspace-write", "mkdir -p WORK/.codex", DONE, READ_ONLY, "nothing was made: we say so"),
    ("workspace-write", "rm WORK/.codex", BUSY, MISSING, "no mask is there"),
    ("deny", "read WORK/denied-none", {"dataBase64": ""}, MISSING, "no mask is there"),
    ("globs", "read WORK/link.env", {"dataBase64": b64(b"text")}, DENIED, "a link that matches is masked"),
    ("parts", "write TOP/new", DONE, READ_ONLY, "what the reference writes there is lost"),
    ("read parts", "write WORK/new", DONE, READ_ONLY, "the same"),
    ("read parts", "mkdir WORK/new", DONE, READ_ONLY, "the same"),
]


def profiles(work: Path, out: Path) -> dict[str, Message]:
    whole, secret = special("root", "read"), at(work / "secret", "deny")
    denied = [at(work / "token", "deny"), at(work / "denied-none", "deny")]
    return {
        "nothing": context(),
        "read-only": read_only(work),
        "workspace-write": workspace_write(work),
        "deny": workspace_write(work, secret, *denied),
        "deny with a way": context(whole, at(work, "write"), secret, at(work / "secret" / "open", "write")),
        "globs": context(whole, at(work, "write"), hidden("**/*.env"), cwd=work),
        "parts": context(special("minimal", "read"), at(work, "write")),
        "read parts": context(
            special("minimal", "read"), at(work / "sub", "read"), at(work / "file", "read")
        ),
        "root write": context(special("root", "write"), at(work / "sub", "read"), secret),
        "a root that is a link": context(whole, at(work / "to-folder", "write")),
    }


def plant(root: Path) -> None:
    work, out = root / "work", root / "out"
    for name in ("file", "token", ".git/config", "sub/file", "secret/key", "secret/open/file"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("text")
    for name in ("top.env", "sub/in.env"):
        (work / name).write_text("key")
    out.mkdir()
    (out / "file").write_text("outside")
    for name, target in {
        "to-file": "file", "to-outside": str(out / "file"), "to-folder": str(out), "to-token": "token",
        "dangling": str(out / "none"), "dangling-in": "sub/none", "link.env": "file",
    }.items():  # fmt: skip
        (work / name).symlink_to(target)
    os.mkfifo(work / "fifo")


class Side:
    """One server, and a tree that is planted anew for each request."""

    def __init__(self, peer: Peer, scratch: Path) -> None:
        self.peer = peer
        self.scratch = scratch
        self.number = 0

    def outcome(self, profile: str, request: str) -> Any:
        """The answer, and the names that are there then."""
        self.number += 1
        root = self.scratch / f"{self.number:04}"
        root.mkdir(parents=True)
        plant(root)
        before = snapshot(root)
        words, *paths = next(
            (name, *request.removeprefix(f"{name} ").split())
            for name in sorted(REQUESTS, key=len, reverse=True)
            if request.startswith(f"{name} ")
        )
        method, params = REQUESTS[words]
        where = {"WORK": root / "work", "OUT": root / "out", "TOP": root}
        uris = [(where[path.split("/")[0]] / "/".join(path.split("/")[1:])).as_uri() for path in paths]
        names = ("sourcePath", "destinationPath") if method == "fs/copy" else ("path",)
        sandbox = profiles(root / "work", root / "out")[profile]
        answer = self.peer.answer(
            method, {**params, **dict(zip(names, uris, strict=True)), "sandbox": sandbox}
        )
        self.peer.answer("fs/close", {"handleId": "h"})
        after = snapshot(root)
        changed = {
            name: after[name].replace(str(root), "/TREE") for name in after if before.get(name) != after[name]
        }
        return self.shape(root, answer), changed, sorted(before.keys() - after.keys())

    def shape(self, root: Path, answer: Message) -> Any:
        answer = json.loads(json.dumps(answer).replace(str(root), "/TREE"))
        if "error" in answer:
            error = without_error_data(answer["error"])
            return [error["code"], error["message"]]
        result = answer["result"]
        for entry in result.get("entries", ()):
            entry.pop("uri", None)
        if "entries" in result:
            result["entries"].sort(key=str)
        return {name: value for name, value in result.items() if name not in TIMES}


TIMES = ("createdAtMs", "modifiedAtMs", "mode")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    scratch = Path(tmp_path_factory.mktemp("confined")).resolve()
    # The reference finds its helper only if its home is not below the temporary folder.
    (scratch / "tmp").mkdir()
    env = {"TMPDIR": str(scratch / "tmp")}
    with (
        serving("codex", scratch / "home-1", env=env) as theirs,
        serving("outfitter", scratch / "home-2", env=env) as ours,
    ):
        both = Side(Peer(theirs.url), scratch / "tree-1"), Side(Peer(ours.url), scratch / "tree-2")
        yield both
        for side in both:
            side.peer.close()


@pytest.mark.parametrize("profile", SAME)
def test_answers_and_files_are_the_references(sides: tuple[Side, Side], profile: str) -> None:
    theirs, ours = sides
    for request in SAME[profile]:
        answer, *changed = ours.outcome(profile, request)
        expected, *their_changes = theirs.outcome(profile, request)
        assert (request, answer) == (request, expected)
        if not isinstance(answer, list):
            assert (request, changed) == (request, their_changes)
        elif not request.startswith("copy "):
            # What is refused changes nothing; the reference removes what comes before.
            assert (request, changed) == (request, [{}, []])


@pytest.mark.parametrize(("profile", "request_", "their", "our", "why"), DIFFERENT)
def test_a_difference_is_as_it_is_listed(
    sides: tuple[Side, Side], profile: str, request_: str, their: Any, our: Any, why: str
) -> None:
    theirs, ours = sides
    assert (theirs.outcome(profile, request_)[0], ours.outcome(profile, request_)[0]) == (their, our), why
