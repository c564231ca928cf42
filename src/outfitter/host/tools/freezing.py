"""The program that starts tools for which a project's trusted files stay as they were when they were checked.

A file that is mounted over another one is gone as soon as somebody renames something onto that, so an overlay
is laid on the whole folder: its upper part, in memory, has the files as they were checked, and marks names
that were not there. Nobody outside can touch either. Folders without such files are the real ones. What a
tool writes beside them is put into the real folder when all has ended.
"""

from __future__ import annotations

import os
import stat

from ...stdlib import socket
from ..mounts import BIND, NODEV, NOSUID, RDONLY, REC, REMOUNT, Scratch, entered
from ..starter import Calls, packed, receive, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..mounts import Mounts

    # A path below the folder, what is to be there (content, a link's text, None for nothing), and the mode.
    Entry = tuple[str, bytes | str | None, int]

# Before what is told of a project that changes, or has too much: then nothing may be started.
REFUSED = "refused: "
# Folders beside trusted files, and files in folders of which the names count: each is mounted in 0.055 ms, so
# 0.6 s for the largest project.
_MOST_MOUNTS = 10_000
# In place of a mode: a folder that has nothing but the entries in it; and one that has names in it besides,
# each with a NUL behind it, as they are.
CLOSED, LISTED = -1, -2
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotFreezable(Exception):
    """The project is not what it was a moment ago, or too large."""


class FrozenFolder:
    """One project: `top` with `entries` below it as they are given. `outside` are files elsewhere."""

    def __init__(self, top: str, entries: Sequence[Entry], outside: Sequence[tuple[str, bytes]]) -> None:
        """Enters a namespace where it is so. Raises NotFreezable, and OSError where the kernel forbids it."""
        self._entries = {path: (content, mode) for path, content, mode in entries if mode >= 0}
        self._closed = {path for path, _, mode in entries if mode < 0}
        self._names = {
            path: set(content.split(b"\0"))
            for path, content, mode in entries
            if mode == LISTED and isinstance(content, bytes)
        }
        above = {parent for path, *_ in entries for parent in _above(path)} | self._closed
        self._real: dict[str, int] = {}
        self._upper: dict[str, int] = {}
        self._put: dict[str, tuple[int, ...]] = {}
        mounts = entered()
        try:
            for folder in sorted(above):
                self._real[folder] = _opened(self._real, folder, top)
            siblings = self._siblings()
        except OSError as error:
            raise NotFreezable(_told(error)) from None
        try:
            self._mount(mounts, top, siblings, outside)
        except (FileNotFoundError, NotADirectoryError, FileExistsError) as error:
            # Somebody changes it: no reason to do without.
            raise NotFreezable(_told(error)) from None

    def _mount(
        self, mounts: Mounts, top: str, siblings: Sequence[str], outside: Sequence[tuple[str, bytes]]
    ) -> None:
        with Scratch(mounts, "freeze", 0) as here:
            if self._real:
                self._overlay(mounts, here, top, siblings)
            for number, (path, content) in enumerate(outside):
                copy = f"{here}/{number}"
                _write(copy, content, 0o644)
                if _bind(mounts, copy, path):
                    mounts.mount("none", path, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV)

    def _overlay(self, mounts: Mounts, here: str, top: str, siblings: Sequence[str]) -> None:
        for name in ("low", "none", "up", "work"):
            os.mkdir(f"{here}/{name}")
        mounts.mount(f"/proc/self/fd/{self._real['']}", f"{here}/low", "", BIND | REC)
        self._fill(f"{here}/up")
        for path in siblings:
            self._place(path, f"{here}/low", f"{here}/up")
        os.chdir(here)  # paths in options would need quotes
        # An overlay always shows what is in the lower part of its own folder.
        options = f"lowerdir={'none' if '' in self._closed else 'low'},upperdir=up,workdir=work,userxattr"
        mounts.mount("none", top, "overlay", NOSUID | NODEV, options)
        os.chdir("/")
        for path in siblings:
            if not os.path.islink(f"{top}/{path}"):
                _bind(mounts, f"{here}/low/{path}", f"{top}/{path}", REC)

    def _siblings(self) -> list[str]:
        """What has nothing to do with it: folders, and what else is in a folder whose names count."""
        found: list[str] = []
        for folder, fd in self._real.items():
            names = self._names.get(folder)
            with os.scandir(fd) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if path in self._real or path in self._entries:
                        continue
                    if (
                        entry.is_dir(follow_symlinks=False)
                        if names is None
                        else os.fsencode(entry.name) in names
                    ):
                        found.append(path)
            if len(found) > _MOST_MOUNTS:
                raise NotFreezable(
                    f"more than {_MOST_MOUNTS:,} files and directories are beside them. To have them checked "
                    'only before and after, write freeze = "off" under [providers] in your own config.toml'
                )
        return found

    def _place(self, path: str, low: str, up: str) -> None:
        """Where a sibling is to be seen, if its folder shows nothing by itself."""
        if os.path.dirname(path) not in self._names:
            return
        kind = os.lstat(f"{low}/{path}").st_mode
        if stat.S_ISLNK(kind):
            os.symlink(os.readlink(f"{low}/{path}"), f"{up}/{path}")
        elif stat.S_ISDIR(kind):
            os.mkdir(f"{up}/{path}")
        else:
            _write(f"{up}/{path}", b"", 0o644)
        self._put[path] = _stamp(os.lstat(f"{up}/{path}"))

    def _fill(self, up: str) -> None:
        """What covers the real files."""
        for folder, fd in self._real.items():
            if folder:
                os.mkdir(f"{up}/{folder}")
            info = os.fstat(fd)
            os.chmod(f"{up}/{folder}", stat.S_IMODE(info.st_mode))
            if folder in self._closed:
                os.setxattr(f"{up}/{folder}", "user.overlay.opaque", b"y")
            self._upper[folder] = os.open(f"{up}/{folder}", _OPEN_FOLDER)
        for path, (content, mode) in self._entries.items():
            if isinstance(content, bytes):
                _write(f"{up}/{path}", content, mode)
            elif content is not None:
                os.symlink(content, f"{up}/{path}")
            elif os.path.dirname(path) in self._closed:
                continue  # it is not there, and a list of names would have the mark
            else:
                os.mknod(f"{up}/{path}", stat.S_IFCHR, os.makedev(0, 0))  # an overlay's mark
            self._put[path] = _stamp(os.lstat(f"{up}/{path}"))

    # What a tool has written

    def give_back(self) -> list[str]:
        """Puts what was written in the overlay into the real folder; the names of what could not be."""
        failed = []
        for folder, upper in self._upper.items():
            for name in os.listdir(upper):
                path = f"{folder}/{name}" if folder else name
                try:
                    if path not in self._real and _stamp(os.lstat(name, dir_fd=upper)) != self._put.get(path):
                        self._give(path, name, upper, self._real[folder])
                except OSError:
                    failed.append(path)
        return failed

    def _give(self, path: str, name: str, upper: int, real: int) -> None:
        import shutil

        source, target = f"/proc/self/fd/{upper}/{name}", f"/proc/self/fd/{real}/{name}"
        known = self._entries.get(path, (None, 0))[0]
        if isinstance(known, bytes) and _content(target) != known:
            return  # somebody else has changed it
        mode = os.lstat(source).st_mode
        if stat.S_ISCHR(mode):
            os.unlink(target)
        elif stat.S_ISREG(mode) and _content(source) == _content(target):
            # As `touch` and `chmod` leave it; but the time of a trusted file is that of its last change.
            if path not in self._entries:
                _take_over(os.stat(source), target)
        elif stat.S_ISDIR(mode) or stat.S_ISLNK(mode) or stat.S_ISREG(mode):
            # Whole or not at all: others may look, and the disk may be full.
            between = f"/proc/self/fd/{real}/.outfitter-{os.urandom(8).hex()}"
            left_out: list[str] = []
            try:
                if stat.S_ISDIR(mode):
                    shutil.copytree(source, between, symlinks=True, ignore=_without_pipes(left_out))
                else:
                    shutil.copy2(source, between, follow_symlinks=False)
                os.rename(between, target)
            except OSError:
                shutil.rmtree(between, ignore_errors=True)
                if os.path.lexists(between):
                    os.unlink(between)
                raise
            if left_out:
                raise OSError


