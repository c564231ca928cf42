"""Openers of files, for `open(path, opener=...)`: none of them waits for a pipe's other end. And folders for
one user alone."""

from __future__ import annotations

import errno
import os
import stat


def at_once(path: str, flags: int) -> int:
    """Opens a file that a person names: a pipe has ended at once if nobody writes to it."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(fd, True)
    return fd


def plain_file(path: str, flags: int) -> int:
    """Opens a file of a fixed name. Raises OSError if a pipe or a device is in its place: a terminal would
    wait for somebody to type. `/dev/null` is an empty file."""
    fd = at_once(path, flags)
    found = os.fstat(fd)
    if stat.S_ISFIFO(found.st_mode):
        what = "pipe"
    elif stat.S_ISCHR(found.st_mode) and not os.path.samestat(found, os.stat(os.devnull)):
        what = "device"
    else:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, f"It is a {what}, not a file", path)


def private_folder(path: str) -> None:
    """Makes a folder, and those above it that are missing, each for this user alone. `os.makedirs` has a mode
    for the last one only: with a umask of 0 everybody could replace it. Raises OSError."""
    above = os.path.dirname(path)
    if above and not os.path.exists(above):
        private_folder(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
