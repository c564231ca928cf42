"""Columns for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..plain import unbroken

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their titles, each column as wide as its longest entry."""
    lines = [titles, *([unbroken(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def ago(moment: float) -> str:
    """How long a moment is past, in words."""
    seconds = max(0, int(time.time() - moment))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
