"""The same confined command on our server and on the reference, each in a tree of its own: what it could read
and write, and what was left of the tree.

Where ours is stricter on purpose, `STRICTER` says so.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.compare import Peer
from tests.support.contexts import Json, at, glob, managed, restricted, special
from tests.support.machine import wait_until
from tests.support.servers import serving
from tests.support.tools import program
from tests.support.wire import Message

numbers = itertools.count(1)
READ_ALL = special("root")
ROOTS = {"workspaceRoots": ["DIR/ws"], "cwd": "DIR/ws"}

# Says of each file whether it can be read, and tries to make something in each folder.
SCRIPT = """
cd DIR
for file in ws/a.env ws/sub/b.env ws/sub/deep/c.env ws/.hidden.env ws/.git/config other/file link/a.env; do
    /bin/cat "$file" > /dev/null 2>&1 && echo "reads $file"
done
for folder in ws ws/sub ws/sub/deep ws/.git ws/.git/hooks ws/.codex ws/.agents ws/new other other/.git tmp; do
    (/bin/mkdir -p "$folder" && : > "$folder/probe") 2> /dev/null
done
exit 0
"""


def own(path: str, access: str) -> dict[str, Json]:
    return at(f"DIR/{path}", access)


WS = own("ws", "write")
CASES: dict[str, Json] = {
    "read only": restricted(READ_ALL),
    "nothing": restricted(special("minimal")),
    "workspace": restricted(READ_ALL, special("project_roots", "write"), **ROOTS),
    "workspace without roots": restricted(READ_ALL, special("project_roots", "write"), cwd="DIR/ws"),
    "roots of a policy": restricted(
        READ_ALL, special("project_roots", "write"), **ROOTS, policyContext={"workspaceRoots": ["DIR/other"]}
    ),
    "a policy without roots": restricted(
        READ_ALL, special("project_roots", "write"), **ROOTS, policyContext={"cwd": "DIR/ws"}
    ),
    "an alias": restricted(READ_ALL, special("current_working_directory", "write"), **ROOTS),
    "below the roots": restricted(READ_ALL, special("project_roots", "write", subpath="sub"), **ROOTS),
    "out of the roots": restricted(READ_ALL, special("project_roots", "write", subpath="../other"), **ROOTS),
    "around in the roots": restricted(
        READ_ALL, special("project_roots", "write", subpath="sub/../sub"), **ROOTS
    ),
    "elsewhere than the roots": restricted(
        READ_ALL, special("project_roots", "write", subpath="/tmp"), **ROOTS
    ),
    "minimal and a path": restricted(special("minimal"), WS),
    "minimal and paths": restricted(special("minimal"), own("ws/sub", "read"), own("other", "write")),
    "minimal written": restricted(special("minimal", "write"), own("ws", "read")),
    "minimal denied": restricted(READ_ALL, special("minimal", "deny")),
    "root denied": restricted(special("root", "deny"), special("minimal"), own("ws", "read")),
    "everything written": restricted(special("root", "write")),
    "everything but": restricted(special("root", "write"), own("ws", "read")),
    "everything but hidden": restricted(special("root", "write"), own("ws", "deny")),
    "everything, and minimal": restricted(special("root", "write"), special("minimal")),
    "a place of the future": restricted(READ_ALL, special("unknown", "write", path=":future")),
    "git allowed": restricted(READ_ALL, WS, own("ws/.git", "write")),
    "git allowed and read": restricted(READ_ALL, WS, own("ws/.git", "write"), own("ws/.git", "read")),
    "below git allowed": restricted(READ_ALL, WS, own("ws/.git/hooks", "write")),
    "git hidden": restricted(READ_ALL, WS, own("ws/.git", "deny")),
    "a missing name allowed": restricted(READ_ALL, WS, own("ws/.codex", "write")),
    "below a missing name allowed": restricted(READ_ALL, WS, own("ws/.codex/x", "write")),
    "two roots": restricted(READ_ALL, WS, own("other", "write")),
    "a root below a root": restricted(READ_ALL, at("DIR", "write"), own("other", "write")),
    "read-only below": restricted(READ_ALL, WS, own("ws/sub", "read")),
    "read-only below, and not": restricted(READ_ALL, WS, own("ws/sub", "read"), own("ws/sub/deep", "write")),
    "hidden": restricted(READ_ALL, own("ws/sub", "deny")),
    "hidden below a root": restricted(READ_ALL, WS, own("ws/sub", "deny")),
    "a hidden file": restricted(READ_ALL, WS, own("ws/a.env", "deny")),
    "hidden, by the other word": restricted(READ_ALL, own("ws/a.env", "none")),
    "read below hidden": restricted(READ_ALL, own("ws", "deny"), own("ws/sub", "read")),
    "written below hidden": restricted(READ_ALL, own("ws", "deny"), own("ws/sub", "write")),
    "hidden and missing": restricted(READ_ALL, WS, own("ws/new", "deny")),
    "read-only and missing": restricted(READ_ALL, WS, own("ws/new", "read")),
    "read-only and missing, skipped": restricted(
        READ_ALL, WS, {**own("ws/new", "read"), "missing_path_behavior": "skip"}
    ),
    "a missing root": restricted(READ_ALL, own("ws/new", "write")),
    "deny before write": restricted(READ_ALL, WS, own("ws", "deny")),
    "write before read": restricted(READ_ALL, WS, own("ws", "read")),
    "a link to a root": restricted(READ_ALL, own("link", "write")),
    "a link that is hidden": restricted(READ_ALL, own("link/sub", "deny")),
    "protected through a link": restricted(READ_ALL, WS, own("ws/way/deep", "read")),
    "hidden through a link": restricted(READ_ALL, WS, own("ws/way/deep", "deny")),
    "a temporary folder": restricted(READ_ALL, special("tmpdir", "write")),
    "a hidden temporary folder": restricted(READ_ALL, special("tmpdir", "deny")),
    **{
        f"pattern {pattern}": restricted(READ_ALL, glob(pattern), **ROOTS)
        for pattern in (
            *("**/*.env", "PATH/ws/s*/*.env", "PATH/ws/[.a]*.env", "PATH/ws/sub/**", "PATH/ws/a?env"),
            *("PATH/ws/{a,.hidden}*", "codex-project-roots://../other/*", "codex-project-roots:///sub/*"),
            *("../other/*", "PATH/gone/*", "PATH/ws/a.env", "/**/*.env", "PATH/ws/[a.env"),
        )
    },
    **{
        f"pattern to depth {depth}": managed(
            {"type": "restricted", "entries": [READ_ALL, glob("**/*.env")], "glob_scan_max_depth": depth},
            **ROOTS,
        )
        for depth in (1, 2, 3)
    },
    "pattern below a root": restricted(READ_ALL, WS, glob("**/*.env"), **ROOTS),
    "pattern that only reads": restricted(special("minimal"), glob("PATH/ws/**", "read"), **ROOTS),
}
# The reference looks for them in one folder, or with ripgrep at any depth.
NAMES = ("*.env", "PATH/ws/*.env", "PATH/ws/[!a]*.env", "codex-project-roots://*.env")
# A root behind a link that the command could change: the next time it would lead elsewhere.
STRICTER = {
    "a root behind a link": (
        restricted(READ_ALL, WS, own("ws/out", "write")),
        "error building bubblewrap command: Fatal error: cannot enforce sandbox writable path /TREE/ws/out "
        "because it crosses writable symlink /TREE/ws/out\n",
    )
}


def plant(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for name in (
        "ws/a.env",
        "ws/sub/b.env",
        "ws/sub/deep/c.env",
        "ws/.hidden.env",
        "ws/.git/config",
        "other/file",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("content")
    (root / "ws/.git/hooks").mkdir()
    (root / "tmp").mkdir()
    for link, target in (("link", "ws"), ("ws/way", "sub"), ("ws/out", "../other")):
        (root / link).symlink_to(target)


def listing(root: Path) -> list[str]:
    """What is in a tree, but for what the reference leaves in a temporary folder."""
    found = []
    for folder, folders, files in os.walk(root):  # which passes over what goes meanwhile
        found += [os.path.relpath(f"{folder}/{name}", root) for name in (*folders, *files)]
    return sorted([path for path in found if not path.startswith("tmp/codex-bwrap")])


class Side:
    """One server, and its tree."""

    def __init__(self, peer: Peer, root: Path, programs: Path) -> None:
        self.peer = peer
        self.root = root
        self.programs = programs

    def outcome(self, context: Json) -> dict[str, Any]:
        """What the command said and how it ended."""
        plant(self.root)
        process = f"p{next(numbers)}"
        start = {
            "processId": process,
            "argv": ["/bin/sh", "-c", SCRIPT.replace("DIR", str(self.root))],
            "cwd": self.root.as_uri(),
            "env": {"PATH": str(self.programs), "TMPDIR": str(self.root / "tmp")},
            "tty": False,
            "sandbox": json.loads(
                json.dumps(context).replace("DIR", self.root.as_uri()).replace("PATH", str(self.root))
            ),
        }
        answer = self.peer.answer("process/start", start)
        assert "result" in answer, answer
        output, last = self._end(process)
        told = output.replace(str(self.root), "/TREE")
        outcome = {"said": told, "type": answer["result"]["sandboxType"], "exit": last["exitCode"]}
        return {**outcome, "denied": last["sandboxDenied"]}

    def _end(self, process: str) -> tuple[str, Message]:
        output, after = b"", 0
        while True:
            params = {"processId": process, "afterSeq": after, "waitMs": 5000}
            page = self.peer.answer("process/read", params)["result"]
            output += b"".join([base64.b64decode(chunk["chunk"]) for chunk in page["chunks"]])
            after = page["nextSeq"] - 1
            if page["closed"]:
                return output.decode(), page


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    scratch = tmp_path_factory.mktemp("effects")
    # The reference cannot run with its home in a temporary folder.
    env = {"TMPDIR": str(scratch / "temporary")}
    # No ripgrep: the reference finds other files with it.
    programs = scratch / "programs"
    programs.mkdir()
    (programs / "bwrap").symlink_to(program("bwrap"))
    with (
        serving("codex", scratch / "home-1", env=env) as reference,
        serving("outfitter", scratch / "home-2", env=env) as ours,
    ):
        peers = Peer(reference.url), Peer(ours.url)
        both = Side(peers[0], scratch / "tree-1", programs), Side(peers[1], scratch / "tree-2", programs)
        yield both
        for side in both:
            side.peer.close()


@pytest.mark.parametrize("case", CASES)
def test_a_profile_has_the_same_effect(sides: tuple[Side, Side], case: str) -> None:
    theirs, ours = [side.outcome(CASES[case]) for side in sides]
    assert ours == theirs
    # What stood in the place of a missing name goes after the command.
    reference, subject = [side.root for side in sides]
    with contextlib.suppress(AssertionError):
        wait_until(lambda: listing(subject) == listing(reference), "the same files are left")
    assert listing(subject) == listing(reference)


def test_what_a_link_leads_to_is_seen_by_its_own_name_too(sides: tuple[Side, Side]) -> None:
    context = restricted(special("minimal"), own("link", "read"))
    theirs, ours = [side.outcome(context)["said"].splitlines() for side in sides]
    assert theirs == ["reads link/a.env"]
    assert set(ours) > set(theirs)
    assert not [line for line in ours if "other" in line]


@pytest.mark.parametrize("pattern", NAMES)
def test_a_single_name_is_hidden_at_any_depth(sides: tuple[Side, Side], pattern: str) -> None:
    context = restricted(READ_ALL, glob(pattern), **ROOTS)
    theirs, ours = [set(side.outcome(context)["said"].splitlines()) for side in sides]
    assert theirs > ours
    assert {"reads ws/sub/b.env", "reads ws/sub/deep/c.env"} == theirs - ours


@pytest.mark.parametrize("case", STRICTER)
def test_ours_refuses_what_could_be_turned(sides: tuple[Side, Side], case: str) -> None:
    context, text = STRICTER[case]
    theirs, ours = [side.outcome(context) for side in sides]
    assert theirs["exit"] == 0
    assert (ours["exit"], ours["said"], ours["denied"]) == (1, text, True)
