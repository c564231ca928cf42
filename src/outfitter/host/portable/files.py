"""What is done to files by calls that every Unix has, in place of `host.linuxfiles`."""

from __future__ import annotations

import errno
import os
import stat

from ...errors import Refused
from ..pipes import let_go

# A folder is opened for reading, which needs the permission to.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNOPENED = frozenset({errno.EACCES, errno.EPERM, errno.ENXIO, errno.EOPNOTSUPP})  # the last two: sockets


def nameless(folder: int, mode: int) -> int:
    """There are no files without a name: -1."""
    return -1


def give_name(fd: int, folder: int, name: str) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def keep_attributes(folder: int, name: str, fd: int) -> None:
    """Extended attributes are not kept: Python has no calls for them here."""


def change_mode(folder: int, name: str, mode: int) -> None:
    """chmod for a name that is no link. Raises OSError, Refused."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused("path contains a symbolic link") from None
        if error.errno not in _UNOPENED:
            raise
        # What cannot be opened can only be named, and the name may lead elsewhere by then.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Refused("path contains a symbolic link") from None
        os.chmod(name, mode, dir_fd=folder)
        return
    try:
        os.fchmod(fd, mode)
    finally:
        let_go(fd)


def copy_by_kernel(reading: int, writing: int) -> None:
    """The kernel copies nothing by itself: the caller does."""


def widen_pipe(fd: int, size: int) -> bool:
    """A pipe is as wide as the system makes it."""
    return False
