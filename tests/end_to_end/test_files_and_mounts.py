"""Random trees with links under random rules: a file request gets what a command in the same sandbox gets.

The command runs in bubblewrap, where mounts decide; file requests are decided in the server. Both look at
every path by every name, and must agree on what may be read and written, and on what is said if not.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.profiles import at, context, special
from tests.support.servers import serving
from tests.support.wire import Message, Wire, b64

TREES = 12  # in one sandbox: each has rules of its own, and links into others

# What a command can do with each path: nothing is left behind.
PROBE = """
import errno, json, os, sys
def told(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def read(path):
    if os.path.isdir(path):
        os.listdir(path)
    else:
        os.close(os.open(path, os.O_RDONLY))
def write(path):
    if os.path.isdir(path):
        os.mkdir(path + "/probed")
        os.rmdir(path + "/probed")
    else:
        os.close(os.open(path, os.O_WRONLY))
paths = json.loads(sys.stdin.read())
json.dump([[told(lambda: read(path)), told(lambda: write(path))] for path in paths], sys.stdout)
"""


class Forest:
    """Trees below a folder: folders, files, links; and rules for some of it."""

    def __init__(self, root: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self.root = root
        self.paths: list[Path] = []
        self.entries: list[Message] = []
        for number in range(TREES):
            self._grow(root / f"tree{number}")
        for path in self._random.sample(self.paths, 2 * TREES):
            self._link(path)
        for number in range(TREES):
            self._rule(root / f"tree{number}")

    def _grow(self, path: Path, depth: int = 0) -> None:
        path.mkdir(parents=True)
        self.paths.append(path)
        (path / "file").write_text("text")
        self.paths.append(path / "file")
        for name in self._random.sample(["a", "b", ".git", ".codex"], self._random.randint(1, 3)):
            if depth < 3:
                self._grow(path / name, depth + 1)

    def _link(self, path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        target = self._random.choice(self.paths)
        told = target if self._random.random() < 0.5 else Path(os.path.relpath(target, folder))
        link = folder / f"link{len(self.paths)}"
        link.symlink_to(told)
        self.paths.append(link)
        self.paths.append(link / "file")

    def _rule(self, tree: Path) -> None:
        """Rules are for real paths: one that leads through a link of a command's own is refused."""
        own = [path for path in self.paths if path.is_relative_to(tree) and not has_link(path)]
        for path in self._random.sample(own, min(len(own), self._random.randint(1, 4))):
            self.entries.append(at(path, self._random.choice(["read", "write", "write", "deny"])))

    def names(self) -> list[str]:
        """Every path, and one that is missing in each folder."""
        missing = [path / "missing" for path in self.paths if not path.is_symlink() and path.is_dir()]
        return [str(path) for path in (*self.paths, *missing)]


def has_link(path: Path) -> bool:
    return path.resolve() != path


class Requests:
    """The same by file requests."""

    def __init__(self, wire: Wire, sandbox: Message) -> None:
        self.wire = wire
        self.sandbox = sandbox

    def told(self, method: str, path: str, **params: object) -> str:
        uri = Path(path).as_uri()
        answer = self.wire.answer(self.wire.request(method, {"path": uri, **params, "sandbox": self.sandbox}))
        if "result" in answer:
            return "done"
        number = re.fullmatch(r".* \(os error (\d+)\)", answer["error"]["message"])
        assert number is not None, (method, path, answer)
        return errno.errorcode[int(number[1])]

    def is_folder(self, path: str) -> bool:
        params = {"path": Path(path).as_uri(), "sandbox": self.sandbox}
        answer = self.wire.answer(self.wire.request("fs/getMetadata", params))
        return "result" in answer and bool(answer["result"]["isDirectory"])

    def probe(self, path: str) -> list[str]:
        if self.is_folder(path):
            made = self.told("fs/createDirectory", f"{path}/probed", recursive=False)
            if made == "done":
                assert self.told("fs/remove", f"{path}/probed") == "done"
            return [self.told("fs/readDirectory", path), made]
        read = self.told("fs/open", path, handleId="r")
        # As without O_CREAT: what is missing is not made.
        if read == "ENOENT":
            return [read, read]
        write = self.told("fs/open", path, handleId="w", mode="update")
        for ident in ("r", "w"):
            self.wire.call("fs/close", {"handleId": ident})
        return [read, write]


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with serving("outfitter", tmp_path_factory.mktemp("home")) as server:
        wire = Wire(server.url)
        wire.handshake()
        yield wire
        wire.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", ["all may be read", "nothing may be seen"])
def test_a_file_request_gets_what_a_command_gets(wire: Wire, tmp_path: Path, base: str, seed: int) -> None:
    forest = Forest(tmp_path.resolve() / "forest", seed)
    python = os.path.realpath(sys.executable)
    whole = [special("root", "read")]
    parts = [special("minimal", "read"), at(Path(python).parent.parent, "read")]
    sandbox = context(*(whole if base == "all may be read" else parts), *forest.entries)
    names = forest.names()
    ident = f"{base} {seed}"
    wire.start(ident, [python, "-I", "-S", "-c", PROBE], sandbox=sandbox, pipeStdin=True, cwd="file:///")
    told = {"processId": ident, "writeId": "1", "chunk": b64(json.dumps(names).encode()), "eof": True}
    wire.call("process/write", told)
    wire.closed(ident)
    assert wire.exit_code(ident) == 0, wire.output(ident)
    inside = dict(zip(names, json.loads(wire.output(ident, "stdout")), strict=True))
    requests = Requests(wire, sandbox)
    asked = {name: requests.probe(name) for name in names}
    assert {name: (inside[name], asked[name]) for name in names if inside[name] != asked[name]} == {}
    # Each kind of answer occurs: the rules say something.
    assert {told for one in inside.values() for told in one} >= {"done", "ENOENT", "EROFS"}
