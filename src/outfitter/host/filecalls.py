"""What Linux and other systems do to files by different calls: chosen once, for `host.files`."""

from __future__ import annotations

from ..system import LINUX

if LINUX:
    from .linuxfiles import (
        FOLDER,
        change_mode,
        copy_by_kernel,
        give_name,
        keep_attributes,
        nameless,
        widen_pipe,
    )
else:
    from .portable.files import (
        FOLDER,
        change_mode,
        copy_by_kernel,
        give_name,
        keep_attributes,
        nameless,
        widen_pipe,
    )

__all__ = [
    "FOLDER",
    "change_mode",
    "copy_by_kernel",
    "give_name",
    "keep_attributes",
    "nameless",
    "widen_pipe",
]
