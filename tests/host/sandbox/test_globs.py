"""Patterns of what is hidden: which names match, and where looking ends."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.host.sandbox import globs
from outfitter.host.sandbox.globs import expand, translate
from outfitter.host.sandbox.refusal import Unenforceable


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("*.env", [".env", "a.env"], ["a/b.env", "a.envx", "env"]),
        ("**/*.env", [".env", "a/b/c.env"], ["a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb"]),
        ("**", ["a", "a/b"], []),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("?x", ["ax"], ["x", "/x", "aax"]),
        ("[ab].c", ["a.c", "b.c"], ["c.c", "ab.c"]),
        ("[!ab]", ["c"], ["a", "b"]),
        ("[^ab]", ["c", "!"], ["a"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[-a]", ["-", "a"], ["b"]),
        ("[a-]", ["-", "a"], ["b"]),
        ("[a-c-e]", ["b", "-", "e"], ["d"]),
        ("[+--]", ["+", ",", "-"], ["."]),
        ("[]]", ["]"], ["a"]),
        ("[!]]", ["a"], ["]"]),
        ("[a.env", ["[a.env"], ["a.env"]),
        ("x[", ["x["], ["x"]),
        ("[a\\]", ["a", "\\"], ["b"]),
        ("[[:x]", ["[", ":", "x"], ["a"]),
        ("{a,b*}.x", ["a.x", "b.x", "bcd.x"], ["c.x", "a,b.x"]),
        ("{a,{b,c}}", ["a", "b", "c"], ["{b"]),
        ("a{b", ["a{b"], ["ab"]),
        ("a,b}", ["a,b}"], ["a", "ab"]),
        ("\\*", ["*"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
        ("(x|y)+$", ["(x|y)+$"], ["x"]),
        ("é\n", ["é\n"], ["é"]),
    ],
)
def test_what_a_pattern_matches(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = re.compile(translate(glob), re.DOTALL)
    assert [name for name in matching + other if pattern.fullmatch(name)] == matching


@settings(deadline=None, max_examples=200)
@given(st.text("a/*?[]{},\\!^-.", max_size=12))
def test_any_text_is_a_pattern_or_refused(glob: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(translate(glob))
        except Unenforceable as error:
            assert "invalid range" in str(error)


def test_a_range_that_goes_backwards_is_refused() -> None:
    with pytest.raises(Unenforceable, match="invalid range; 'b' > 'a'"):
        translate("[b-a]")


def tree(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_files_and_links_match_and_folders_do_not(tmp_path: Path) -> None:
    tree(tmp_path, "a.x", ".b.x", "d.x/c.x", "d.x/e/f.x")
    (tmp_path / "l.x").symlink_to("nowhere")
    (tmp_path / "way.x").symlink_to("d.x")
    found = expand([f"{tmp_path}/**/*.x"], None)
    assert found == [f"{tmp_path}/{name}" for name in (".b.x", "a.x", "d.x/c.x", "d.x/e/f.x", "l.x", "way.x")]


@pytest.mark.parametrize(
    ("depth", "names"), [(1, ["a.x"]), (2, ["a.x", "d/b.x"]), (3, ["a.x", "d/b.x", "d/e/c.x"])]
)
def test_a_depth_ends_the_search(tmp_path: Path, depth: int, names: list[str]) -> None:
    tree(tmp_path, "a.x", "d/b.x", "d/e/c.x")
    assert expand([f"{tmp_path}/**/*.x"], depth) == [f"{tmp_path}/{name}" for name in names]


def test_a_single_name_matches_at_any_depth(tmp_path: Path) -> None:
    tree(tmp_path, "a.x", "d/b.x", "d/e/c.x", "d/e/c.y")
    deep = [f"{tmp_path}/{name}" for name in ("a.x", "d/b.x", "d/e/c.x")]
    assert expand([f"{tmp_path}/*.x"], None) == deep
    assert expand([f"{tmp_path}/*/*.x"], None) == deep[1:2]
    matches = globs.matcher([f"{tmp_path}/*.x"])
    assert [matches(path) for path in (*deep, f"{tmp_path}/d/e/c.y", "/other/a.x")] == [True] * 3 + [
        False
    ] * 2


def test_several_patterns_and_folders_that_are_missing(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.x", "b/2.y", "b/3.x")
    patterns = [
        f"{tmp_path}/a/*",
        f"{tmp_path}/b/*.y",
        f"{tmp_path}/b/2*",
        f"{tmp_path}/gone/*",
        f"{tmp_path}/a/1.x/*",
    ]
    assert expand(patterns, None) == [f"{tmp_path}/a/1.x", f"{tmp_path}/b/2.y"]


@pytest.mark.parametrize("pattern", ["/*", "/**/*.env", "/x?", "/etc/hostname", "/a/{b,c}", "/a/\\b"])
def test_a_pattern_needs_a_folder_and_a_wildcard(pattern: str) -> None:
    with pytest.raises(Unenforceable) as caught:
        expand([pattern], None)
    assert str(caught.value) == (
        f"unreadable glob `{pattern}` cannot be safely expanded; "
        "use a pattern with a non-root directory prefix"
    )


def test_too_many_matches_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert globs.MAX_MATCHES == 8192
    monkeypatch.setattr(globs, "MAX_MATCHES", 3)
    tree(tmp_path, "1", "2", "3")
    assert len(expand([f"{tmp_path}/*"], None)) == 3
    tree(tmp_path, "4")
    with pytest.raises(
        Unenforceable, match=f"unreadable glob expansion for {tmp_path} matched more than 3 paths"
    ):
        expand([f"{tmp_path}/*"], None)


def test_a_search_that_finds_nothing_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "MAX_SCANNED", 2)
    tree(tmp_path, "1", "2")
    assert expand([f"{tmp_path}/*.x"], None) == []
    tree(tmp_path, "3")
    with pytest.raises(Unenforceable, match="looked at more than 2 paths"):
        expand([f"{tmp_path}/*.x"], None)
