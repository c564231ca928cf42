"""A named pipe that nobody else can open: what a child reports without a disk, and without its stdout.

The reading end is open before anybody is told the path, and a writing end stays open with it: a writer never
waits for a reader, and the end of one writer is not the end of the pipe.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from ..errors import HostUnsupported
from .pipes import let_go
from .uids import ours, own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The most that one call takes, so that a writer that never stops cannot hold up an event loop. Every honest
# report fits: an environment larger than this could not be given to a command (see core.snapshot).
READ_BYTES = 1 << 20
_CHUNK = 64 << 10  # what a pipe holds
_NAME = "outfitter-"
_YOUNG_SECONDS = 10
_DEAD = (errno.ENXIO, errno.ENOENT)  # nobody reads it; or it is gone, and its folder is left
# To make a folder and to remove it takes a tenth there of what it takes on a disk.
_MEMORY = "/dev/shm"
# In place of `env`, for a child in a sandbox: that has a /dev/shm of its own.
IN_SIGHT = {"TMPDIR": "/tmp"}
# Characters that no shell gives a meaning to, so that the path can stand in any command line as it is.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+@")


class PrivateFifo:
    """A pipe at `path`, in a new directory that only this user can enter; `fd` is its non-blocking end.

    The directory is made below $XDG_RUNTIME_DIR of `env`, else below its $TMPDIR, else below /dev/shm, else
    below /tmp; the first that is there and in which nobody else can rename things. The path needs no quoting
    in any shell. A context manager.

    Raises HostUnsupported.
    """

    __slots__ = ("_folder", "fd", "path")

    def __init__(self, env: Mapping[str, str]) -> None:
        self.fd = -1
        self._folder = _new_folder(env)
        self.path = f"{self._folder}/report"
        try:
            os.mkfifo(self.path, 0o600)
            os.chmod(self.path, 0o600)  # whatever our umask says
            # Linux opens both ends at once; O_NOFOLLOW because it is the pipe just made or nothing.
            self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            self.close()
            raise HostUnsupported(
                f"cannot create a named pipe in {os.path.dirname(self._folder)} ({error.strerror}): set "
                f"TMPDIR to a directory on a file system that supports them"
            ) from None

    def fileno(self) -> int:
        return self.fd

    def read_available(self) -> bytes:
        """What was written since the last call, at most `READ_BYTES`; empty when there is nothing."""
        parts: list[bytes] = []
        left = READ_BYTES
        while left:
            try:
                part = os.read(self.fd, min(left, _CHUNK))
            except BlockingIOError:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Removes the pipe and its directory, and whatever else was put there. May be called again."""
        folder, self._folder = self._folder, ""
        if folder:
            # First: who opens a pipe that nobody reads waits for ever.
            try:
                os.unlink(f"{folder}/report")
            except OSError:
                pass  # somebody who was told the path removed it, or made it something else
        fd, self.fd = self.fd, -1
        let_go(fd)
        if not folder:
            return
        try:
            os.rmdir(folder)
        except OSError:
            from shutil import rmtree

            rmtree(folder, ignore_errors=True)

    def __enter__(self) -> PrivateFifo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def remove_dead(env: Mapping[str, str]) -> None:
    """Removes the pipes of processes that were killed: nobody reads them any more.

    For those who have the time: it looks at all names in a folder.
    """
    for parent in _parents(env):
        try:
            names = os.listdir(parent)
        except OSError:
            continue
        for name in names:
            if name.startswith(_NAME) and len(name) == len(_NAME) + 16:
                _remove_if_dead(f"{parent}/{name}")
        return  # the first one is where they are made


def _remove_if_dead(folder: str) -> None:
    path = f"{folder}/report"
    try:
        found = os.lstat(folder)
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == own()
        # One that was made just now may not be open yet.
        if not is_ours or abs(time.time() - found.st_mtime) < _YOUNG_SECONDS:
            return
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        if error.errno not in _DEAD:
            return
        try:
            if error.errno == errno.ENXIO:
                os.unlink(path)
            os.rmdir(folder)  # which does nothing if something is in it
        except OSError:
            pass


def _parents(env: Mapping[str, str]) -> Iterator[str]:
    for parent in (env.get("XDG_RUNTIME_DIR", ""), env.get("TMPDIR", ""), _MEMORY, "/tmp"):
        parent = parent.rstrip("/")
        if _is_safe(parent):
            yield parent


def _new_folder(env: Mapping[str, str]) -> str:
    for parent in _parents(env):
        folder = f"{parent}/{_NAME}{os.urandom(8).hex()}"
        try:
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)  # whatever our umask says
        except OSError:
            continue  # read-only, or full
        return folder
    raise HostUnsupported(
        "no directory is suitable for a private pipe: set XDG_RUNTIME_DIR or TMPDIR to one that belongs to "
        "this user and has no spaces or other special characters in its name"
    )


def _is_safe(folder: str) -> bool:
    """Whether a private directory can be made there that stays the one we made."""
    if not folder.startswith("/") or not _PLAIN.issuperset(folder):
        return False
    try:
        found = os.stat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours():
        return False
    # Others who may write there may rename our directory and put theirs in its place, unless it is sticky.
    return not found.st_mode & 0o022 or bool(found.st_mode & stat.S_ISVTX)
