"""How a file's metadata is looked up here: by statx, or as everywhere. The choice is made once."""

from __future__ import annotations

from ..system import LINUX

if LINUX:
    from .statx import CachedLookup, statx_at
else:
    from .portable.lookup import CachedLookup, statx_at  # type: ignore[assignment]

__all__ = ["CachedLookup", "statx_at"]
