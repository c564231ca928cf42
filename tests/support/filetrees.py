"""A small tree with one of everything, and requests about it, for the differential tests of fs/*.

In requests DIR stands for the URI of the tree; two servers get two trees that were planted alike.
"""

from __future__ import annotations

import os
import shutil
import stat
from itertools import product
from pathlib import Path
from typing import Any

from .cases import FLAG, MISSING, STRING, UNSIGNED, WHOLE
from .machine import leave_socket
from .wire import b64

Request = tuple[str, dict[str, Any]]  # method and params, whatever JSON holds

PLANTED_SECONDS = 1_600_000_000
LONG_NAME = "n" * 255

# What requests are about, relative to the tree; as parts of a URI.
PATHS = [
    "", "a.txt", "empty", "exec", "ln", "d", "d/x", "d/sub", "dl", "dl/x", "dl/sub", "h1", "fifo",
    "sock", "null", "broken", "deep-broken", "loop", "loop/x", "thru", "zz", "zz/x", "zz/y/z", "a.txt/b",
    "ln/b", "sp%20ace%25%3F", "%C3%BCmlaut", "%FF", "%FF/in", LONG_NAME, LONG_NAME + "n", "d%2Fx",
    "back%5Cslash", "no-read",
]  # fmt: skip
# Written by reference and ours alike only where nobody waits for ever: not FIFOs (19 #36).
WRITABLE = [path for path in PATHS if path != "fifo"]


def plant(root: Path) -> None:
    """Makes the tree, in place of what is there."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root / "a.txt").write_bytes(b"hello")
    (root / "empty").touch()
    (root / "exec").write_bytes(b"#!/bin/sh\n")
    (root / "exec").chmod(0o4751)
    (root / "d/.hid/in").mkdir(parents=True)
    (root / "d/sub").mkdir()
    (root / "d/x").write_bytes(b"x")
    (root / "d/to-x").symlink_to("x")
    (root / "ln").symlink_to("a.txt")
    (root / "dl").symlink_to("d")
    (root / "h1").write_bytes(b"hard")
    (root / "h2").hardlink_to(root / "h1")
    os.mkfifo(root / "fifo")
    leave_socket(root / "sock")
    (root / "null").symlink_to("/dev/null")
    (root / "broken").symlink_to("nowhere")
    (root / "deep-broken").symlink_to("no/where")
    (root / "loop").symlink_to("loop")
    (root / "thru").symlink_to("a.txt/x")
    (root / "sp ace%?").mkdir()
    (root / "ümlaut").write_bytes(b"u")
    (root / "back\\slash").write_bytes(b"b")
    (root / LONG_NAME).write_bytes(b"long")
    (root / "no-read").write_bytes(b"no")
    (root / "no-read").chmod(0)
    os.mkdir(os.fsencode(root) + b"/\xff")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff/in")).write_bytes(b"in")
    (root / "odd").mkdir()
    Path(os.fsdecode(os.fsencode(root) + b"/odd/\xfe")).write_bytes(b"odd")
    (root / "private").mkdir(0o700)
    (root / "private/key").write_bytes(b"key")
    (root / "private/key").chmod(0o600)
    (root / "mixed").mkdir()
    (root / "mixed/one").write_bytes(b"1")
    os.mkfifo(root / "mixed/pipe")
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*folders, *files, "."):
            os.utime(os.path.join(folder, name), (PLANTED_SECONDS,) * 2, follow_symlinks=False)


def snapshot(root: Path) -> dict[str, str]:
    """What the tree is: path → kind, mode, and content or target."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found[ascii(os.path.relpath(path, root))[1:-1]] = described(path)
    return found


def described(path: str) -> str:
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return f"link {os.readlink(path)}"
    if stat.S_ISDIR(found.st_mode):
        return f"directory {mode:o}"
    if stat.S_ISREG(found.st_mode):
        content = Path(path).read_bytes()
        shown = repr(content) if len(content) < 100 else f"{len(content)} bytes, {hash(content)}"
        return f"file {mode:o} {shown}"
    return f"special {found.st_mode:o}"


# Requests about one path


def uri(path: str) -> str:
    return f"DIR/{path}" if path else "DIR"


