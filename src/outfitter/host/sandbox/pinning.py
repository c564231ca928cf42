"""Finds a path as one would from inside a confinement, and holds on to what it found.

Every name on the way is looked up in a folder that is held by a descriptor, without following links; links
are followed here, one by one, each checked like any other name. What is then done goes through the
descriptors, so nothing that is put in the way meanwhile leads elsewhere. A path without links is opened by
the kernel in one step (openat2), and the real path decides.

Files that the kernel makes up tell of the process that reads them: none is opened here, whoever may.
"""

from __future__ import annotations

import errno
import os
import stat

from ...core.visibility import CLOSED, HIDDEN, MASKED, PASSES, parent
from ..pipes import let_go
from .openat2 import is_kernel_made, pin_without_links

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.visibility import Visibility

_LINKS = 40  # that a path may lead through, as in the kernel
_NAMES = 4096  # looked up for one path, with all its links
_PATH = 4096  # characters of a path: the kernel takes no longer one, and looking at it takes time
_TRIES = 16  # for a place that somebody else changes while we look
_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _NAME | os.O_DIRECTORY


def refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class PlaceMissing(FileNotFoundError):
    """Something that may not be made is missing on the way."""


class Spot:
    """A name in a folder that is held: `folder` is a descriptor, `path` the real path, `found` what has the
    name, None if nothing does, and `look` what is to be seen of it. Used in a `with` block."""

    __slots__ = ("folder", "folder_path", "found", "look", "name", "path", "through_link")

    def __init__(
        self,
        folder: int,
        folder_path: str,
        name: str,
        found: os.stat_result | None,
        look: str,
        through_link: bool,
    ) -> None:
        self.folder = folder
        self.folder_path = folder_path
        self.name = name
        self.path = folder_path if name == "." else f"{folder_path.rstrip('/')}/{name}"
        self.found = found
        self.look = look
        self.through_link = through_link  # the last name that was asked for is a link

    def __enter__(self) -> Spot:
        return self

    def __exit__(self, *_: object) -> None:
        folder, self.folder = self.folder, -1
        if folder >= 0:
            let_go(folder)

    def take_folder(self) -> int:
        """The folder's descriptor, which is the caller's now."""
        folder, self.folder = self.folder, -1
        return folder

    @property
    def is_link(self) -> bool:
        return self.found is not None and stat.S_ISLNK(self.found.st_mode)

    @property
    def is_folder(self) -> bool:
        return self.found is not None and stat.S_ISDIR(self.found.st_mode)

    def by_descriptor(self) -> str:
        """A path to the name that leads through the held folder."""
        return f"/proc/self/fd/{self.folder}/{self.name}"


class Pinned:
    """What was found at a path, held by `fd`, which only names it. Used in a `with` block."""

    __slots__ = ("fd", "found", "look", "path", "through_link")

    def __init__(self, fd: int, path: str, found: os.stat_result, look: str, through_link: bool) -> None:
        self.fd = fd
        self.path = path
        self.found = found
        self.look = look
        self.through_link = through_link

    def __enter__(self) -> Pinned:
        return self

    def __exit__(self, *_: object) -> None:
        let_go(self.fd)

    @property
    def by_descriptor(self) -> str:
        return f"/proc/self/fd/{self.fd}"

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.found.st_mode)

    def open(self, flags: int) -> int:
        """Opens the thing itself. Raises OSError."""
        self.must_open()
        return os.open(self.by_descriptor, flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)

    def must_open(self) -> None:
        """Raises OSError unless its content may be looked at."""
        if self.look in (MASKED, PASSES):
            raise refusal(errno.EACCES)


class Pinning:
    """Paths of one confinement."""

    __slots__ = ("view",)

    def __init__(self, view: Visibility) -> None:
        self.view = view

    # What is there

    def pin(self, path: str, *, follow: bool = True) -> Pinned:
        """Holds on to what is at a path. Without `follow`, a link on the way is no folder, and one at the end
        is what is found. Raises OSError as inside the confinement."""
        if len(path) > _PATH:
            raise refusal(errno.ENAMETOOLONG)
        pinned = self._pin_quickly(plain(path), follow)
        if pinned is not None:
            return pinned
        for _ in range(_TRIES):
            with self.spot(path, follow=follow) as spot:
                if spot.found is None:
                    raise refusal(errno.ENOENT)
                try:
                    fd = os.open(spot.name, _NAME, dir_fd=spot.folder)
                except FileNotFoundError:
                    continue  # it went just now: let us see what is there now
                pinned = self._judged(fd, spot.path, through_link=spot.through_link, is_link=spot.is_link)
                if pinned is not None:
                    return pinned
        raise refusal(errno.EAGAIN)

    def _pin_quickly(self, path: str, follow: bool) -> Pinned | None:
        """The same for a path with no link but at its end; None for any other one."""
        for hop in range(_LINKS):
            fd = pin_without_links(path) if len(path) <= _PATH else -1
            if fd < 0:
                return None
            pinned = self._judged(fd, path, through_link=hop > 0, is_link=True)
            if pinned is None or not follow or not stat.S_ISLNK(pinned.found.st_mode):
                return pinned
            with pinned:
                if pinned.look == MASKED:
                    raise refusal(errno.EACCES)
                path = plain(joined(parent(path), os.readlink("", dir_fd=pinned.fd)))
            if "/../" in f"{path}/":
                return None
        return None

    def _judged(self, fd: int, path: str, *, through_link: bool, is_link: bool = False) -> Pinned | None:
        """What a descriptor is, if it is still where it was found; otherwise closes it."""
        try:
            found = os.fstat(fd)
            if (is_link or not stat.S_ISLNK(found.st_mode)) and real_path(fd) == path:
                look = look_at(self.view, path, found)
                if look == CLOSED:
                    raise refusal(errno.EACCES)
                if look == HIDDEN:
                    raise refusal(errno.ENOENT)
                if is_kernel_made(fd, found.st_dev):
                    if os.stat(parent(path)).st_dev == found.st_dev:
                        raise refusal(errno.EACCES)
                    look = MASKED  # where it is mounted is no secret
                return Pinned(fd, path, found, look, through_link)
        except BaseException:
            let_go(fd)
            raise
        let_go(fd)
        return None

    # Where it is, or would be

    def spot(self, path: str, *, follow: bool = True, follow_last: bool | None = None) -> Spot:
        """The folder and the name that a path means. With `follow_last` a link at the end is followed, too;
        it is as `follow` unless said. Raises OSError."""
        if len(path) > _PATH:
            raise refusal(errno.ENAMETOOLONG)
        walk = _Walk(self.view, follow, follow if follow_last is None else follow_last)
        try:
            return walk.run(path)
        except BaseException:
            let_go(walk.fd)
            raise


