"""One check of `outfitter doctor`, and what came of it."""

from __future__ import annotations

from ...record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .fixes import Fix
    from .machine import Machine

STATUSES = ("error", "warning", "ok", "skipped")


@record
class Finding:
    """What came of one check. `status` is one of `STATUSES`; only "ok" and "skipped" need no `remedy`."""

    status: str
    summary: str
    details: Sequence[str] = ()
    remedy: str = ""
    fix: Fix | None = None  # what of it `--fix` does


@record
class Check:
    """One check. `needs` gather what `decide` takes, in its order; what they gather, they gather once."""

    id: str
    needs: tuple[Callable[[Machine], object], ...]
    decide: Callable[..., Finding]

    @property
    def category(self) -> str:
        return self.id.partition(".")[0]
