"""What tells about changes in folders here: inotify, or watchfiles. The choice is made once."""

from __future__ import annotations

from ...system import LINUX

if LINUX:
    from .inotify import Inotify as Notifier
    from .inotify import tells_nothing
else:
    from ..portable.notifier import Notifier, tells_nothing  # type: ignore[assignment]

__all__ = ["Notifier", "tells_nothing"]
