"""Looks at files for a sandbox that take long: in a thread, before the command is started.

A pattern may match anything in a large tree. What was found is used by those who wait for it, and forgotten:
the next command looks again.
"""

from __future__ import annotations

import time

from .paths import Found, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.permissions import Confinement

# How old a look may be when its command starts: the loop is that late only on a machine that does not move,
# and then the command looks again.
_FRESH_SECONDS = 1.0


class Scans:
    """What was found for confinements with patterns. From any thread."""

    def __init__(self) -> None:
        self._found: dict[Confinement, tuple[float, Found]] = {}

    def look(self, confinement: Confinement) -> None:
        """Looks now, and blocks."""
        found = look(confinement)
        now = time.monotonic()
        for old in [one for one, (until, _) in list(self._found.items()) if until < now]:
            self._found.pop(old, None)
        self._found[confinement] = (now + _FRESH_SECONDS, found)

    def forget(self, confinement: Confinement) -> None:
        self._found.pop(confinement, None)

    def found(self, confinement: Confinement) -> Found | None:
        """What a look has found just now."""
        until, found = self._found.get(confinement, (0.0, None))
        return found if time.monotonic() <= until else None
