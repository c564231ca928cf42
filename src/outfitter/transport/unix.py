"""Listening on a unix socket: a file that only its owner can open, and that does not outlive the server.

The folder must be one where nobody else can put or remove files, and so must be those above it, or another
user's socket could take the place of ours. Above it, a folder such as /tmp will do, in which all can make
files and only the owner of one can rename it.
"""

from __future__ import annotations

import os
import time

from ..earlyerrors import SettingInvalid
from ..stdlib import socket
from ..system import LINUX
from .sockets import BACKLOG, listening_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_AF_UNIX, _SOCK_STREAM = 1, 1
_LONGEST = 107 if LINUX else 103  # bytes of a path that the kernel takes
_S_IFMT, _S_IFSOCK, _S_ISVTX = 0o170000, 0o140000, 0o1000
_LOCK_SECONDS = 5.0  # a server that starts in the same folder has its lock for a millisecond
_LOOK_SECONDS = 0.005
_NOBODY = 65534  # the kernel's number for users whom a namespace does not know
PREFIX = "unix:"


def path_of(url: str) -> str:
    """The absolute path in `unix:PATH` or `unix:///PATH`. Raises SettingInvalid."""
    path = url.removeprefix(PREFIX)
    if path.startswith("//"):
        path = path[2:]
        if not path.startswith("/"):
            path = ""  # a host would come first, and there is none
    if not path or "\0" in path:
        raise SettingInvalid(f"`{url}` has no path: write unix:/PATH or unix:PATH")
    path = os.path.abspath(path)
    size = len(os.fsencode(path))
    if size > _LONGEST:
        raise SettingInvalid(
            f"`{path}` has {size} bytes, and a socket's path at most {_LONGEST}: take a shorter one"
        )
    return path


class UnixPlace:
    """A socket at a path. With `shared`, every user may open it, and somebody else has to look who it is."""

    def __init__(self, path: str, *, shared: bool = False) -> None:
        self._path = path
        self._shared = shared
        self._identity: tuple[int, int] | None = None

    local = True

    @property
    def url(self) -> str:
        return PREFIX + self._path

    def listen(self) -> socket:
        """Raises SettingInvalid."""
        folder = os.path.dirname(self._path)
        try:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SettingInvalid(f"cannot listen on {self.url}: {folder}: {error.strerror}") from None
        try:
            _check_folder(folder, os.fstat(place))
            _check_above(folder)
            _lock(place, folder)  # two servers that start at once must not both find nobody
            self._make_way()
            return self._bind()
        except OSError as error:
            raise SettingInvalid(f"cannot listen on {self.url}: {error.strerror}") from None
        finally:
            os.close(place)

    @property
    def identity(self) -> tuple[int, int] | None:
        return self._identity

    def adopt(self, fd: int, identity: Sequence[int] | None) -> socket:
        """Goes on with a socket that listens there already, and will be removed if it is still there."""
        if identity is not None:
            device, inode = identity
            self._identity = (device, inode)
        return listening_on(fd)

    def _make_way(self) -> None:
        """Removes a socket that a server has left behind; never anything else."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return
        if found.st_mode & _S_IFMT != _S_IFSOCK:
            raise SettingInvalid(
                f"cannot listen on {self.url}: something else has this name; it is not replaced"
            )
        asking = socket(_AF_UNIX, _SOCK_STREAM, 0)
        try:
            asking.setblocking(False)
            asking.connect(self._path)
        except ConnectionRefusedError:
            os.unlink(self._path)
            return
        except BlockingIOError:
            pass  # its queue is full, so there is one
        finally:
            asking.close()
        raise SettingInvalid(f"cannot listen on {self.url}: a server already listens there")

    def _bind(self) -> socket:
        sock = socket(_AF_UNIX, _SOCK_STREAM, 0)
        before = os.umask(0o111 if self._shared else 0o177)
        try:
            sock.bind(self._path)
            found = os.lstat(self._path)
            self._identity = (found.st_dev, found.st_ino)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            self.leave()
            raise
        finally:
            os.umask(before)
        return sock

    def leave(self) -> None:
        """Removes the socket, if it is still ours."""
        try:
            found = os.lstat(self._path)
            if self._identity == (found.st_dev, found.st_ino):
                os.unlink(self._path)
        except OSError:
            pass  # it is gone, or in a folder that is not ours any more
        self._identity = None


def _lock(place: int, folder: str) -> None:
    """Waits for a server that starts there. Whoever can read a folder can lock it, and keep the lock."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            flock(place, LOCK_EX | LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise SettingInvalid(
                    f"another program holds a lock on {folder}, where the socket would be: end it, or make a "
                    "folder that nobody else can read, as with `mkdir -m 700 DIR`"
                ) from None
        time.sleep(_LOOK_SECONDS)


def _check_above(folder: str) -> None:
    """The folders above, also those behind links, and whose each name on the way is."""
    for path in {folder, os.path.realpath(folder)}:
        while path != (above := os.path.dirname(path)):
            found = os.stat(above)
            loose = found.st_mode & 0o022 and not found.st_mode & _S_ISVTX
            if loose or _is_strange(found.st_uid) or _is_strange(os.lstat(path).st_uid):
                where = above if loose or _is_strange(found.st_uid) else path
                raise SettingInvalid(
                    f"other users can replace {folder}, where the socket would be, because they can change "
                    f"{where}: run `chmod go-w {where}` if it is yours, or make a folder in another place"
                )
            path = above


def _is_strange(uid: int) -> bool:
    """Whether it is neither ours nor root's. In a namespace of users, all of root's files are a nobody's."""
    if uid in (os.geteuid(), 0):
        return False
    if uid != _NOBODY:
        return True
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() == [b"0", b"0", b"4294967295"]
    except FileNotFoundError:
        return True  # no such namespaces here


def _check_folder(folder: str, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
        raise SettingInvalid(
            f"other users can change {folder}, where the socket would be: make a folder of your own, as with "
            f"`mkdir -m 700 DIR`"
        )
