"""Renaming without replacing, which POSIX has no word for: renameat2(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_AT_FDCWD = -100
_NOREPLACE = 1
# From a C library, kernel or file system that does not know how.
# The last two are one number on Linux, and two on a Mac.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})

_libc = ctypes.CDLL(None, use_errno=True)
_renameat2: Callable[..., int] | None = getattr(_libc, "renameat2", None)


def rename(source: str, destination: str, *, replace: bool) -> None:
    """Gives a file, folder or link another name. Raises OSError: EEXIST, unless `replace`, when the name is
    taken; EXDEV when it would be on another file system."""
    if replace:
        os.rename(source, destination)
        return
    if _renameat2 is not None:
        names = os.fsencode(source), os.fsencode(destination)
        if _renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNKNOWN or _is_below(destination, source):
            raise OSError(number, os.strerror(number))
    _rename_checked(source, destination)


def _is_below(destination: str, source: str) -> bool:
    """A folder cannot go into itself: EINVAL says this, too."""
    return os.path.realpath(destination).startswith(os.path.realpath(source).rstrip("/") + "/")


def _rename_checked(source: str, destination: str) -> None:
    """For file systems without it. A file has both names for a moment, but never replaces anything; of a
    folder, one that is made between our look and the rename is replaced if it is empty."""
    if not stat.S_ISDIR(os.stat(source, follow_symlinks=False).st_mode):
        try:
            os.link(source, destination, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (*_UNKNOWN, errno.EPERM, errno.EMLINK):
                raise
        else:
            os.unlink(source)
            return
    if os.path.lexists(destination):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(source, destination)