class _Walk:
    """One path, name by name. `fd` holds the folder that it has come to, `here` is its real path."""

    __slots__ = ("_follow", "_follow_last", "_links", "_pending", "_view", "device", "fd", "here")

    def __init__(self, view: Visibility, follow: bool, follow_last: bool) -> None:
        self._view = view
        self._follow = follow
        self._follow_last = follow_last
        self._links = 0
        self._pending: list[str] = []  # names to come, the next one last
        self.fd = os.open("/", _FOLDER)
        self.device = os.fstat(self.fd).st_dev
        self.here = "/"

    def run(self, path: str) -> Spot:
        self._pending = _names(path)
        through_link = False
        for _ in range(_NAMES):
            if not self._pending:
                if self.here == "/":
                    return self._spot(".", os.fstat(self.fd), self._view.look("/"), through_link)
                self._restart(self.here)  # what was a link a moment ago is a folder now
                continue
            name = self._pending.pop()
            if name == "..":
                self._restart(parent(self.here))
                continue
            at = f"{self.here.rstrip('/')}/{name}"
            if len(at) > _PATH:
                raise refusal(errno.ENAMETOOLONG)
            look = self._view.look(at)
            if look == CLOSED:
                raise refusal(errno.EACCES)
            if not self._pending:
                found = None if look == HIDDEN else self._stat(name)
                if found is None or not (self._follow_last and stat.S_ISLNK(found.st_mode)):
                    look = look if found is None else look_at(self._view, at, found)
                    return self._spot(name, found, look, through_link)
                through_link = True
            elif look == HIDDEN:
                raise refusal(errno.ENOENT)
            self._enter(name, at)
        raise refusal(errno.ELOOP)

    def _spot(self, name: str, found: os.stat_result | None, look: str, through_link: bool) -> Spot:
        fd, self.fd = self.fd, -1
        return Spot(fd, self.here, name, found, look, through_link)

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _enter(self, name: str, at: str) -> None:
        try:
            inner = os.open(name, _NAME, dir_fd=self.fd)
        except FileNotFoundError as error:
            if self._view.is_place(at):
                raise PlaceMissing(*error.args) from None
            raise
        try:
            found = os.fstat(inner)
            if stat.S_ISLNK(found.st_mode):
                self._follow_link(inner, at)
                return
            if not stat.S_ISDIR(found.st_mode):
                raise refusal(errno.ENOTDIR)
            if found.st_dev != self.device and is_kernel_made(inner, found.st_dev):
                raise refusal(errno.EACCES)
            self.fd, inner = inner, self.fd
            self.device = found.st_dev
            self.here = at
        finally:
            let_go(inner)

    def _follow_link(self, link: int, at: str) -> None:
        if not self._follow:
            raise refusal(errno.ENOTDIR)
        if self._view.look_at_file(at) == MASKED:
            raise refusal(errno.EACCES)
        self._links += 1
        if self._links > _LINKS:
            raise refusal(errno.ELOOP)
        target = os.readlink("", dir_fd=link)
        if target.startswith("/"):
            self._restart("/")
        self._pending += _names(target)

    def _restart(self, path: str) -> None:
        """Goes on with a path from the root: its names come before those that wait."""
        fd = os.open("/", _FOLDER)
        self.fd, fd = fd, self.fd
        let_go(fd)
        self.device = os.fstat(self.fd).st_dev
        self.here = "/"
        self._pending += _names(path)


def look_at(view: Visibility, path: str, found: os.stat_result) -> str:
    return view.look(path) if stat.S_ISDIR(found.st_mode) else view.look_at_file(path)


def _names(path: str) -> list[str]:
    """The names of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def joined(folder: str, target: str) -> str:
    """Where a link in a real folder leads. Dots behind a name are kept: that name may be a link."""
    if target.startswith("/"):
        return target
    while target == ".." or target.startswith("../"):
        folder, target = parent(folder), target[3:]
    return f"{folder.rstrip('/')}/{target}"


def plain(path: str) -> str:
    """A path with single slashes and without single dots."""
    if "//" not in path and "/." not in path and (path == "/" or not path.endswith("/")):
        return path
    return "/" + "/".join(reversed(_names(path)))


def real_path(fd: int) -> str:
    """Where an open file is now."""
    return os.readlink(f"/proc/self/fd/{fd}")
