"""outfitter env: what a command would get here."""

from __future__ import annotations

from . import asking
from .output import emit, emit_json, painter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..wishes import Flags


def show(flags: Flags) -> int:
    """Prints it; returns the exit status. Raises OutfitterError."""
    shown = how_much(flags)
    if flags["json"]:
        emit_json(asking.resolve(flags, shown))
        return 0
    from .text import overview

    told = asking.explain(flags, shown)
    emit("\n".join(overview(told, painter(), values=flags["values"])))
    return 0


def how_much(flags: Flags) -> str:
    """ "names", "values" or "secrets": one word alone shows no secret."""
    if not flags["values"]:
        return "names"
    return "secrets" if flags["show_secrets"] else "values"
