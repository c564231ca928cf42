"""Columns for people."""

from __future__ import annotations

from outfitter.cli.table import table


def test_columns_are_as_wide_as_their_longest_entry() -> None:
    assert table(("ID", "NAME"), [("1", "a"), ("2345", "b")]) == "ID    NAME\n1     a\n2345  b"


def test_lines_have_no_blanks_at_the_end() -> None:
    assert table(("A", ""), [("x", ""), ("y", "why")]) == "A\nx\ny  why"


def test_without_rows_there_are_the_titles() -> None:
    assert table(("ID", "NAME"), []) == "ID  NAME"


def test_name_cannot_move_the_cursor() -> None:
    assert table(("A",), [("\x1b[2Jx\n\r\x9b\u202e",)]) == "A\n?[2Jx????"
