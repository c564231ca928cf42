"""What fs/getMetadata tells of a file."""

from __future__ import annotations

import stat

from ..record import quick_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


@quick_record
class Metadata:
    """What fs/getMetadata tells; times are milliseconds since 1970."""

    mode: int
    is_symlink: bool
    size: int
    created_ms: int
    modified_ms: int

    @property
    def is_directory(self) -> bool:
        return self.mode & 0o170000 == stat.S_IFDIR

    @property
    def is_file(self) -> bool:
        return self.mode & 0o170000 == stat.S_IFREG


def of_stat(found: os.stat_result) -> Metadata:
    """As far as `os.stat` tells it; some systems tell there when a file was born, others not at all."""
    is_link = found.st_mode & 0o170000 == 0o120000
    born = int(getattr(found, "st_birthtime", 0) * 1000)
    return Metadata(found.st_mode, is_link, found.st_size, born, found.st_mtime_ns // 1_000_000)