def flags(**choices: tuple[Any, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Every combination: its name and its members; an Ellipsis leaves the member out."""
    combined = []
    for values in product(*choices.values()):
        given = {name: value for name, value in zip(choices, values, strict=True) if value is not ...}
        combined.append((" ".join(f"{name}={value}" for name, value in given.items()), given))
    return combined


def about_one_path() -> dict[str, list[Request]]:
    """Case → its requests."""
    cases: dict[str, list[Request]] = {}

    def add(method: str, paths: list[str], *, more: dict[str, Any] | None = None, **choices: Any) -> None:
        for path, (name, members) in product(paths, flags(**choices)):
            params = {"path": uri(path), **(more or {}), **members}
            shown = path if len(path) < 60 else f"{path[:3]}...({len(path)})"
            cases[f"{method} `{shown}` {name}".strip()] = [(f"fs/{method}", params)]

    follow = (..., False, None)
    add("readFile", PATHS, followSymlinks=follow)
    add("getMetadata", PATHS, followSymlinks=follow)
    add("canonicalize", PATHS)
    add("readDirectory", PATHS)
    add("writeFile", WRITABLE, more={"dataBase64": b64(b"new content")}, followSymlinks=(...,))
    add("writeFile", PATHS, more={"dataBase64": b64(b"new content")}, followSymlinks=(False,))
    add("writeFile", ["a.txt", "new"], more={"dataBase64": ""}, followSymlinks=(..., True, None))
    add("createDirectory", PATHS, recursive=(..., False), followSymlinks=(..., False))
    add("createDirectory", ["zz/x"], recursive=(None, True), followSymlinks=(None, True))
    add("remove", PATHS[1:], recursive=(..., False), force=(..., False))
    add("remove", PATHS[1:], recursive=(False,), force=(..., False), followSymlinks=(False,))
    add("remove", ["d"], recursive=(None,), force=(None,), followSymlinks=(None,))
    walk = {"maxDepth": 9, "maxDirectories": 99, "maxEntries": 999}
    for path, follows in product(PATHS, (False, True)):
        if path == "":
            continue  # a name that is not UTF-8 is in there (19 #26)
        options = {**walk, "followDirectorySymlinks": follows}
        shown = path if len(path) < 60 else f"{path[:3]}...({len(path)})"
        cases[f"walk `{shown}` follow={follows}"] = [("fs/walk", {"path": uri(path), "options": options})]
    return cases


# Copies


SOURCES = [
    "a.txt",
    "exec",
    "ln",
    "d",
    "dl",
    "fifo",
    "sock",
    "broken",
    "loop",
    "zz",
    "h1",
    "null",
    "no-read",
]
DESTINATIONS = [
    "new", "zz/new", "a.txt", "ln", "d", "d/sub", "d/x", "d/sub/new/newer", "dl", "dl/new", "h1", "h2",
    "exec", "broken", "deep-broken", "loop", "a.txt/b", "%FF", "", "null", "sock",
]  # fmt: skip


def copies() -> dict[str, list[Request]]:
    return {
        f"copy `{source}` `{destination}` recursive={recursive}": [
            (
                "fs/copy",
                {"sourcePath": uri(source), "destinationPath": uri(destination), "recursive": recursive},
            )
        ]
        for source, destination, recursive in product(SOURCES, DESTINATIONS, (False, True))
    }


# Handles


def handles() -> dict[str, list[Request]]:
    """Opening everything; a little story of each that opens."""
    cases: dict[str, list[Request]] = {}
    for path in PATHS:
        shown = path if len(path) < 60 else f"{path[:3]}...({len(path)})"
        opened = ("fs/open", {"handleId": "h", "path": uri(path)})
        cases[f"open `{shown}` read"] = [
            opened,
            opened,
            ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 3}),
            ("fs/readBlock", {"handleId": "h", "offset": 1, "len": 1 << 20}),
            ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": b64(b"no")}),
            ("fs/readBlock", {"handleId": "h", "offset": 3, "len": 2}),
            ("fs/close", {"handleId": "h"}),
            ("fs/close", {"handleId": "h"}),
            ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1}),
        ]
        cases[f"open `{shown}` replace"] = [
            ("fs/open", {"handleId": "w", "path": uri(path), "mode": "replace"}),
            ("fs/writeBlock", {"handleId": "w", "offset": 4, "chunk": b64(b"4567")}),
            ("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"012")}),
            ("fs/writeBlock", {"handleId": "w", "offset": 5, "chunk": b64(b"X")}),
            ("fs/close", {"handleId": "w"}),
            ("fs/readFile", {"path": uri(path)}),
        ]
        cases[f"open `{shown}` replace, nothing written"] = [
            ("fs/open", {"handleId": "w", "path": uri(path), "mode": "replace"}),
            ("fs/close", {"handleId": "w"}),
        ]
    return cases


# Where ours is better on purpose: every one of these is in differences.FILES


DIFFERENT: dict[str, list[Request]] = {
    "walk over a name that is not UTF-8": [
        (
            "fs/walk",
            {
                "path": "DIR/odd",
                "options": {
                    "maxDepth": 9,
                    "maxDirectories": 9,
                    "maxEntries": 9,
                    "followDirectorySymlinks": False,
                },
            },
        )
    ],
    "removal of a file that follows no link": [("fs/remove", {"path": "DIR/a.txt", "followSymlinks": False})],
    "removal of a folder that follows no link": [
        ("fs/remove", {"path": "DIR/private", "followSymlinks": False, "recursive": True})
    ],
    "removal of nothing that follows no link": [("fs/remove", {"path": "DIR/zz", "followSymlinks": False})],
    "removal of a link that follows no link": [("fs/remove", {"path": "DIR/ln", "followSymlinks": False})],
    "removal through a link that follows no link": [
        ("fs/remove", {"path": "DIR/dl/x", "followSymlinks": False})
    ],
    "copy of a private folder": [
        ("fs/copy", {"sourcePath": "DIR/private", "destinationPath": "DIR/new", "recursive": True})
    ],
    "replacement before its end": [
        ("fs/open", {"handleId": "w", "path": "DIR/a.txt", "mode": "replace"}),
        ("fs/readFile", {"path": "DIR/a.txt"}),
        ("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"new")}),
        ("fs/readFile", {"path": "DIR/a.txt"}),
        ("fs/close", {"handleId": "w"}),
        ("fs/readFile", {"path": "DIR/a.txt"}),
    ],
    "replacement that was read": [  # which ends its handle
        ("fs/open", {"handleId": "w", "path": "DIR/a.txt", "mode": "replace"}),
        ("fs/readBlock", {"handleId": "w", "offset": 0, "len": 1}),
        ("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"new")}),
        ("fs/close", {"handleId": "w"}),
        ("fs/readFile", {"path": "DIR/a.txt"}),
    ],
    "replacement given up": [  # a member that the reference ignores
        ("fs/open", {"handleId": "w", "path": "DIR/a.txt", "mode": "replace"}),
        ("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"new")}),
        ("fs/close", {"handleId": "w", "discard": True}),
        ("fs/readFile", {"path": "DIR/a.txt"}),
    ],
}


# Parameters: for each method, base values and what replaces one member at a time. All JSON text.


BASES: dict[str, dict[str, str]] = {
    "fs/readFile": {"path": '"DIR/a.txt"'},
    "fs/writeFile": {"path": '"DIR/a.txt"', "dataBase64": '"aGVsbG8="'},
    "fs/createDirectory": {"path": '"DIR/d"'},
    "fs/canonicalize": {"path": '"DIR/ln"'},
    "fs/readDirectory": {"path": '"DIR/d/sub"'},
    "fs/remove": {"path": '"DIR/zz"'},
    "fs/copy": {"sourcePath": '"DIR/zz"', "destinationPath": '"DIR/new"', "recursive": "true"},
    "fs/walk": {
        "path": '"DIR/d"',
        "options": '{"maxDepth":1,"maxDirectories":2,"maxEntries":3,"followDirectorySymlinks":false}',
    },
    "fs/open": {"handleId": '"none"', "path": '"DIR/zz"'},
    "fs/readBlock": {"handleId": '"none"', "offset": "0", "len": "1"},
    "fs/writeBlock": {"handleId": '"none"', "offset": "0", "chunk": '"YQ=="'},
    "fs/close": {"handleId": '"none"'},
}
PATH = [*STRING, '"x"', '"file:///C:/x"', '"file://host/x"', '"DIR/a%00b"', '"DIR/a?b"', '"DIR/a#b"']
NULLABLE_FLAG = [MISSING, "null", "false", "0", '"true"', "[]"]
SANDBOX = [
    "null", "{}", "5", '"x"', '{"permissions":{"type":"disabled"}}',
    '{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}',
    '{"permissions":{"type":"disabled"},"windowsSandboxLevel":"none"}',
    '{"permissions":{"type":"external"},"windowsSandboxLevel":"disabled"}',
    '{"permissions":{"type":"external","network":"enabled"},"windowsSandboxLevel":"disabled"}',
    '{"permissions":{"type":"managed"},"windowsSandboxLevel":"disabled"}',
    '{"permissions":{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"},'
    '"windowsSandboxLevel":"disabled"}',
    '{"permissions":{"type":"other"},"windowsSandboxLevel":"disabled"}',
]  # fmt: skip
OPTIONS = BASES["fs/walk"]["options"]
REPLACED: dict[str, dict[str, list[str]]] = {
    "fs/readFile": {"path": PATH, "followSymlinks": NULLABLE_FLAG, "sandbox": SANDBOX, "x": ["1"]},
    "fs/writeFile": {
        "path": PATH,
        "dataBase64": [*STRING, *(f'"{text}"' for text in ("*", "YQ", "YQ=", "YR==", "Y===", "=", "YWI= "))],
        "followSymlinks": NULLABLE_FLAG,
        "sandbox": SANDBOX,
    },
    "fs/createDirectory": {
        "path": PATH,
        "recursive": NULLABLE_FLAG,
        "followSymlinks": NULLABLE_FLAG,
        "sandbox": SANDBOX,
    },
    "fs/canonicalize": {"path": PATH, "sandbox": SANDBOX},
    "fs/readDirectory": {"path": PATH, "sandbox": SANDBOX},
    "fs/remove": {"path": PATH, "recursive": NULLABLE_FLAG, "force": NULLABLE_FLAG, "sandbox": SANDBOX},
    "fs/copy": {
        "sourcePath": PATH,
        "destinationPath": PATH,
        "recursive": [*FLAG, "false"],
        "sandbox": SANDBOX,
    },
    "fs/walk": {
        "path": PATH,
        "sandbox": SANDBOX,
        "options": [
            MISSING, "null", "{}", "5", OPTIONS,
            *(OPTIONS.replace(old, new) for old, new in (
                ('"maxDepth":1,', ""), ('"maxDepth":1', '"maxDepth":null'), ('"maxDepth":1', '"maxDepth":-1'),
                ('"maxDepth":1', '"maxDepth":1.0'), ('"maxDepth":1', '"maxDepth":"1"'),
                ('"maxDepth":1', '"maxDepth":64'), ('"maxDepth":1', '"maxDepth":65'),
                ('"maxDepth":1', '"maxDepth":18446744073709551616'),
                ('"maxDirectories":2', '"maxDirectories":0'), ('"maxDirectories":2,', ""),
                ('"maxDirectories":2', '"maxDirectories":10000'),
                ('"maxDirectories":2', '"maxDirectories":10001'), ('"maxEntries":3', '"maxEntries":0'),
                ('"maxEntries":3', '"maxEntries":50000'), ('"maxEntries":3', '"maxEntries":50001'),
                ('"maxEntries":3,', ""), (',"followDirectorySymlinks":false', ""),
                ('"followDirectorySymlinks":false', '"followDirectorySymlinks":null'),
                ("false}", 'false,"pruneHiddenDirectories":null}'),
                ("false}", 'false,"pruneHiddenDirectories":0}'),
                ("false}", 'false,"pruneHiddenDirectories":true}'), ("false}", 'false,"x":{}}'),
            )),
        ],
    },
    "fs/open": {
        "handleId": [*STRING, '"' + "x" * 32 + '"', '"' + "x" * 33 + '"', '"' + "é" * 16 + '"',
        '"' + "é" * 17 + '"'],
        "path": PATH,
        "mode": [MISSING, "null", '"read"', '"Read"', '"append"', '{"read":null}', '{"read":1}', "5", "[]"],
        "sandbox": SANDBOX,
    },
    "fs/readBlock": {"handleId": STRING, "offset": UNSIGNED, "len": [*UNSIGNED, "1048576", "1048577"]},
    "fs/writeBlock": {
        "handleId": STRING,
        "offset": [*UNSIGNED, "9223372036854775806", "9223372036854775807"],
        "chunk": [*STRING, '"*"', '"YQ"'],
    },
    "fs/close": {"handleId": STRING, "discard": ["null", "false", "5"], "x": ["{}"]},
}  # fmt: skip


def parameters() -> dict[str, tuple[str, str]]:
    """Name of the case → method and params text."""
    cases = {}
    for method, members in REPLACED.items():
        for whole in WHOLE:
            cases[f"{method} params {whole}"] = (method, whole)
        for member, replacements in members.items():
            for text in replacements:
                params = {**BASES[method], member: text}
                joined = ",".join(f'"{name}":{value}' for name, value in params.items() if value != MISSING)
                cases[f"{method} {member} {text}"] = (method, "{" + joined + "}")
    return cases
