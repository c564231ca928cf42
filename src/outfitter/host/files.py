"""What we do to this machine's files. Every call here may block, so none runs on the loop.

Paths are native, absolute strings; bytes outside UTF-8 are surrogate escapes. With `follow=False` no link
is followed anywhere on the way. A file is replaced, never truncated in place, unless it must keep an
identity that a new one would not have (hard links, a mount, a folder that we may not write to): a reader,
or a crash in the middle, sees the old content or the new.
"""

from __future__ import annotations

import errno
import os
import select
import stat

from ..errors import FileFailed, Refused
from ..record import replace
from .filecalls import FOLDER, change_mode, copy_by_kernel, give_name, keep_attributes, nameless
from .pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .metadata import Metadata

    # Name, is a directory, is a file, is a link; size, time in milliseconds, permissions; where a link leads.
    Described = tuple[str, bool, bool, bool, int, int, int, str | None]

MAX_READ = 512 << 20  # the reference's limit for fs/readFile
MAX_LISTED = 50_000  # the reference's limit for fs/readDirectory
_COPY_SIZE = 1 << 20  # read and written at a time where the kernel cannot copy by itself
_TAKER_SECONDS = 30.0  # how long the reader of a FIFO may take nothing before a write to it fails
# Errors of a write that mean: it was a good one. Others are a mistake of whoever asked for it.
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO))
_MOST_MISSING = 128  # blocks that could not be written and may be written again; with more, there is no hope
_KERNELS = ("/proc/", "/dev/")  # where links lead that only the kernel can follow
_MOST_LINKS = 40  # that lead to what a write makes: the kernel's
_NOFOLLOW_DIRECTORY = FOLDER | os.O_NOFOLLOW
# Errors that mean: this name cannot be replaced, but what it names may be writable.
_WRITE_IN_PLACE = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EBUSY,
        errno.EXDEV,
        errno.EROFS,
        errno.EOPNOTSUPP,
        errno.ENOTSUP,
        errno.ENOSYS,
    }
)


def failed(error: OSError) -> FileFailed:
    """The operating system's refusal as ours; the reference's words, and its name for programs."""
    number = error.errno or errno.EIO
    text = _TEXTS.get(number) or os.strerror(number)
    return FileFailed(f"{text} (os error {number})", errno.errorcode.get(number, str(number)))


# The reference is built with musl; where its words differ from ours, its are used.
_TEXTS = {
    errno.ELOOP: "Symbolic link loop",
    errno.EXDEV: "Cross-device link",
    errno.EIO: "I/O error",
    errno.ENOTEMPTY: "Directory not empty",
    errno.ENAMETOOLONG: "Filename too long",
    errno.EBUSY: "Resource busy",
    errno.EMFILE: "No file descriptors available",
    errno.EAGAIN: "Resource temporarily unavailable",
}


# Names without links


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or "/", name or "."


class _Parent:
    """The folder of a path, opened without following a link, and the last name. Close it."""

    def __init__(self, path: str) -> None:
        self.fd = os.open("/", _NOFOLLOW_DIRECTORY)
        folder, self.name = _split(path)
        try:
            for part in folder.split("/"):
                if part:
                    following = os.open(part, _NOFOLLOW_DIRECTORY, dir_fd=self.fd)
                    let_go(self.fd)
                    self.fd = following
        except BaseException:
            let_go(self.fd)
            raise

    def __enter__(self) -> _Parent:
        return self

    def __exit__(self, *_: object) -> None:
        let_go(self.fd)

    def refuse_link(self) -> os.stat_result:
        """What the name is. Raises Refused for a link."""
        found = os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise Refused("path contains a symbolic link")
        return found


# Reading


def open_read(path: str, follow: bool = True) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, and what it is. Raises OSError, Refused."""
    # Non-blocking, so that a FIFO without a writer does not hold us.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    refusal = f"path `{shown(path)}` is not a file" if follow else "path is not a regular file"
    if follow:
        _refuse_special(os.stat(path), refusal)
        fd = os.open(path, flags)
    else:
        with _Parent(path) as parent:
            found = os.stat(parent.name, dir_fd=parent.fd, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                _refuse_special(found, refusal)
            fd = os.open(parent.name, flags | os.O_NOFOLLOW, dir_fd=parent.fd)
    try:
        found = os.fstat(fd)
        _refuse_special(found, refusal)
    except BaseException:
        let_go(fd)
        raise
    return fd, found


def _refuse_special(found: os.stat_result, refusal: str) -> None:
    # Before it is opened, too: opening a device can do things.
    if stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))  # as opening it would
    if not stat.S_ISREG(found.st_mode):
        raise Refused(refusal)


def shown(path: str) -> str:
    """A path for people."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_block(fd: int, offset: int, length: int) -> bytes:
    """Up to `length` bytes; fewer only at the end of the file."""
    data = os.pread(fd, length, offset)
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def metadata(path: str, follow: bool = True) -> Metadata:
    """Raises OSError, Refused."""
    from .lookup import statx_at

    if not follow:
        with _Parent(path) as parent:
            parent.refuse_link()
            return statx_at(parent.fd, parent.name, follow=False)
    own = statx_at(None, path, follow=False)
    if not stat.S_ISLNK(own.mode):
        return own
    return replace(statx_at(None, path, follow=True), is_symlink=True)


