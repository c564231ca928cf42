"""Differences between two environments in words, made from their JSON."""

from __future__ import annotations

from .output import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..colour import Paint

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def lines(differences: Sequence[dict[str, Any]], paint: Paint) -> Iterator[str]:
    """A line for each variable, and one for each entry that a list has won or lost."""
    for one in differences:
        mark, colour = _MARKS[one["kind"]]
        note = "  secret" if one["secret"] else ""
        yield f"  {paint(colour, mark)} {paint('bold', printable(one['name']))}{paint('dim', note)}"
        listed = False
        for key, kind in (("segmentsRemoved", "removed"), ("segmentsAdded", "added")):
            sign, colour = _MARKS[kind]
            for entry in one.get(key, ()):
                listed = True
                yield f"      {paint(colour, sign)} {printable(entry) or '(empty)'}"
        if one.get("moved"):
            yield "      in another order"
        if not listed:
            for key, sign in (("before", "-"), ("after", "+")):
                if key in one:
                    yield f"      {sign} {printable(one[key])}"
