"""outfitter env unset: variables that no later command gets, or words that are taken back."""

from __future__ import annotations

from ...env.overlay import read
from .output import emit_json, printable, say
from .session import place, report, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wishes import Flags


def unset_variables(names: Sequence[str], flags: Flags) -> int:
    """Keeps it, or forgets; returns the exit status. Raises OutfitterError."""
    where = place(flags)
    if not flags["forget"]:
        contribution, rejected = read("user", {"unset": list(names)})
        refused = [*rejected, *where.put(contribution, merge=True)]
        return tell(refused, {"where": where.where}, "unset", names) if flags["json"] else report(refused)
    missing = [name for name in names if not where.drop("user", (name,))]
    if flags["json"]:
        forgotten = [name for name in names if name not in missing]
        emit_json({"where": where.where, "forgotten": forgotten, "unknown": missing})
    for name in missing:
        say(f"{printable(name)} was neither set nor unset for {where.where}")
    return 1 if missing else 0
