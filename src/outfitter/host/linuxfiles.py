"""What only Linux does to files: descriptors that open nothing, nameless files, copies in the kernel."""

from __future__ import annotations

import errno
import os
import stat

from ..errors import Refused
from .pipes import let_go

# How a folder is opened for what is done in it: no permission to read it is needed.
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# Errors that mean: this file system has no files without a name.
_NO_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
# And: the kernel cannot copy between these two.
_NO_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})


def nameless(folder: int, mode: int) -> int:
    """A new file in a folder that has no name yet; -1 where the file system has no such files."""
    try:
        return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
        return -1


def give_name(fd: int, folder: int, name: str) -> None:
    """Gives a nameless file its name. Raises OSError: FileExistsError where somebody has it."""
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)


def keep_attributes(folder: int, name: str, fd: int) -> None:
    """Gives a new file the attributes of the one that it replaces. Raises OSError."""
    source = f"/proc/self/fd/{folder}/{name}"
    try:
        # Not of what a link leads to, should one be there by now.
        names = os.listxattr(source, follow_symlinks=False)
    except OSError:
        return  # a file system without them
    for attribute in names:
        os.setxattr(fd, attribute, os.getxattr(source, attribute, follow_symlinks=False))
    for attribute in os.listxattr(fd):
        # What the folder gives to new files; the old one had none.
        if attribute == "system.posix_acl_access" and attribute not in names:
            os.removexattr(fd, attribute)


def change_mode(folder: int, name: str, mode: int) -> None:
    """chmod for a name that is no link. Raises OSError, Refused."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise Refused("path contains a symbolic link")  # put there since we looked
        # No call takes such a descriptor, but its name here leads to the file alone.
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        let_go(fd)


def copy_by_kernel(reading: int, writing: int) -> None:
    """Copies what is left to read, as far as the kernel does it by itself. Raises OSError."""
    try:
        while os.copy_file_range(reading, writing, 1 << 30):
            pass  # until the end; a file of /proc has no size, and the caller looks again
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise


def widen_pipe(fd: int, size: int) -> bool:
    """Has a pipe hold so much; False for a terminal, or where the user has pipes enough."""
    from fcntl import F_SETPIPE_SZ, fcntl

    try:
        fcntl(fd, F_SETPIPE_SZ, size)
    except OSError:
        return False
    return True
