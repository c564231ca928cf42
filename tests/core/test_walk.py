"""A walk as it is decided: breadth first, sorted, bounded, against an oracle that is plain recursion."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.walk import DIRECTORY, ENTRY_BYTES, FILE, OTHER, Walk

Tree = dict[str, Any]  # name → Tree for a folder, "file" or "other"

NAMES = ["a", "b", "c", ".h", ".i", "long-name"]
trees: st.SearchStrategy[Tree] = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        st.sampled_from(["file", "other"]),
        lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
        max_leaves=15,
    ),
    max_size=6,
)


def walked(tree: Tree, **limits: Any) -> Walk:
    """A walk over a tree that is nowhere but here."""
    walk = Walk(("/r", "file:///r"), **limits)
    folders = {"/r": tree}
    while (folder := walk.next()) is not None:
        path, uri, depth = folder
        found = []
        for name, node in sorted(folders[path].items()):
            kind = DIRECTORY if isinstance(node, dict) else FILE if node == "file" else OTHER
            if kind == DIRECTORY:
                folders[f"{path}/{name}"] = node
            found.append((name, f"{uri}/{name}", kind, kind == DIRECTORY))
        walk.saw(path, depth, found)
    return walk


def oracle(
    tree: Tree, max_depth: int, max_directories: int, max_entries: int, prune_hidden: bool, budget: int
) -> tuple[list[tuple[str, str]], bool]:
    listed: list[tuple[str, str]] = []
    counts = {"names": 0, "folders": 1, "bytes": 0}
    truncated = False

    def level(folders: list[tuple[str, Tree]], depth: int) -> bool:
        """Whether it came to its end."""
        nonlocal truncated
        below: list[tuple[str, Tree]] = []
        for uri, folder in folders:
            for name in sorted(folder):
                if counts["names"] == max_entries:
                    return False
                counts["names"] += 1
                node = folder[name]
                if node == "other":
                    continue
                counts["bytes"] += len(f"{uri}/{name}") + ENTRY_BYTES
                if counts["bytes"] > budget:
                    return False
                listed.append((f"{uri}/{name}", "directory" if isinstance(node, dict) else "file"))
                if not isinstance(node, dict) or depth == max_depth or (prune_hidden and name[0] == "."):
                    continue
                if counts["folders"] == max_directories:
                    truncated = True
                    continue
                counts["folders"] += 1
                below.append((f"{uri}/{name}", node))
        return level(below, depth + 1) if below else True

    whole = level([("file:///r", tree)], 0)
    return listed, truncated or not whole


@given(
    tree=trees,
    max_depth=st.integers(0, 4),
    max_directories=st.integers(1, 8),
    max_entries=st.integers(1, 20),
    prune_hidden=st.booleans(),
    budget=st.sampled_from([0, 100, 300, 1000, 1 << 20]),
)
def test_any_tree_is_walked_as_the_oracle_says(
    tree: Tree, max_depth: int, max_directories: int, max_entries: int, prune_hidden: bool, budget: int
) -> None:
    limits = {
        "max_depth": max_depth,
        "max_directories": max_directories,
        "max_entries": max_entries,
        "prune_hidden": prune_hidden,
        "budget": budget,
    }
    walk = walked(tree, **limits)
    assert (walk.entries, walk.truncated) == oracle(tree, **limits)


def test_folder_that_cannot_be_looked_at_is_told_and_the_walk_goes_on() -> None:
    walk = Walk(("/r", "file:///r"), max_depth=9, max_directories=9, max_entries=9, prune_hidden=False)
    assert walk.next() == ("/r", "file:///r", 0)
    walk.saw("/r", 0, [(name, f"file:///r/{name}", DIRECTORY, True) for name in "ab"])
    assert walk.next() == ("/r/a", "file:///r/a", 1)
    walk.failed("file:///r/a", "Permission denied (os error 13)")
    assert walk.next() == ("/r/b", "file:///r/b", 1)
    walk.saw("/r/b", 1, [])
    assert walk.next() is None
    assert walk.errors == [("file:///r/a", "Permission denied (os error 13)")]
    assert not walk.truncated


def test_errors_are_paid_for_as_entries_are() -> None:
    message, uri = "no", "file:///r"
    cost = len(uri) + len(message) + ENTRY_BYTES
    limits: Any = {"max_depth": 0, "max_directories": 1, "max_entries": 1, "prune_hidden": False}
    for budget, told in ((cost, [(uri, message)]), (cost - 1, [])):
        walk = Walk(("/r", uri), **limits, budget=budget)
        walk.failed(uri, message)
        assert (walk.errors, walk.truncated) == (told, not told)


def test_walk_whose_time_is_up_ends_truncated() -> None:
    walk = Walk(("/r", "file:///r"), max_depth=9, max_directories=9, max_entries=9, prune_hidden=False)
    walk.stop()
    assert (walk.next(), walk.truncated) == (None, True)


def test_folder_is_entered_only_when_it_is_fresh() -> None:
    walk = Walk(("/r", "file:///r"), max_depth=9, max_directories=2, max_entries=9, prune_hidden=False)
    walk.next()
    asked: list[str] = []

    def fresh(path: str) -> bool:
        asked.append(path)
        return path == "/r/b"

    walk.saw("/r", 0, [(name, f"file:///r/{name}", DIRECTORY, True) for name in "abc"], fresh)
    # What is not fresh is listed, takes no place among the folders and truncates nothing.
    assert walk.next() == ("/r/b", "file:///r/b", 1)
    assert walk.next() is None
    assert (asked, len(walk.entries), walk.truncated) == (["/r/a", "/r/b", "/r/c"], 3, False)


def test_root_of_everything_has_paths_without_a_double_slash() -> None:
    walk = Walk(("/", "file://"), max_depth=9, max_directories=9, max_entries=9, prune_hidden=False)
    walk.next()
    walk.saw("/", 0, [("etc", "file:///etc", DIRECTORY, True)])
    assert walk.next() == ("/etc", "file:///etc", 1)
