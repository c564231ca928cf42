"""Where a command's environment came from, for people. Names and reasons, never values."""

from __future__ import annotations

import os
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from ..protocol.jsontext import Json

_BOLD, _DIM, _GREEN, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR and TERM=dumb say no, FORCE_COLOR says yes, else a terminal does."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def report(variables: list[Json], *, colour: bool, width: int = 100) -> str:
    """What was passed and what was withheld, grouped by where it came from and by which rule."""

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_PLAIN}" if colour else text

    lines = []
    for kept, title, code in ((True, "passed to the command", _GREEN), (False, "withheld", _RED)):
        chosen = [entry for entry in variables if entry["kept"] is kept]
        lines.append(paint(_BOLD, f"{len(chosen)} {'variable' if len(chosen) == 1 else 'variables'} {title}"))
        groups: dict[str, list[str]] = {}
        for entry in chosen:
            reason = entry["origin"]["detail"]
            if entry["rule"] not in reason:
                reason += f"; {entry['rule']}"
            if "replaced" in entry:
                reason += f", replacing the one {entry['replaced']['detail']}"
            groups.setdefault(reason, []).append(entry["name"])
        for reason, names in groups.items():
            lines.append(f"  {paint(code, '+' if kept else '-')} {reason}")
            for row in wrap("  ".join(names), width - 6, break_long_words=False, break_on_hyphens=False):
                lines.append(f"      {paint(_DIM, row)}")
    return "\n".join(lines)
