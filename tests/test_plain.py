"""Text of others in front of a person."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outfitter.plain import plain, unbroken


def test_what_steers_a_terminal_is_spelled_out() -> None:
    assert plain("\x1b[2J\u202ex\r") == "\\x1b[2J\\u202ex\\r"
    assert plain("a\n\tb") == "a\n\tb"
    assert plain("a\n\tb", keep="") == "a\\n\\tb"


def test_one_line_stays_one() -> None:
    assert unbroken("a\nb\x1b", " ") == "a b "
    assert unbroken("a\nb") == "a?b"


@given(st.text())
def test_nothing_else_is_left(text: str) -> None:
    assert plain(text, keep="").isprintable()
    assert plain(text).replace("\n", "").replace("\t", "").isprintable()
    assert unbroken(text).isprintable() and len(unbroken(text)) == len(text)
