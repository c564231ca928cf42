"""How paths that are missing are waited for here: inotify tells, or looks do. The choice is made once."""

from __future__ import annotations

from ...system import LINUX

if LINUX:
    from .missing import MissingWatch
else:
    from ..portable.missing import MissingWatch  # type: ignore[assignment]

__all__ = ["MissingWatch"]