def _without_pipes(left_out: list[str]) -> Callable[[str, list[str]], list[str]]:
    """Notes what nobody can copy: pipes, sockets, devices."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        kinds = {name: stat.S_IFMT(os.lstat(f"{folder}/{name}").st_mode) for name in names}
        found = [name for name in names if kinds[name] not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK)]
        left_out.extend(found)
        return found

    return ignored


def _told(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _above(path: str) -> list[str]:
    """The folders on the way to a path, from the top on, which is the empty one."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def _opened(known: dict[str, int], folder: str, top: str) -> int:
    above, _, name = folder.rpartition("/")
    return os.open(name, _OPEN_FOLDER, dir_fd=known[above]) if folder else os.open(top, _OPEN_FOLDER)


def _bind(mounts: Mounts, source: str, target: str, more: int = 0) -> bool:
    try:
        mounts.mount(source, target, "", BIND | more)
    except (FileNotFoundError, NotADirectoryError):
        return False  # it went away meanwhile
    return True


def _write(path: str, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, mode)


def _content(path: str) -> bytes | None:
    """What is in a file; None if there is none."""
    try:
        with open(os.open(path, _OPEN_FILE), "rb") as file:
            return file.read()
    except OSError:
        return None


def _take_over(found: os.stat_result, path: str) -> None:
    """Gives a file the mode and the time of another one."""
    fd = os.open(path, _OPEN_FILE)
    try:
        there = os.fstat(fd)
        if there.st_mode != found.st_mode:
            os.fchmod(fd, stat.S_IMODE(found.st_mode))
        if there.st_mtime_ns != found.st_mtime_ns:
            os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(fd)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns)


def main() -> None:
    """Serves until nothing more is asked for, and says then what was not given back."""
    server = socket(1, 1, 0, fileno=0)  # a stream
    request, _ = receive(server)
    try:
        folder = FrozenFolder(*request)
    except NotFreezable as refused:
        server.sendall(packed((f"{REFUSED}{refused}",)))
        return
    except OSError as error:
        server.sendall(packed((_told(error),)))
        return
    server.sendall(packed(("",)))
    serve(server, Calls())
    server.sendall(packed((", ".join(folder.give_back()),)))
