"""Text in lines: what is found, what is shown of it, and what is passed over without a look."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.search import Match, Needle, SearchBudget, is_binary, required, shown
from outfitter.errors import Refused

WIDTH = 40


def found(pattern: str, data: bytes, *, regex: bool = True, case_sensitive: bool = True) -> list[Match]:
    return list(Needle(pattern, regex=regex, case_sensitive=case_sensitive).matches(data, WIDTH))


def test_each_line_is_told_once_with_its_first_match() -> None:
    data = b"one\ntwo one one\n\nthree"
    assert found("one", data) == [Match(1, 1, "one", 0, 3), Match(2, 5, "two one one", 4, 7)]


def test_text_is_no_expression_when_it_is_not_meant_as_one() -> None:
    assert found("a.c", b"abc\na.c\n", regex=False) == [Match(2, 1, "a.c", 0, 3)]
    assert found("(", b"f(x)\n", regex=False) == [Match(1, 2, "f(x)", 1, 2)]


def test_case_may_be_ignored() -> None:
    assert found("ÄB", "äb\n".encode(), case_sensitive=False) == [Match(1, 1, "äb", 0, 2)]
    assert found("ÄB", "äb\n".encode()) == []
    assert found("A.", b"xab\n", case_sensitive=False, regex=False) == []


@pytest.mark.parametrize("data", [b"a\nb", b"a\nb\n", b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n"])
def test_ends_of_lines_belong_to_no_line(data: bytes) -> None:
    assert found("^[ab]$", data) == [Match(1, 1, "a", 0, 1), Match(2, 1, "b", 0, 1)]
    assert found("^$", data) == []


def test_nothing_is_found_across_lines() -> None:
    assert found(r"a\sb", b"a\nb\n") == []
    assert found(r"a[^x]*b", b"a\nb\n") == []


def test_bytes_that_are_no_text_count_as_one_character_each() -> None:
    assert found("b", b"\xff\xfeb\n") == [Match(1, 3, "\ufffd\ufffdb", 2, 3)]


@pytest.mark.parametrize("pattern", ["", "a\nb", "(", "a{2,1}", "(?P<x", "[z-a]", "(?<=a*)b", "*"])
def test_what_cannot_be_looked_for_is_refused(pattern: str) -> None:
    with pytest.raises(Refused, match=r"^the pattern "):
        Needle(pattern, regex=True, case_sensitive=True)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 3, Match(1, 1, "0123456789", 0, 3)),
        (3, 5, Match(1, 4, "1234567890", 2, 4)),
        (50, 53, Match(1, 51, "8901234567", 2, 5)),
        (98, 100, Match(1, 99, "0123456789", 8, 10)),
        (0, 100, Match(1, 1, "0123456789", 0, 10)),
        (50, 100, Match(1, 51, "8901234567", 2, 10)),
    ],
)
def test_a_long_line_is_cut_around_the_match(start: int, end: int, expected: Match) -> None:
    assert shown(1, "0123456789" * 10, start, end, 10) == expected


def test_a_short_line_is_whole() -> None:
    assert shown(7, "short", 1, 3, 5) == Match(7, 2, "short", 1, 3)


def test_a_nul_near_the_beginning_makes_a_file_binary() -> None:
    assert is_binary(b"text\0")
    assert not is_binary(b"text" * 3000 + b"\0")


# What every match must hold


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("plain text", "plain text"),
        (r"class \w+Error\(", "class "),
        ("ab?cde", "cde"),
        ("ab*", "a"),
        ("ab+c", "ab"),
        ("x{0,3}yz", "yz"),
        ("(maybe)?sure", "sure"),
        (r"a\.b\d+", "a.b"),
        ("[abc]def", "def"),
        ("[]abc]d", "d"),
        ("^import os$", "import os"),
        ("one|other", ""),
        ("(?i)any", ""),
        (r"\x41b", ""),
        (r"(a)\1b", ""),
        (".*", ""),
    ],
)
def test_required(pattern: str, text: str) -> None:
    assert required(pattern) == text


PIECES = [
    "a", "b", "ab", r"\.", r"\(", "[ab]", "[^a]", "[]a]", ".", r"\w", "^", "$", "(a)", "(ab)?", "(a(b)c)*",
    "{", "}", r"\b", r"\x61", "a|b", "(?:b)", "(?!c)",
]  # fmt: skip
pieces = st.sampled_from(PIECES)
quantifiers = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "{1,}", "*?", "+?", "*+"])
patterns = st.lists(st.tuples(pieces, quantifiers).map("".join), min_size=1, max_size=5).map("".join)


@settings(max_examples=300, deadline=None)
@given(patterns, st.text("abc.({}]", max_size=12))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_whatever_fits_holds_what_is_required(pattern: str, text: str) -> None:
    try:
        fits = re.search(pattern, text) is not None
    except re.error:
        return
    assert not fits or required(pattern) in text


# Bounds


def budget(**changed: int) -> SearchBudget:
    return SearchBudget(**{"matches": 10, "files": 10, "total_bytes": 100, "response_bytes": 100, **changed})


def test_a_search_ends_with_its_files_or_bytes() -> None:
    few = budget(files=2)
    assert [few.read(1), few.read(1), few.truncated, few.read(1), few.truncated] == [
        True, True, False, False, True,
    ]  # fmt: skip
    small = budget(total_bytes=5)
    assert [small.read(5), small.truncated, small.read(1), small.truncated] == [True, False, False, True]


def test_an_answer_ends_with_its_matches_or_bytes() -> None:
    few = budget(matches=1)
    assert [few.tell(1), few.truncated, few.tell(1), few.truncated] == [True, False, False, True]
    small = budget(response_bytes=5)
    assert [small.tell(5), small.tell(1), small.truncated] == [True, False, True]
    assert budget(matches=0).tell(5, matches=0)
