"""YAML of skills: texts, lists and tables, and nothing that a stranger could make large or odd."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.formats.yaml import parse, parse_loosely


def test_every_scalar_is_a_text() -> None:
    text = "a: 5\nb: true\nc: [1, x]\nd: {e: null}\nf: >\n  two\n  lines\n"
    assert parse(text) == {"a": "5", "b": "true", "c": ["1", "x"], "d": {"e": "null"}, "f": "two lines\n"}
    assert parse("") is None


@pytest.mark.parametrize(
    "text",
    ["a: [", "a: 1\na: 2", "[1, 2]: x", "a: &x [*x]", "a: b: c", "\x00", "a: " + "[" * 100 + "]" * 100],
)
def test_what_is_no_yaml_for_people_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_aliases_cannot_multiply() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ValueError, match="too deep or too large"):
        parse("\n".join(lines))


def test_texts_that_need_quotes_are_taken_as_they_stand() -> None:
    assert parse_loosely("a: b: c\nd: @e\nf: it's") == {"a": "b: c", "d": "@e", "f": "it's"}
    with pytest.raises(ValueError):
        parse_loosely("a: [b: c")


@given(st.text())
def test_nothing_else_is_raised(text: str) -> None:
    try:
        parse_loosely(text)
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["a: {}", "{}", "a: b\n---\n{}"])
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_a_document_that_is_too_deep_ends_nobody(opening: str, text: str) -> None:
    # In a process of its own: PyYAML's way through it ended that.
    code = f"from outfitter.formats import yaml; yaml.parse({text!r}.format({opening!r} * 100_000))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, b"\nValueError: not YAML" in done.stderr) == (1, True)
