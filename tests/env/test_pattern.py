"""Name patterns: `*` and `?`, whole names, case ignored, everything else literal."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.env.pattern import Patterns, ascii_fold, fold, wildcard

quick = settings(deadline=None, max_examples=100)

names = st.text(alphabet="aAbB_.\u0131\u0130\u00e9\u00c9\n*?", max_size=8) | st.text(max_size=6)
patterns = st.text(alphabet="aAbB**??_.[\u0131\u0130\u00e9\n", max_size=8)


def fits(pattern: str, name: str) -> bool:
    return Patterns([pattern]).match(fold(name)) is not None


def oracle(pattern: str, name: str) -> bool:
    """The rules as a regular expression over the lower-case forms."""
    rules = {"*": ".*", "?": "."}
    parts = (rules.get(mark) or re.escape(mark) for mark in pattern.lower())
    return pattern != "" and re.fullmatch("".join(parts), name.lower(), re.DOTALL) is not None


@given(patterns, names)
@example("*", "")
@example("**", "a")
@example("a**b", "AB")
@example("?*", "")
@example("*?", "a")
@example("*a*b*", "xAyBz")
@quick
def test_a_pattern_fits_as_its_regular_expression_does(pattern: str, name: str) -> None:
    assert fits(pattern, name) is oracle(pattern, name)
    if pattern:
        assert wildcard(fold(pattern), fold(name)) is oracle(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("FOO", ["FOO", "foo", "Foo"], ["FO", "FOOO", "XFOO", ""]),
        ("FOO*", ["FOO", "foobar"], ["FO", "AFOO"]),
        ("*FOO", ["FOO", "barfoo"], ["FOOD"]),
        ("*KEY*", ["KEY", "my_key_2", "MONKEY"], ["KE_Y"]),
        ("a?c", ["ABC", "A.C", "a?c"], ["AC", "ABBC"]),
        ("A?", ["AB", "A*"], ["A", "ABC"]),
        ("?", ["A", "\u00e9"], ["", "AB"]),
        ("A*B*C", ["ABC", "AxxBxxC", "ABBCC"], ["ACB", "AB"]),
        ("[F]OO", ["[F]OO"], ["FOO", "F"]),
        (".*", [".", ".x"], ["x", ""]),
        ("*", ["", "A"], []),
        ("", [], ["", "A"]),
    ],
)
def test_the_rows_of_the_rules(pattern: str, fitting: list[str], other: list[str]) -> None:
    assert [name for name in [*fitting, *other] if fits(pattern, name)] == fitting


def test_patterns_ignore_case_by_unicode() -> None:
    assert fits("*K*", "\u212a")  # the Kelvin sign
    assert fits("\u00e9", "\u00c9")
    assert not fits("I", "\u0131")  # a dotless i is another letter


def test_fixed_names_ignore_only_ascii_case() -> None:
    names = ("az_09", "\u0131i", "\u00e9e", "\u017fs", "\u212ak", "stra\u00dfe")
    assert [ascii_fold(name) for name in names] == [
        "AZ_09",
        "\u0131I",
        "\u00e9E",
        "\u017fS",
        "\u212aK",
        "STRA\u00dfE",
    ]


@quick
@given(names)
def test_folding_twice_changes_nothing(name: str) -> None:
    assert fold(fold(name)) == fold(name)
    assert ascii_fold(ascii_fold(name)) == ascii_fold(name)


@quick
@given(st.lists(patterns, max_size=4), names)
def test_a_list_fits_when_one_of_its_patterns_does(several: list[str], name: str) -> None:
    found = Patterns(several).match(fold(name))
    fitting = [pattern for pattern in several if oracle(pattern, name)]
    assert found in fitting if fitting else found is None


def test_the_pattern_is_given_as_it_was_written() -> None:
    patterns = Patterns(["foo", "Bar*", "ba?"])
    assert [patterns.match(fold(name)) for name in ("FOO", "BARN", "BAZ", "QUX")] == [
        "foo",
        "Bar*",
        "ba?",
        None,
    ]


def test_of_several_that_fit_the_first_is_given() -> None:
    assert Patterns(["F*", "FOO"]).match(fold("FOO")) == "F*"


def test_no_pattern_is_slow() -> None:
    # A backtracking matcher would take longer than the universe has.
    assert wildcard("*A" * 40 + "B", "A" * 2000) is False
