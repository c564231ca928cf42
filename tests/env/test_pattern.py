"""Name patterns: `*` and `?`, whole names, case ignored, everything else literal."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.env import pattern as module
from outfitter.env.names import ascii_fold
from outfitter.env.pattern import (
    MAX_PATTERN_BYTES,
    MAX_PATTERNS,
    MAX_WILDCARD_CHARACTERS,
    Automaton,
    Patterns,
    check,
    fold,
)
from outfitter.errors import LimitExceeded

quick = settings(deadline=None, max_examples=100)

names = st.text(alphabet="aAbB_.\u0131\u0130\u00e9\u00c9\n*?", max_size=8) | st.text(max_size=6)
patterns = st.text(alphabet="aAbB**??_.[\u0131\u0130\u00e9\n", max_size=8)


def fits(pattern: str, name: str) -> bool:
    return Patterns([pattern]).match(fold(name)) is not None


def oracle(pattern: str, name: str) -> bool:
    """The rules as a regular expression over the lower-case forms; several stars are one, for its sake."""
    rules = {"*": ".*?", "?": "."}
    parts = (rules.get(mark) or re.escape(mark) for mark in re.sub(r"\*+", "*", pattern.lower()))
    return re.fullmatch("".join(parts), name.lower(), re.DOTALL) is not None


def slow(pattern: str, name: str) -> bool:
    """The rules by a table of prefixes: all that could fit is tried, each pair once."""
    pattern, name = pattern.lower(), name.lower()
    fits = {(0, 0)}
    for place, mark in enumerate(pattern):
        for at in range(len(name) + 1):
            if (place, at) in fits:
                if mark == "*":
                    fits.update((place + 1, end) for end in range(at, len(name) + 1))
                elif at < len(name) and mark in ("?", name[at]):
                    fits.add((place + 1, at + 1))
    return (len(pattern), len(name)) in fits


@given(patterns, names)
@example("*", "")
@example("**", "a")
@example("a**b", "AB")
@example("?*", "")
@example("*?", "a")
@example("*a*b*", "xAyBz")
@quick
def test_a_pattern_fits_as_its_regular_expression_does(pattern: str, name: str) -> None:
    assert fits(pattern, name) is oracle(pattern, name) is slow(pattern, name)
    if pattern:
        assert Automaton([fold(pattern)]).match(fold(name)) == (0 if oracle(pattern, name) else -1)


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
        ("", [""], ["A"]),
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


starry = st.text(alphabet="ab*?", min_size=1, max_size=10) | st.text(alphabet="a*", min_size=1, max_size=24)


@quick
@given(
    st.lists(patterns | starry, max_size=40),
    st.lists(names | st.text(alphabet="ab", max_size=20), max_size=6),
)
@example(["*" * 30 + "a", "*a*a*a*a*b", "a*"], ["a" * 30, "a" * 30 + "b"])
@example(["?", "a", "*"], ["a", "b", ""])
@example(["a*"] * 17, ["a"])
def test_many_patterns_together_fit_as_each_alone(several: list[str], heard: list[str]) -> None:
    together = Patterns(several)
    for name in heard:
        fitting = (pattern for pattern in several if slow(pattern, name))
        assert together.match(fold(name)) == next(fitting, None)


@quick
@given(
    st.lists(patterns, max_size=6),
    st.lists(patterns, max_size=6),
    st.lists(st.tuples(names, st.booleans()), max_size=6),
)
@example(["a?a", "b"], ["?a?", "*"], [("aaa", True), ("aaa", True), ("", True), ("b", False)])
def test_two_lists_one_after_the_other_fit_as_each_alone(
    first: list[str], second: list[str], heard: list[tuple[str, bool]]
) -> None:
    one, other = Patterns(first), Patterns(second)
    one.then(other)
    for name, both in heard:
        if both:
            assert one.match(fold(name)) == Patterns(first).match(fold(name))
        assert other.match(fold(name)) == Patterns(second).match(fold(name))


def test_few_and_many_patterns_give_the_same_answers() -> None:
    few = ["*KEY*", "FOO*", "*_TOKEN", "BAR"]
    many = [*few, *(f"ZZ{number}*" for number in range(40))]
    for name in map("".join, itertools.product(["", "FOO", "KEY", "BAR"], ["_TOKEN", "", "x"])):
        assert Patterns(few).match(fold(name)) == Patterns(many).match(fold(name))


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of the module are executed: what it does, whatever the clock says."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        if frame.f_code.co_filename != module.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


HARD = [f"*a*{'?a' * number}*b" for number in range(1, 30)]


@pytest.mark.parametrize("several", [HARD[:1], HARD[:8], HARD, ["*a" * 40 + "b"], ["*a*"], ["a*"] * 40])
def test_the_work_grows_with_the_name_alone(several: list[str]) -> None:
    matched = Patterns(several)
    matched.match("a")  # compiles
    one, two, four = (lines_of(lambda n=n: matched.match("a" * n)) for n in (500, 1000, 2000))  # type: ignore[misc]
    assert four - two == 2 * (two - one)  # a straight line
    assert four <= 3 * 2000 + 100


def test_the_work_does_not_grow_with_the_number_of_patterns() -> None:
    # More of them are wider integers, not more steps.
    few, many = Patterns([*HARD[:20]]), Patterns([*HARD, *HARD, *HARD])
    for matched in (few, many):
        matched.match("a")
    assert lines_of(lambda: few.match("a" * 300)) == lines_of(lambda: many.match("a" * 300))


# Limits


@pytest.mark.parametrize(
    "within",
    [
        ["A" * MAX_PATTERN_BYTES] * MAX_PATTERNS,
        ["\u00e9" * (MAX_PATTERN_BYTES // 2)],
        ["*" + "A" * 255] * (MAX_WILDCARD_CHARACTERS // 256),
        [],
    ],
)
def test_lists_within_the_limits_are_taken(within: list[str]) -> None:
    check(within, "exclude")


@pytest.mark.parametrize(
    ("beyond", "message"),
    [
        (
            ["A"] * (MAX_PATTERNS + 1),
            "exclude: 513 patterns, at most 512 are allowed; join some of them with `*`",
        ),
        (
            ["\u00e9" * 129],
            "a pattern of exclude: 258 bytes, at most 256 are allowed; shorten it with `*`",
        ),
        (
            ["*" + "A" * 255] * 4 + ["?"],
            "all patterns with wildcards of exclude: 1025 characters, at most 1024 are allowed; use fewer",
        ),
    ],
)
def test_lists_beyond_the_limits_are_refused(beyond: list[str], message: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        check(beyond, "exclude")
    assert str(refused.value) == message
