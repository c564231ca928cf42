"""Files that are in memory, or have no name: of Linux, or of every Unix. The choice is made once."""

from __future__ import annotations

from ..system import LINUX

if LINUX:
    from .sealed import Sealed, memory_file
else:
    from .portable.sealed import Sealed, memory_file  # type: ignore[assignment]

__all__ = ["Sealed", "memory_file"]
