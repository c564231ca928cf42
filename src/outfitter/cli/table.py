"""Columns for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their titles, each column as wide as its longest entry."""
    lines = [titles, *([_printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _printable(text: str) -> str:
    """Without what would move the cursor: a program's name is whatever somebody called it."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)
