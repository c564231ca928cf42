"""Metadata by `os.stat`, in place of statx(2)."""

from __future__ import annotations

import os

from ..metadata import of_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from ..metadata import Metadata


def statx_at(folder: int | None, path: str, *, follow: bool) -> Metadata:
    """What a name is. Raises OSError."""
    return of_stat(os.stat(path, dir_fd=folder, follow_symlinks=follow))


class CachedLookup:
    """No system but Linux says whether a lookup would wait for a disk: a thread always looks."""

    def find(self, path: str) -> Metadata | None:
        return None

    def find_plain(self, path: str, devices: Container[int]) -> Metadata | None:
        return None
