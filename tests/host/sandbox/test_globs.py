"""Patterns of what is hidden: which names match, and where looking ends."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.host.sandbox import globs
from outfitter.host.sandbox.globs import expand, matcher, translate
from outfitter.host.sandbox.refusal import TooWide, Unenforceable


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


def fits(glob: str, path: str) -> bool:
    """By trying everything: `*`, `?` and `**` as they are explained."""
    if not glob:
        return not path
    if glob == "**":
        return bool(path)
    if glob.startswith("**/"):
        rests = [path[at + 1 :] for at in range(1, len(path)) if path[at] == "/" and path[at - 1] != "/"]
        clean = [rest for rest in rests if "" not in path[: len(path) - len(rest) - 1].split("/")]
        return fits(glob[3:], path) or any(fits(glob[3:], rest) for rest in clean)
    if glob[0] == "*":
        return fits(glob[1:], path) or (path[:1] not in ("", "/") and fits(glob, path[1:]))
    same = path[:1] not in ("", "/") if glob[0] == "?" else path[:1] == glob[0]
    after = glob[1:]
    if not same:
        return False
    if glob[0] == "/" and (after == "**" or after.startswith("**/")):
        return fits(after, path[1:])
    # Stars inside of a segment are all the same.
    return fits(after.replace("**", "*") if glob[0] != "/" and after.startswith("**") else after, path[1:])


@settings(deadline=None, max_examples=500)
@given(
    st.lists(st.sampled_from(["**", "*", "a", "*a", "a*", "?", "*a*b", "ab"]), min_size=1, max_size=4),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_the_first_place_that_fits_will_do(segments: list[str], names: list[str]) -> None:
    glob, path = "/".join(segments), "/".join(names)
    assert bool(re.fullmatch(translate(glob), path)) == fits(glob, path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/" * 40 + "x", "a/" * 1000 + "y"),
        ("*a" * 60 + "b", "a" * 255),
        ("**/" + "*a" * 60 + "b", "/".join(["a" * 255] * 15)),
        ("**/*a/" * 20 + "x", "a/" * 2000 + "y"),
    ],
)
def test_no_pattern_takes_long(glob: str, path: str) -> None:
    assert not re.fullmatch(translate(glob), path)


def test_braces_stand_for_a_limited_number_of_patterns() -> None:
    assert re.fullmatch(translate("{a,b}" * 8), "abababab")
    with pytest.raises(Unenforceable, match="more than 256 alternatives"):
        translate("{a,b}" * 9)


def test_a_matcher_knows_paths_below_the_folders_of_its_patterns() -> None:
    matches = matcher(["/w/**/*.env", "/v/x*", "/v/?"])
    paths = [
        "/w/.env",
        "/w/a/b.env",
        "/v/x",
        "/v/xy",
        "/v/a",
        "/v/ab",
        "/wx/.env",
        "/w",
        "/.env",
        "/u/w/.env",
    ]
    assert [path for path in paths if matches(path)] == paths[:5]


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
    with pytest.raises(TooWide, match="looked at more than 2 paths") as raised:
        expand([f"{tmp_path}/*.x"], None)
    assert (raised.value.folder, raised.value.limit) == (str(tmp_path), 2)


def test_folders_count_as_names_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "MAX_SCANNED", 2)
    (tmp_path / "a/b").mkdir(parents=True)
    assert expand([f"{tmp_path}/*.x"], None) == []
    (tmp_path / "a/b/c").mkdir()
    with pytest.raises(TooWide):
        expand([f"{tmp_path}/*.x"], None)


def test_a_search_ends_that_nobody_needs(tmp_path: Path) -> None:
    tree(tmp_path, "1.x", "a/2.x", "a/b/3.x")
    answers = iter([True, True, False])
    assert expand([f"{tmp_path}/*.x"], None, lambda: next(answers)) == [
        f"{tmp_path}/1.x",
        f"{tmp_path}/a/2.x",
    ]


def test_a_star_alone_matches_files_and_no_folder(tmp_path: Path) -> None:
    """A folder has no name to be matched with, and a star takes even that."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    assert list(expand([f"{tmp_path}/*"], None)) == [f"{tmp_path}/folder/file"]
