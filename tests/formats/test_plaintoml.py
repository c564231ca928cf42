"""TOML that is read without tomllib: the same as with it, or not at all."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outfitter.formats.plaintoml import loads

PLAIN = [
    "",
    "# nothing\n\n",
    'a = "x"\nb = 1 # one\nc = true\nd = false\ne = -7\nf = 0\n',
    "'a b' = 'c\\d'\n\"e\" = 'x\"y'\n",
    "\t[a]\nb = 1\n[a.b2.c-d]\ne = []\n[a.b2]\nf = 2 \t\n",
    "[[a]]\nb = 1\n[[a]]\n[c]\n[[c.d]]\ne = 'f'\n",
    "a = [\n  1, # one\n\n  [2, 3],\n  'four',\n]\nb = [ ]\n",
    "a = {}\nb = { c = 1, d = { e = [1, { f = 'g' }] } }\n",
    "a = [1\n,\n2 # two\n]\n",
    "a = 123456789012345678\n",
    f"a = {'[' * 16}{']' * 16}",
    f"a = {'{ b = ' * 16}1{' }' * 16}",
]
LEFT = [  # TOML, but not plain; or not TOML at all
    "a = 1.5",
    "a = 1_000",
    "a = +1",
    "a = 0x1f",
    "a = inf",
    "a = 1979-05-27",
    "a = 07:32:00",
    "a = 1979-05-27 07:32:00",
    'a = "x\\n"',
    'a = """x"""',
    "a = '''x'''",
    "a.b = 1",
    "[a . b]\n",
    '["a"]\n',
    "[ a ]\n",
    "a = 1\r\n",
    "a = 1234567890123456789\n",
    "[[a]]\n[a.b]\n",
    f"a = {'[' * 17}{']' * 17}",
    f"a = {'{ b = ' * 17}1{' }' * 17}",
    "a = [1.5]",
    "a = { b = 1.5 }",
    "a = { b = 07:32:00 }",
    "a = 1\na = 2",
    "[a]\n[a]",
    "a = {}\n[a]",
    "a = {}\n[a.b]",
    "a = []\n[[a]]",
    "[a]\n[[a]]",
    "[[a]]\n[a]",
    "[a]\nb = 1\n[a.b]",
    "a = 01",
    "a = -",
    "a =",
    "a",
    "= 1",
    "a = 1 b = 2",
    "[a] b = 1",
    "[a",
    "[[a]",
    "[]",
    "[a.]",
    "a = [1 2]",
    "a = [,]",
    "a = [1,,2]",
    "a = [1",
    "a = {b = 1,}",
    "a = {b = 1",
    "a = {b = 1 c = 2}",
    "a = {b = 1, b = 2}",
    "a = {\nb = 1}",
    "a = 'x",
    "a = \x00",
    "a = '\x7f'",
    "# \x01",
    "a = TRUE",
    "a = ٣",
]


def reference(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_read(text: str) -> None:
    assert loads(text) == tomllib.loads(text)


@pytest.mark.parametrize("text", LEFT)
def test_all_else_is_left(text: str) -> None:
    assert loads(text) is None
    assert loads(f"x = 1\n{text}\n") is None


@given(
    st.lists(st.sampled_from([*PLAIN, *LEFT]).flatmap(lambda one: st.sampled_from(one.splitlines() or [""])))
)
@example(["[a.b]", "[a]", "[a.b]"])
@example(["[[a]]", "b = 1", "[[a]]", "b = 2"])
def test_lines_in_any_order_are_read_as_by_tomllib(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = loads(text)
    assert found is None or found == reference(text)


@given(st.text(alphabet="ab[]{}=.,\"'# \t\n\\01-_tTé\x0b"))
def test_any_text_is_read_as_by_tomllib(text: str) -> None:
    found = loads(text)
    assert found is None or found == reference(text)


def test_types_are_the_same() -> None:
    assert [type(one) for one in (loads("a = [true, 1, '']") or {})["a"]] == [bool, int, str]


def test_own_files_are_plain() -> None:
    root = Path(__file__).parents[2]
    text = (root / "pyproject.toml").read_text()
    assert loads(text) in (None, tomllib.loads(text))
