"""outfitter env unset: variables that no later command gets, or words that are taken back."""

from __future__ import annotations

from ...env.overlay import read
from .output import printable, say
from .session import place, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wishes import Flags


def unset_variables(names: Sequence[str], flags: Flags) -> int:
    """Keeps it, or forgets; returns the exit status. Raises OutfitterError."""
    where = place(flags)
    if not flags["forget"]:
        contribution, rejected = read("user", {"unset": list(names)})
        return report([*rejected, *where.put(contribution, merge=True)])
    missing = [name for name in names if not where.drop("user", (name,))]
    for name in missing:
        say(f"{printable(name)} was neither set nor unset for {where.where}")
    return 1 if missing else 0
