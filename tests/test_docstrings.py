"""Every public class, method and function has an example in its docstring, and each example runs.

One real server is behind all of them. The programs that they run are short scripts in its PATH. A comment
behind a `print` is what it prints.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import sync
from outfitter.client import answers, files, http, openfile, reader, watch
from outfitter.client.commands import Starting
from outfitter.pool.plain import PlainLease
from outfitter.protocol.session import EnvironmentInfo
from outfitter.protocol.uri import FileUri
from outfitter.sharing import Pending, SharedClient, SharedFiles

from .support.origin import origin
from .support.servers import serving

# What callers get without naming its class.
HANDLES = (
    files.Files,
    files.FolderEntry,
    files.Walked,
    openfile.RemoteFile,
    reader.OutputReader,
    watch.Watch,
    watch.FileChanges,
    http.Http,
    http.HttpAnswer,
    http.HttpStream,
    answers.FileInfo,
    answers.Searched,
    answers.FoundLine,
    answers.ProcessInfo,
    answers.NetworkTarget,
    answers.NetworkDecision,
    EnvironmentInfo,
    FileUri,
    PlainLease,
    SharedClient,
    SharedFiles,
    Pending,
)


def members(kind: type, name: str) -> Iterator[tuple[str, object]]:
    """A class and its public methods."""
    yield name, kind
    for one in dir(kind):
        value = inspect.getattr_static(kind, one)
        if not one.startswith("_") and callable(getattr(value, "__func__", value)):
            yield f"{name}.{one}", getattr(kind, one)


def public() -> Iterator[tuple[str, object]]:
    for module in (outfitter, sync):
        for name in module.__all__:
            value = getattr(module, name)
            told = f"{module.__name__}.{name}"
            if module is sync and value is getattr(outfitter, name, None):
                continue
            if inspect.isfunction(value):
                yield told, value
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                yield from members(value, told)
            elif inspect.isclass(value):
                yield told, value
    for kind in HANDLES:
        yield from members(kind, f"{kind.__module__}.{kind.__name__}")
    yield "outfitter.client.commands.Starting", Starting  # its methods are those of every coroutine


NAMES = dict(public())
# The examples of these calls are those of `Client.files`.
ELSEWHERE = [name for name in NAMES if name.startswith("outfitter.sharing.SharedFiles.")]


def example(thing: object) -> str:
    """The indented blocks of a docstring."""
    blocks = re.findall(r"^(?:    .*\n|\n)+", inspect.getdoc(thing) or "", re.MULTILINE)
    return textwrap.dedent("".join(blocks)).strip()


EXAMPLES = {name: example(NAMES[name]) for name in NAMES if name not in ELSEWHERE}


def undocumented(kind: type) -> Iterator[str]:
    """What completion shows of a class, but `help` says nothing about."""
    for name in dir(kind):
        known = name.startswith("_") or name in getattr(kind, "__match_args__", ())
        if not known and not inspect.getdoc(inspect.getattr_static(kind, name)):
            yield f"{kind.__module__}.{kind.__name__}.{name}"


def test_completion_shows_nothing_without_words() -> None:
    kinds = [value for value in NAMES.values() if inspect.isclass(value)]
    assert [
        name for kind in kinds if not issubclass(kind, BaseException) for name in undocumented(kind)
    ] == []


def test_every_error_says_what_it_means() -> None:
    kinds = [getattr(outfitter, name) for name in outfitter.__all__]
    errors = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseException)]
    assert len(errors) > 20
    assert [kind.__name__ for kind in errors if not kind.__doc__] == []


def test_every_public_name_has_an_example() -> None:
    assert [name for name, text in EXAMPLES.items() if not text] == []


# The server and what its commands find

PROGRAMS = {"make": "echo made", "pytest": "echo 3 passed", "git": "echo git version 2.50"}
PROJECT = {
    "Makefile": "",
    "app/test_app.py": "",
    "build.log": "built in 2 seconds",
    "main.py": "import sys" + 40 * "\n",
    "notes.md": "remember the milk",
    "src/main.py": "def main():\n    pass\n",
}


class Place:
    """A server named `build`, a project that is its directory and ours, and an asyncio loop."""

    def __init__(self, folder: Path, origin: int) -> None:
        self.folder = folder
        self.origin = origin
        self.runner = asyncio.Runner()

    def fill(self) -> None:
        for one in self.folder.iterdir():
            with suppress(FileNotFoundError):  # what a sandbox had put there goes by itself
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        for name, text in PROJECT.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def run(self, text: str, client: sync.Client | None) -> None:
        """Runs an example and compares what it prints: in plain calls with this client, or with asyncio."""
        text = text.replace("localhost:8080", f"127.0.0.1:{self.origin}")
        printed: dict[int, list[str]] = {}

        def tell(*values: object) -> None:
            printed.setdefault(sys._getframe(1).f_lineno, []).append(" ".join(map(str, values)))

        code = compile(text, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        names = {"client": client, "os": os, "outfitter": outfitter, "Path": Path, "print": tell}
        if client is None:
            self.runner.run(_awaited(code, names))
        else:
            pool = sync.Pool("local", size=1)
            with pool if "pool" in code.co_names else nullcontext():
                exec(code, {**names, "pool": pool})
        assert {line: said for line, said in printed.items() if line in expected(text)} == expected(text)


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    pool = outfitter.Pool("local", size=1)
    async with outfitter.connect("build") as client, pool if "pool" in code.co_names else nullcontext():
        begun = eval(code, {**names, "client": client, "pool": pool})
        if begun is not None:  # it awaits something
            await begun


def expected(text: str) -> dict[int, list[str]]:
    """What each line with a `print` and a comment should print."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if said := re.search(r"\bprint\(.*\)  +# (.+)$", line):
            found[number] = [said[1]]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("home")
    folder, programs = home / "project", home / "bin"
    folder.mkdir()
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with (
        serving("outfitter", home, env={"PATH": path}, cwd=folder) as server,
        origin() as port,
        pytest.MonkeyPatch.context() as patch,
    ):
        (home / "environments.toml").write_text(f'[[environments]]\nid = "build"\nurl = "{server.url}"\n')
        patch.setenv("OUTFITTER_HOME", str(home))
        patch.setenv("PATH", path)
        patch.chdir(folder)
        place = Place(folder, port)
        with place.runner:
            yield place


@pytest.mark.parametrize("name", [name for name, text in EXAMPLES.items() if text])
def test_an_example_does_what_it_says(name: str, place: Place) -> None:
    place.fill()
    if name.startswith(("outfitter.sync.", "outfitter.pool.plain.")):
        with sync.connect("build") as client:
            place.run(EXAMPLES[name], client)
    else:
        place.run(EXAMPLES[name], None)
