"""A file's bytes where nobody can change them any more: what was checked is what runs.

A path leads to something else as soon as somebody renames a file. A sealed copy in memory does not: neither
its owner nor root can write to it.
"""

from __future__ import annotations

import errno
import fcntl
import os

from .pipes import let_go

_MFD_EXEC = 0x10  # needed where `vm.memfd_noexec` is 1; kernels before 6.3 do not know it
_FIRST = 3  # the number that a program has its first descriptor by
# What a program that gets a sealed copy as its first descriptor calls it.
PATH = f"/proc/self/fd/{_FIRST}"


def seal(data: bytes) -> int:
    """A descriptor of a copy, which can be read and executed and not written. Raises OSError."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("sealed", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fd = os.memfd_create("sealed", flags)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        every = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, every)
    except BaseException:
        let_go(fd)
        raise
    return fd


def memory_file(name: str) -> int:
    """A descriptor of an empty file that is on no disk. Raises OSError."""
    return os.memfd_create(name, os.MFD_CLOEXEC)


class Sealed:
    """A sealed copy for one program, which gets `descriptors` and calls the copy `path`. Raises OSError."""

    path = PATH

    def __init__(self, data: bytes) -> None:
        self.descriptors: tuple[int, ...] = (seal(data),)

    def close(self) -> None:
        let_go(*self.descriptors)
        self.descriptors = ()
