"""Ignore files: rules one by one, whole trees against git itself, and no rule that takes for ever."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.formats.ignore import IgnoreRules, Nested
from tests.support.machine import SECOND


def ignores(rule: str, path: str) -> bool | None:
    """A path that ends with a slash is a folder."""
    return IgnoreRules([rule]).ignores(path.removesuffix("/"), path.endswith("/"))


@pytest.mark.parametrize(
    ("rule", "fits", "other"),
    [
        ("a", ["a", "a/", "x/a", "x/y/a/"], ["ab", "ba", "A"]),
        ("a/", ["a/", "x/a/"], ["a", "x/a"]),
        ("/a", ["a", "a/"], ["x/a"]),
        ("a/b", ["a/b", "a/b/"], ["x/a/b", "a", "a/b/c"]),
        ("*.py", ["x.py", "d/x.py", ".py"], ["x.pyc", "x.p"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc"], ["ab", "acb", "abcd"]),
        ("a?c", ["abc"], ["ac", "abbc"]),
        ("d/*", ["d/x", "d/x/"], ["d", "d/x/y"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["x/ab"]),
        ("a/**", ["a/x", "a/x/y", "a/x/"], ["a", "b/a/x"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "x/a/b"]),
        ("**/a/**/b/*.c", ["a/b/x.c", "1/a/2/b/x.c"], ["a/x.c", "b/a/x.c"]),
        ("**", ["a", "a/b/"], []),
        ("[ab]", ["a", "b"], ["c", "ab"]),
        ("[!ab]", ["c"], ["a", "b"]),
        ("[^ab]", ["c"], ["a"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[[:digit:]]", ["7"], ["a", ":"]),
        (r"[\]a]", ["]", "a"], ["b", "\\"]),
        (r"\*", ["*"], ["a"]),
        (r"\!a", ["!a"], ["a"]),
        (r"\#a", ["#a"], ["a"]),
        ("a ", ["a"], ["a "]),
        (r"a\ ", ["a "], ["a"]),
        ("a\r", ["a"], []),
        ("a b", ["a b"], ["a"]),
    ],
)
def test_rule(rule: str, fits: list[str], other: list[str]) -> None:
    assert [path for path in fits if not ignores(rule, path)] == []
    assert [path for path in other if ignores(rule, path)] == []


@pytest.mark.parametrize("line", ["", "#a", "/", "!", "a\\", "[a", "[[:nonsense:]]", "[z-a]"])
def test_lines_that_mean_nothing_fit_nothing(line: str) -> None:
    assert [path for path in ("a", "#a", "z", "[", "\\", "x/") if ignores(line, path)] == []


def test_the_last_rule_that_fits_decides() -> None:
    rules = IgnoreRules(["*.log", "!keep.log", "keep.log/", "# nothing"])
    assert rules.ignores("x.log", False) is True
    assert rules.ignores("keep.log", False) is False
    assert rules.ignores("keep.log", True) is True
    assert rules.ignores("other", False) is None


def test_a_whitelist_keeps_folders_and_what_it_names() -> None:
    rules = IgnoreRules(["*", "!*/", "!*.py"])
    assert [rules.ignores("d", True), rules.ignores("d/x.py", False)] == [False, False]
    assert rules.ignores("d/x.txt", False) is True


def test_rules_of_an_inner_folder_go_first() -> None:
    outer = Nested("/r", [IgnoreRules(["*.log", "/top"])], None)
    inner = Nested("/r/d", [IgnoreRules(["!keep.log"]), IgnoreRules(["keep.log", "/own"])], outer)
    assert inner.ignores("/r/d/x.log", False)
    assert not inner.ignores("/r/d/keep.log", False)
    assert inner.ignores("/r/d/own", False)
    assert not inner.ignores("/r/d/e/own", False)
    assert not inner.ignores("/r/d/top", False)
    assert outer.ignores("/r/top", True)
    assert Nested("/", [IgnoreRules(["/a"])], None).ignores("/a", False)


@pytest.mark.parametrize(
    ("rule", "path"),
    [("*a" * 30 + "b", "a" * 255), ("**/a/" * 20 + "b", "a/" * 500 + "c"), ("a*" * 40 + "/x", "a" * 255)],
    ids=["stars", "double stars", "stars in a path"],
)
def test_no_rule_takes_long(rule: str, path: str) -> None:
    begun = time.monotonic()
    assert not ignores(rule, path)
    assert time.monotonic() - begun < SECOND


# Against git

SEGMENTS = [
    "a", "b", "c", "*", "?", "*.py", "a*", "*b", "[ab]", "[!a]", "[a-c]*", "x.py", r"\!", r"\#", r"\*", "**",
    "[[:alpha:]]", "a b", ".a", "a[b]c",
]  # fmt: skip
NAMES = ["a", "b", "c", "ab", "x.py", "a.py", "abc", "a b", "!", "#", "*", ".a", "a]", "c.d"]


def random_rules(chance: random.Random) -> list[str]:
    lines = ["*", "!*/"] if chance.random() < 0.3 else []
    for _ in range(chance.randint(1, 4)):
        line = "/".join(chance.choice(SEGMENTS) for _ in range(chance.choice([1, 1, 1, 2, 3])))
        line = chance.choice(["", "", "/", "!", "!/"]) + line + chance.choice(["", "", "", "/", " "])
        lines.append(line)
    return lines


def kept(folder: Path, root: Path, above: Nested | None) -> Iterator[str]:
    own = folder / ".gitignore"
    rules = [IgnoreRules(own.read_text().split("\n"))] if own.exists() else []
    nested = Nested(str(folder), rules, above)
    for entry in os.scandir(folder):
        if entry.name == ".git" or nested.ignores(entry.path, entry.is_dir()):
            continue
        if entry.is_dir():
            yield from kept(Path(entry.path), root, nested)
        else:
            yield str(Path(entry.path).relative_to(root))


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
def test_whole_trees_are_ignored_as_by_git(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    root.mkdir()
    git("init", "--quiet")
    chance = random.Random(9)
    for _ in range(150):
        path = root.joinpath(*(chance.choice(NAMES) for _ in range(chance.randint(1, 4))))
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    inner = next(path for path in sorted(root.iterdir()) if path.is_dir() and path.name == "a")
    for _ in range(80):
        (root / ".gitignore").write_text("\n".join(random_rules(chance)))
        (inner / ".gitignore").write_text("\n".join(random_rules(chance)))
        listed = git("ls-files", "--others", "--exclude-standard", "-z")
        texts = (root / ".gitignore").read_text(), (inner / ".gitignore").read_text()
        assert set(kept(root, root, None)) == set(filter(None, listed.split("\0"))), texts
