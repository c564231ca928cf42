"""A walk over real folders, links and all, against an oracle that is plain recursion."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.walk import Walk
from outfitter.host.walk import walk
from outfitter.protocol.uri import encode_name, from_path

SECONDS = 60.0
Tree = dict[str, Any]  # name → Tree, "file", "fifo" or "-> target"

NAMES = ["a", "b", ".h", "c d", "é", "Z", "~%"]
TARGETS = ["a", "b", ".", "..", "../a", "../b", ".h", "nowhere", "a/b", "../../b", "self", "/dev/null"]
nodes = st.recursive(
    st.one_of(st.just("file"), st.just("fifo"), st.sampled_from(TARGETS).map("-> {}".format)),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
trees: st.SearchStrategy[Tree] = st.dictionaries(st.sampled_from(NAMES), nodes, max_size=7)


def grow(root: str, tree: Tree) -> None:
    os.mkdir(root)
    for name, node in tree.items():
        path = f"{root}/{name}"
        if isinstance(node, dict):
            grow(path, node)
        elif node == "fifo":
            os.mkfifo(path)
        elif node.startswith("-> "):
            os.symlink(node.removeprefix("-> "), path)
        else:
            Path(path).touch()


def options(**given: Any) -> Any:
    usual = {"max_depth": 64, "max_directories": 10_000, "max_entries": 50_000}
    return SimpleNamespace(**{**usual, "follow_directories": False, "prune_hidden": False, **given})


def walked(path: str, **given: Any) -> Walk:
    return walk(path, from_path(path), options(**given), encode_name, SECONDS)


def oracle(
    root: str,
    max_depth: int,
    max_directories: int,
    max_entries: int,
    follow_directories: bool,
    prune_hidden: bool,
) -> tuple[list[tuple[str, str]], bool]:
    listed: list[tuple[str, str]] = []
    entered = {os.path.realpath(root)}
    counts = {"names": 0, "folders": 1}
    truncated = False

    def level(folders: list[str], depth: int) -> bool:
        nonlocal truncated
        below: list[str] = []
        for folder in folders:
            for name in sorted(os.listdir(folder)):
                path = f"{folder}/{name}"
                if not os.path.exists(path):
                    continue  # a link that leads nowhere does not count
                if counts["names"] == max_entries:
                    return False
                counts["names"] += 1
                link, is_folder = os.path.islink(path), os.path.isdir(path)
                if link and not (is_folder and follow_directories):
                    continue
                if not is_folder and not os.path.isfile(path):
                    continue
                listed.append((from_path(path), "directory" if is_folder else "file"))
                if not is_folder or depth == max_depth or (prune_hidden and name.startswith(".")):
                    continue
                if follow_directories:
                    if os.path.realpath(path) in entered:
                        continue
                    entered.add(os.path.realpath(path))
                if counts["folders"] == max_directories:
                    truncated = True
                    continue
                counts["folders"] += 1
                below.append(path)
        return level(below, depth + 1) if below else True

    whole = level([root], 0)
    return listed, truncated or not whole


@settings(max_examples=60, deadline=None)
@given(
    tree=trees,
    limits=st.lists(
        st.fixed_dictionaries(
            {
                "max_depth": st.sampled_from([0, 1, 2, 64]),
                "max_directories": st.sampled_from([1, 2, 3, 5, 10_000]),
                "max_entries": st.sampled_from([1, 2, 4, 7, 12, 50_000]),
                "follow_directories": st.booleans(),
                "prune_hidden": st.booleans(),
            }
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_any_tree_is_walked_as_the_oracle_says(tree: Tree, limits: list[dict[str, Any]]) -> None:
    scratch = tempfile.mkdtemp()
    try:
        root = f"{scratch}/root"
        grow(root, tree)
        for one in limits:
            done = walked(root, **one)
            assert (done.entries, done.truncated, done.errors) == (*oracle(root, **one), [])
    finally:
        shutil.rmtree(scratch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-file").symlink_to("folder/file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def test_root_that_is_no_folder_has_nothing_in_it(root: Path) -> None:
    for name, follow in (("folder/file", True), ("to-file", True), ("to-file", False), ("to-folder", False)):
        done = walked(f"{root}/{name}", follow_directories=follow)
        assert (done.entries, done.errors, done.truncated) == ([], [], False)
    done = walked(f"{root}/to-folder", follow_directories=True)
    assert done.entries == [(f"{root.as_uri()}/to-folder/file", "file")]


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("name", ["missing", "dangling", "loop", "folder/file/below"])
def test_root_that_is_not_there_is_an_error(root: Path, name: str, follow: bool) -> None:
    with pytest.raises(OSError):
        walked(f"{root}/{name}", follow_directories=follow)


def test_root_of_everything_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    for follow in (True, False):
        done = walked("/", max_depth=0, follow_directories=follow)
        found = [uri for uri, kind in done.entries if kind == "directory"]
        assert {"file:///etc", "file:///usr", "file:///proc"} <= set(found)
        assert all(uri.startswith("file:///") and uri.count("/") == 3 for uri in found)


def test_names_that_are_not_utf8_can_be_addressed(tmp_path: Path) -> None:
    # Row 26.
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/\xfe")).touch()
    assert walked(str(tmp_path)).entries == [
        (f"{tmp_path.as_uri()}/%FF", "directory"),
        (f"{tmp_path.as_uri()}/%FF/%FE", "file"),
    ]


def test_every_character_of_a_name_is_encoded_as_everywhere_else(tmp_path: Path) -> None:
    for number in range(1, 128):
        if chr(number) != "/":
            (tmp_path / f"x{chr(number)}").touch()
    found = {uri for uri, _ in walked(str(tmp_path)).entries}
    assert found == {from_path(f"{tmp_path}/x{chr(number)}") for number in range(1, 128) if number != 47}


def test_folder_that_cannot_be_read_is_told_among_the_errors(tmp_path: Path) -> None:
    # Too deep for one path, which stops even root.
    name = "n" * 255
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    done = walked(str(tmp_path))
    assert [message for _, message in done.errors] == ["Filename too long (os error 36)"]
    # It is listed, then it cannot be entered.
    assert done.entries[-1] == (done.errors[0][0], "directory")
    assert not done.truncated
    shutil.rmtree(tmp_path / name)


def test_walk_ends_when_its_time_is_up(root: Path) -> None:
    done = walk(str(root), root.as_uri(), options(), encode_name, -1.0)
    assert (done.entries, done.truncated) == ([], True)


def test_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/up").symlink_to("../..")
    done = walked(str(tmp_path), follow_directories=True)
    assert [uri.removeprefix(tmp_path.as_uri()) for uri, _ in done.entries] == ["/a", "/a/b", "/a/b/up"]