def canonicalize(path: str) -> str:
    os.stat(path)  # the kernel's word: realpath() takes what a link says of a file, `file/.`, for the file
    return os.path.realpath(path, strict=True)


def scan_directory(path: str) -> tuple[list[str], list[tuple[str, bool, bool]]]:
    """The names of files, which most entries are; and name, is a directory, is a file of the rest.

    Both are sorted; links are told by what they lead to, dangling ones not. Raises OSError, FileFailed above
    the limit.
    """
    plain: list[str] = []
    others: list[tuple[str, bool, bool]] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                plain.append(entry.name)
            elif entry.is_symlink():
                try:
                    mode = entry.stat().st_mode
                except OSError:
                    continue  # it leads nowhere: to what is not there, in a circle, through a file
                others.append((entry.name, stat.S_ISDIR(mode), stat.S_ISREG(mode)))
            else:
                others.append((entry.name, entry.is_dir(follow_symlinks=False), False))
    return listed(plain, others)


def describe_directory(path: str) -> list[Described]:
    """Each entry with all that is known of it, sorted by name; also links that lead nowhere.

    Raises OSError, FileFailed above the limit.
    """
    with os.scandir(path) as entries:
        return described(_described(entry) for entry in entries)


def described(found: Iterable[Described | None]) -> list[Described]:
    """Those that are still there, sorted. Raises FileFailed above the limit."""
    entries = [one for one in found if one is not None]
    _check_count(len(entries))
    entries.sort()
    return entries


