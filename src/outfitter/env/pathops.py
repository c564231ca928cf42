"""What a tool did to a list variable, told as operations: a whole new value hides which entries are its own.

Applied to the old value, the operations give the new one, without what never stays in such a list (entries
that are there twice; in PATH also empty and relative ones). What a tool adds to PATH that does not stay is
told nevertheless: somebody has made a mistake, and should hear of it.
"""

from __future__ import annotations

from .layer import Operation
from .lists import ListValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .origin import Origin


def operations(
    base: str | None, new: str, variable: str = "PATH", origin: Origin | None = None
) -> list[Operation]:
    """What turns `base` into `new`: removals, then prepends, then appends; or one replacement.

    A replacement means that the entries of the base are in another order, or have new ones between them.
    `base` is None for a variable that is not set. Equal lists need nothing.
    """
    before = [] if base is None else base.split(":")
    after = new.split(":") if new else []
    wanted = _tidied(variable, after)
    strange = variable == "PATH" and any(not one.startswith("/") for one in after if one not in before)
    if not strange and wanted == _tidied(variable, before):
        return []
    ways = [_around(before, after)]
    ways += [] if strange else [_edits(_tidied(variable, before), wanted)]
    for told in ways:
        found = [Operation(variable, op, tuple(values), origin) for op, values in told if values]
        # Seeing is believing: slashes at the end, empty entries and repetitions have rules of their own.
        if found and _applied(variable, before, found) == wanted:
            return found
    return [Operation(variable, "replace", tuple(after if strange else wanted), origin)]


def _around(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """The old value as it was, with something in front or behind, be it an entry that it already had."""
    extra = len(after) - len(before)
    if extra > 0 and after[extra:] == before:
        return [("prepend", after[:extra])]
    if extra > 0 and before and after[: len(before)] == before:
        return [("append", after[len(before) :])]
    return []


def _edits(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """The rule for the rest: what is left of the old value is in one piece and in its old order."""
    kept = [entry for entry in before if entry in after]
    if not any(before):
        return [("remove", before), ("prepend", after)]
    if not kept:
        return []
    first = after.index(kept[0])
    last = first + len(kept)
    if after[first:last] != kept:
        return []
    removed = [entry for entry in before if entry not in after]
    return [("remove", removed), ("prepend", after[:first]), ("append", after[last:])]


def _tidied(variable: str, entries: Sequence[str]) -> list[str]:
    return _applied(variable, entries, [])


def _applied(variable: str, entries: Sequence[str], several: Sequence[Operation]) -> list[str]:
    value = ListValue(variable)
    if entries:
        value.set(":".join(entries), 0, "base")
    for one in several:
        value.operate(one.op, one.values, 3, "new", None)
    value.tidy()
    return [segment.value for segment in value.segments]
