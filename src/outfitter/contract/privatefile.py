"""Files of one user's own state: whole or not there, readable for nobody else, and nobody else's words."""

from __future__ import annotations

import os
import stat

from ..host.uids import own
from ..openers import private_folder

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NotOurs(Exception):
    """Somebody else may have written a file."""


def read(path: str, most: int, *, end: bool = False) -> bytes:
    """A file's first bytes, or its last. Raises NotOurs, OSError."""
    fd = os.open(path, _READ)
    try:
        found = os.fstat(fd)
        # What is in a pipe, others may have written.
        if found.st_uid != own() or found.st_mode & 0o022 or stat.S_ISFIFO(found.st_mode):
            raise NotOurs(path)
        if end:
            os.lseek(fd, max(0, found.st_size - most), os.SEEK_SET)
        data = b""
        while len(data) < most and (more := os.read(fd, most - len(data))):
            data += more
        return data
    finally:
        os.close(fd)


def write(path: str, data: bytes, *, sync: bool = False) -> None:
    """Puts a file in its place once it is complete, and its folder too. Raises OSError: then nothing has
    changed. `sync`: not before it is on the disk, so that it survives a crash of the machine."""
    private_folder(os.path.dirname(path))
    own = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(fd)
        os.rename(own, path)
    except BaseException:
        os.unlink(own)
        raise