def _described(entry: os.DirEntry[str]) -> Described | None:
    is_link = entry.is_symlink()
    try:
        target = os.readlink(entry.path) if is_link else None
        try:
            found = entry.stat()
        except OSError:  # to what is not there, in a circle, through a file
            found = entry.stat(follow_symlinks=False)
    except OSError:
        return None  # it has gone
    return description(entry.name, found.st_mode, found.st_size, found.st_mtime_ns // 1_000_000, target)


def description(name: str, mode: int, size: int, modified_ms: int, target: str | None) -> Described:
    """`target` is the text of a link, and the rest tells what that leads to; None for what is none."""
    kinds = (stat.S_ISDIR(mode), stat.S_ISREG(mode), target is not None)
    return (name, *kinds, size, modified_ms, stat.S_IMODE(mode), target)


def _check_count(count: int) -> None:
    if count > MAX_LISTED:
        raise FileFailed(f"fs/readDirectory returned {count} entries; limit is {MAX_LISTED}")


def listed(
    plain: list[str], others: list[tuple[str, bool, bool]]
) -> tuple[list[str], list[tuple[str, bool, bool]]]:
    """Both sorted. Raises FileFailed above the limit."""
    _check_count(len(plain) + len(others))
    plain.sort()
    others.sort()
    return plain, others


# Replacing


class Replacement:
    """New content for a path, not there for anybody until `commit`. Used in a `with` block.

    `fd` takes the content. Without a commit the old content stays, and nothing is left behind.
    """

    keeps = 0o7777  # the bits of an old file's mode that its replacement has, too

    def __init__(
        self, path: str, follow: bool = True, mode: int | None = None, *, special: bool = True
    ) -> None:
        """`mode` is that of a new file and replaces that of an old one; without it, the old one's stays.

        Without `special`, or without following links, what is there must be a regular file. Raises OSError,
        Refused.
        """
        self.fd = -1
        self._temporary: str | None = None  # its name, when it has one
        self._folder = -1
        self._name = ""
        self._mode = mode
        self._old: os.stat_result | None = None
        self._in_place = False
        self._missing: dict[int, int] = {}  # blocks that could not be written: where, and the system's number
        self._opaque = False  # the name can be opened, but not be taken apart
        try:
            self._find(path, follow)
            refusal = f"path `{shown(path)}` is not a file" if follow else "path is not a regular file"
            self._open(None if special and follow else refusal)
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    # Where it goes

    def _find(self, path: str, follow: bool) -> None:
        if follow:
            try:
                self._old = os.stat(path)
            except FileNotFoundError:
                # New, or a link to what does not exist yet: the target is made, as by open().
                target = _made_at(path)
            else:
                try:
                    target = os.path.realpath(path, strict=True)
                    # Elsewhere, another file has been put there just now, and may be replaced.
                    if path.startswith(_KERNELS):
                        self._opaque = not os.path.samestat(self._old, os.stat(target))
                except FileNotFoundError:
                    self._opaque = True
                if self._opaque:
                    # Not what its links show: /proc/self/fd/1, /dev/stdout, /proc/PID/root of a container.
                    target = path
            folder, self._name = _split(target)
            self._folder = os.open(folder, FOLDER)
        else:
            with _Parent(path) as parent:
                self._folder, self._name = os.dup(parent.fd), parent.name
            try:
                self._old = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
                if stat.S_ISLNK(self._old.st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            except FileNotFoundError:
                pass
        if self._old is not None and stat.S_ISDIR(self._old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _open(self, refusal: str | None) -> None:
        """`refusal` is for what is no regular file."""
        old = self._old
        if old is not None and not stat.S_ISREG(old.st_mode):
            # There is nothing to replace. A FIFO that nobody reads, and a socket, say so by themselves.
            if refusal is None or stat.S_ISFIFO(old.st_mode) or stat.S_ISSOCK(old.st_mode):
                self._open_in_place()
            if refusal is not None:
                raise Refused(refusal)
            return
        if old is not None and (
            old.st_nlink > 1 or self._opaque or not os.access(self._name, os.W_OK, dir_fd=self._folder)
        ):
            # Other names would keep the old content; and who may not write the file may not replace it.
            self._open_in_place()
            return
        try:
            self._open_new()
        except OSError as error:
            if error.errno not in _WRITE_IN_PLACE:
                raise
            self._let_go_of_new()
            self._open_in_place()

    def _open_in_place(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC
        if self._old is None or stat.S_ISREG(self._old.st_mode):
            flags |= os.O_TRUNC
        if not self._opaque:  # links were followed already; one that is put there now is not
            flags |= os.O_NOFOLLOW
        # Non-blocking: a FIFO that nobody reads is ENXIO, not a wait for ever.
        self.fd = os.open(self._name, flags | os.O_NONBLOCK, 0o666, dir_fd=self._folder)
        self._in_place = True

    def _open_new(self) -> None:
        mode = 0o666 if self._mode is None else self._mode
        self.fd = nameless(self._folder, mode)
        if self.fd < 0:
            # Then a name that says what it is, should we be killed.
            self._temporary = _temporary_name(self._name)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self.fd = os.open(self._temporary, flags, mode, dir_fd=self._folder)
        if self._old is not None:
            self._keep_identity(self._old)

    def _keep_identity(self, old: os.stat_result) -> None:
        """Owner, mode and attributes of the file that is replaced. Raises OSError when one cannot be kept."""
        new = os.fstat(self.fd)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(self.fd, old.st_uid, old.st_gid)
        if self._mode is None:
            os.fchmod(self.fd, old.st_mode & self.keeps)
        keep_attributes(self._folder, self._name, self.fd)

    def _let_go_of_new(self) -> None:
        if self._temporary:
            try:
                os.unlink(self._temporary, dir_fd=self._folder)
            except OSError:
                pass
            self._temporary = None
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            let_go(fd)

    # Content

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd, view) :]
            except BlockingIOError:
                # A FIFO whose reader is slow; gone, it is EPIPE the next time.
                taker = select.poll()
                taker.register(self.fd, select.POLLOUT)
                if not taker.poll(_TAKER_SECONDS * 1000):
                    raise

    def write_at(self, data: bytes, offset: int) -> None:
        try:
            write_at(self.fd, data, offset)
        except OSError as error:
            if error.errno in _NO_ROOM:
                place = offset if len(self._missing) < _MOST_MISSING else -1  # nobody writes there again
                self._missing[place] = error.errno
            raise
        self._missing.pop(offset, None)

    # The end

    def commit(self) -> None:
        """Puts the new content in place. Raises OSError, also where there was no room for a block of it."""
        if self._missing and not self._in_place:
            number = next(iter(self._missing.values()))
            raise OSError(number, os.strerror(number))
        if self._mode is not None and (self._old is None or stat.S_ISREG(self._old.st_mode)):
            os.fchmod(self.fd, self._mode)  # but a device keeps its own
        if not self._in_place:
            if self._temporary is None:
                self._temporary = self._give_name()
            if self._temporary:
                try:
                    os.rename(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
                except OSError as error:
                    if self._old is None or error.errno not in _WRITE_IN_PLACE:
                        raise
                    self._fill_in_place()
            self._temporary = None
        fd, self.fd = self.fd, -1
        os.close(fd)  # a network file system reports what it could not write here

    def _fill_in_place(self) -> None:
        """The name cannot be given to another file, as with one that a container mounts; its content can."""
        assert self._temporary is not None
        os.unlink(self._temporary, dir_fd=self._folder)
        staged, self.fd = self.fd, -1
        try:
            self._open_in_place()
            os.lseek(staged, 0, os.SEEK_SET)
            copy_content(staged, self)
            if self._mode is not None:
                os.fchmod(self.fd, self._mode)
        finally:
            let_go(staged)

    def _give_name(self) -> str:
        """A name for the nameless file; "" when it could have its own at once, because nobody has it."""
        if self._old is None:
            try:
                give_name(self.fd, self._folder, self._name)
                return ""
            except FileExistsError:
                pass  # somebody was quicker; theirs is replaced
        name = _temporary_name(self._name)
        give_name(self.fd, self._folder, name)
        return name

    def discard(self) -> None:
        """Lets go; what was not committed never was."""
        self._let_go_of_new()
        if self._folder >= 0:
            folder, self._folder = self._folder, -1
            let_go(folder)


def _made_at(path: str) -> str:
    """The path of the file that open() would make for one that is not there: a link leads on, but each folder
    on the way must exist, also one that `..` leaves again. Raises OSError."""
    for _ in range(_MOST_LINKS):
        folder, name = _split(path.rstrip("/"))
        os.stat(folder)
        if path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:
            return path  # no link
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _temporary_name(name: str) -> str:
    # A name may have 255 bytes; this one is made of at most 200 of them.
    stem = os.fsdecode(os.fsencode(name)[:200])
    return f".{stem}.outfitter-{os.urandom(6).hex()}"


class Update:
    """A regular file that is written into as it is; it is made if need be. As a Replacement, but not safe."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        self.fd = os.open(path, flags, 0o666)
        try:
            _refuse_special(os.fstat(self.fd), path)
        except BaseException:
            self.discard()
            raise

    def write_at(self, data: bytes, offset: int) -> None:
        write_at(self.fd, data, offset)

    def commit(self) -> None:
        fd, self.fd = self.fd, -1
        os.close(fd)  # a network file system reports what it could not write here

    def discard(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            let_go(fd)


def write_at(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def write_file(path: str, data: Iterable[bytes], follow: bool = True) -> None:
    """Raises OSError, Refused. The old content stays unless all of the new could be written."""
    with Replacement(path, follow) as replacement:
        for piece in data:
            replacement.write(piece)
        replacement.commit()


# Folders


def create_directory(path: str, recursive: bool, follow: bool = True) -> None:
    if not follow:
        _create_without_links(path, recursive)
        return
    missing = [path]
    while True:  # up, to the first that can be made or is there
        try:
            _make_directory(missing[-1], recursive)
            break
        except FileNotFoundError:
            folder, _ = _split(missing[-1])
            if not recursive or folder == missing[-1]:
                raise
            missing.append(folder)
    for folder in reversed(missing[:-1]):
        _make_directory(folder, True)


def _make_directory(path: str, may_exist: bool) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        if not may_exist or not os.path.isdir(path):
            raise


def _create_without_links(path: str, recursive: bool) -> None:
    fd = os.open("/", _NOFOLLOW_DIRECTORY)
    parts = [part for part in path.split("/") if part]
    try:
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            if recursive or last:
                try:
                    os.mkdir(part, dir_fd=fd)
                except FileExistsError:
                    if last and not recursive:
                        raise
            following = os.open(part, _NOFOLLOW_DIRECTORY, dir_fd=fd)
            let_go(fd)
            fd = following
    finally:
        let_go(fd)


# Removing


def remove(path: str, recursive: bool, force: bool, follow: bool = True) -> None:
    """Removes a name: a link itself, never what it leads to. Raises OSError, Refused."""
    if not path.strip("/"):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # in the end; not after all else is gone
    try:
        if follow:
            folder, name = _split(path)
            fd = os.open(folder, FOLDER)
        else:
            with _Parent(path) as parent:
                parent.refuse_link()
                fd, name = os.dup(parent.fd), parent.name
    except FileNotFoundError:
        if force:
            return
        raise
    try:
        remove_at(fd, name, recursive)
    except FileNotFoundError:
        if not force:
            raise
    finally:
        let_go(fd)


def remove_at(folder: int, name: str, recursive: bool) -> None:
    """Removes a name in an open folder; a folder only if it is empty, unless `recursive`. Raises OSError."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    if recursive:
        _empty(folder, name)
    os.rmdir(name, dir_fd=folder)


def _empty(folder: int, name: str) -> None:
    """Removes everything below a folder, however deep, by descriptors: a link that is put in the way while
    we work leads nowhere. One descriptor is open at a time."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    way: list[tuple[str, tuple[int, int]]] = []  # the names down to here, and which folder each is in
    try:
        while True:
            below = _clear(fd)
            if below is not None:
                try:
                    inner = os.open(below, flags, dir_fd=fd)
                except FileNotFoundError:
                    continue  # somebody else removes, too
                way.append((below, _identity(fd)))
                let_go(fd)
                fd = inner
                continue
            if not way:
                return
            done, above = way.pop()
            outer = os.open("..", flags, dir_fd=fd)
            let_go(fd)
            fd = outer
            if _identity(fd) != above:  # moved away with us inside
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            try:
                os.rmdir(done, dir_fd=fd)
            except FileNotFoundError:
                pass
    finally:
        let_go(fd)


def _clear(fd: int) -> str | None:
    """Removes what a folder holds up to the first folder that is not empty; its name."""
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.name, dir_fd=fd)
                else:
                    os.unlink(entry.name, dir_fd=fd)
            except FileNotFoundError:
                continue  # somebody else removes, too
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return entry.name
    return None


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


# Modes


def chmod(path: str, mode: int, follow: bool = True) -> None:
    """Raises OSError, Refused."""
    if follow:
        os.chmod(path, mode)
        return
    with _Parent(path) as parent:
        parent.refuse_link()
        change_mode(parent.fd, parent.name, mode)


# Copying


def copy(source: str, destination: str, recursive: bool) -> None:
    """A file, a link or a whole folder. Raises OSError, Refused."""
    found = os.stat(source, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), destination)
    elif stat.S_ISREG(found.st_mode):
        _copy_file(source, destination, found)
    elif stat.S_ISDIR(found.st_mode):
        if not recursive:
            raise Refused("fs/copy requires recursive: true when sourcePath is a directory")
        if _is_within(destination, source):
            raise Refused("fs/copy cannot copy a directory to itself or one of its descendants")
        _copy_tree(source, destination)
    else:
        raise Refused("fs/copy only supports regular files, directories, and symlinks")


def _is_within(destination: str, source: str) -> bool:
    """Whether the destination, existing or not, lies in the source, by whatever name."""
    real = os.path.realpath(source)
    place = os.path.realpath(destination)
    return place == real or place.startswith(real.rstrip("/") + "/")


def _copy_file(source: str, destination: str, found: os.stat_result) -> None:
    try:
        there = os.stat(destination)
    except FileNotFoundError:
        there = None
    if there is not None and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino):
        return  # the same file by another name: it has its own content already
    reading, found = open_read(source)
    try:
        with Replacement(destination, mode=stat.S_IMODE(found.st_mode)) as replacement:
            copy_content(reading, replacement)
            replacement.commit()
    finally:
        let_go(reading)


def copy_content(reading: int, replacement: Replacement) -> None:
    """All that is left to read. Raises OSError."""
    copy_by_kernel(reading, replacement.fd)
    while data := os.read(reading, _COPY_SIZE):
        replacement.write(data)


def _copy_tree(source: str, destination: str) -> None:
    """Merges into a folder that exists; links are copied as links, special files not at all."""
    made: list[tuple[str, int]] = []
    pending = [(source, destination)]
    try:
        while pending:
            here, there = pending.pop()
            mode = stat.S_IMODE(os.stat(here).st_mode)
            if _begin_copy(there, mode | stat.S_IRWXU, with_parents=not made):
                made.append((there, mode))
            with os.scandir(here) as entries:
                for entry in entries:
                    target = f"{there}/{entry.name}"
                    if entry.is_symlink():
                        os.symlink(os.readlink(entry.path), target)
                    elif entry.is_dir():
                        pending.append((entry.path, target))
                    elif entry.is_file():
                        _copy_file(entry.path, target, entry.stat())
    finally:
        # Afterwards, and from below: a folder that forbids writing would have stopped its own copy.
        for folder, mode in reversed(made):
            os.chmod(folder, mode)


def _begin_copy(path: str, mode: int, *, with_parents: bool) -> bool:
    """Whether the folder is new. The reference makes its parents, too."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    except FileNotFoundError:
        if not with_parents:
            raise
        create_directory(_split(path)[0], True)
        os.mkdir(path, mode)
    return True
