"""The operations of `host.files` under a confinement: the same calls, the same errors as inside a mount.

What may not be written is on a read-only file system (EROFS), what may not be seen is not there (ENOENT),
what is denied cannot be opened (EACCES), and what a mount would stand on cannot be moved or removed (EBUSY).
One object serves one request: what the rules mean here is found out once.
"""

from __future__ import annotations

import errno
import os
import stat

from ...core.visibility import HIDDEN, LEADS, MASKED, PASSES, READ, WRITE, parent
from ...errors import Refused
from ...record import replace
from .. import files
from ..pipes import let_go
from .grounding import ground
from .pinning import Pinned, Pinning, refusal
from .writing import PLAIN_BITS, ConfinedReplacement, ConfinedUpdate, must_write, spot_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..metadata import Metadata
    from .grounding import Bounds
    from .pinning import Spot

_SET_ID = 0o6000
# Names that are looked at for what a pattern masks, before a folder is moved or removed.
_SCANNED = 200_000


class ConfinedFiles:
    """Files as they are inside a confinement. Raises FileFailed where a rule cannot be enforced."""

    def __init__(self, bounds: Bounds, *, writing: bool) -> None:
        """`writing` says whether anything is to be changed."""
        self.view = ground(bounds, writing=writing)
        self._pinning = Pinning(self.view)
        self._strict = bounds.strict_links

    # Reading

    def open_read(self, path: str, follow: bool = True) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file, and what it is. Raises OSError, Refused."""
        with self._pinning.pin(path, follow=follow) as pinned:
            if stat.S_ISLNK(pinned.found.st_mode):
                raise refusal(errno.ELOOP)
            pinned.must_open()
            self._refuse_special(pinned, path, follow)
            fd = pinned.open(os.O_RDONLY)
            return fd, os.fstat(fd)

    def _refuse_special(self, pinned: Pinned, path: str, follow: bool) -> None:
        if stat.S_ISSOCK(pinned.found.st_mode):
            raise refusal(errno.ENXIO)
        if not stat.S_ISREG(pinned.found.st_mode):
            raise Refused(
                f"path `{files.shown(path)}` is not a file" if follow else "path is not a regular file"
            )

    def metadata(self, path: str, follow: bool = True) -> Metadata:
        """Raises OSError, Refused."""
        with self._pinning.pin(path, follow=follow) as pinned:
            if stat.S_ISLNK(pinned.found.st_mode):
                raise Refused("path contains a symbolic link")
            return _metadata(pinned)

    def canonicalize(self, path: str) -> str:
        with self._pinning.pin(path) as pinned:
            return pinned.path

    def scan_directory(self, path: str) -> tuple[list[str], list[tuple[str, bool, bool]]]:
        """As `host.files` does it; what is hidden is not told, nor are links that lead there."""
        plain: list[str] = []
        others: list[tuple[str, bool, bool]] = []
        with SeenFolder(self, path) as folder:
            for entry in folder:
                if entry.is_file(follow_symlinks=False):
                    plain.append(entry.name)
                elif not entry.is_symlink():
                    others.append((entry.name, entry.is_dir(follow_symlinks=False), False))
                else:
                    try:
                        mode = entry.stat().st_mode
                    except OSError:
                        continue
                    others.append((entry.name, stat.S_ISDIR(mode), stat.S_ISREG(mode)))
        return files.listed(plain, others)

    def describe_directory(self, path: str) -> list[files.Described]:
        """As `host.files` does it, but for links that lead nowhere: they may lead to what is hidden."""
        with SeenFolder(self, path) as folder:
            return files.described(entry.described() for entry in folder)

    def pin(self, path: str, *, follow: bool = True) -> Pinned:
        """Holds on to what is at a path. Raises OSError."""
        return self._pinning.pin(path, follow=follow)

    # For those who walk a tree (host.walk.Sight)

    def stat(self, path: str) -> os.stat_result:
        with self._pinning.pin(path) as pinned:
            return pinned.found

    def is_link(self, path: str) -> bool:
        try:
            with self._pinning.spot(path, follow_last=False) as spot:
                return spot.is_link
        except OSError:
            return False

    def real(self, path: str) -> str:
        try:
            return self.canonicalize(path)
        except OSError:
            return path

    def scan(self, path: str) -> SeenFolder:
        return SeenFolder(self, path)

    # Writing

    def replacement(
        self, path: str, follow: bool = True, mode: int | None = None, *, special: bool = False
    ) -> ConfinedReplacement:
        """Only regular files are written, whatever `special` says."""
        return ConfinedReplacement(self._pinning, path, follow, mode, strict=self._strict)

    def update(self, path: str) -> ConfinedUpdate:
        return ConfinedUpdate(self._pinning, path, strict=self._strict)

    def write_file(self, path: str, data: Iterable[bytes], follow: bool = True) -> None:
        with self.replacement(path, follow) as replacement:
            for piece in data:
                replacement.write(piece)
            replacement.commit()

    def create_directory(self, path: str, recursive: bool, follow: bool = True) -> None:
        missing = [path.rstrip("/") or "/"]
        while True:  # up, to the first that can be made or is there
            try:
                self._make_directory(missing[-1], recursive, follow)
                break
            except FileNotFoundError:
                if not recursive or missing[-1] == "/":
                    raise
                missing.append(parent(missing[-1]))
        for folder in reversed(missing[:-1]):
            self._make_directory(folder, True, follow)

    def _make_directory(self, path: str, may_exist: bool, follow: bool) -> None:
        with spot_to_write(self._pinning, path, follow, follow_last=False) as spot:
            if spot.found is None:
                if not may_exist and self.view.is_place(spot.path) and self._is_writable(spot.folder_path):
                    raise refusal(errno.EEXIST)  # a mount would stand there
                must_write(self.view, spot)
                os.mkdir(spot.name, dir_fd=spot.folder)
                return
            if may_exist and spot.is_folder:
                return
            if may_exist and spot.is_link and follow:
                with self._pinning.pin(path) as pinned:
                    if pinned.is_folder:
                        return
            raise refusal(errno.ENOTDIR if may_exist and spot.is_link and not follow else errno.EEXIST)

    def _is_writable(self, path: str) -> bool:
        return self.view.look(path) == WRITE

    def chmod(self, path: str, mode: int, follow: bool = True) -> None:
        """Raises OSError: EPERM for bits that would lend the server's user to a program."""
        if mode & _SET_ID:
            raise refusal(errno.EPERM)
        with self._pinning.pin(path, follow=follow) as pinned:
            if stat.S_ISLNK(pinned.found.st_mode):
                raise Refused("path contains a symbolic link")
            if pinned.look != WRITE:
                raise refusal(errno.EACCES if pinned.look in (MASKED, PASSES) else errno.EROFS)
            if self._strict and pinned.found.st_nlink > 1 and not pinned.is_folder:
                raise refusal(errno.EPERM)
            os.chmod(pinned.by_descriptor, mode)

    # Names

    def remove(self, path: str, recursive: bool, force: bool, follow: bool = True) -> None:
        """Removes a name: a link itself, never what it leads to. Nothing is removed of a folder in which
        something must stay. Raises OSError, Refused."""
        try:
            with self._pinning.spot(path, follow=follow, follow_last=False) as spot:
                if spot.found is None:
                    raise refusal(errno.ENOENT)
                if spot.is_link and not follow:
                    raise Refused("path contains a symbolic link")
                self._must_take(spot, whole=recursive)
                files.remove_at(spot.folder, spot.name, recursive)
        except FileNotFoundError:
            if not force:
                raise

    def _must_take(self, spot: Spot, *, whole: bool) -> None:
        """Raises OSError unless a name may be taken away, with all below it if `whole`."""
        look = spot.look
        if look in (MASKED, PASSES) and spot.is_folder:
            raise refusal(errno.EACCES)
        if not self._is_writable(spot.folder_path):
            leads = self.view.look(spot.folder_path) in (LEADS, PASSES) and self.view.is_place(spot.path)
            raise refusal(errno.EBUSY if leads else errno.EROFS)
        if look == MASKED or self.view.is_place(spot.path):
            raise refusal(errno.EROFS if look == READ and spot.is_folder else errno.EBUSY)
        if look != WRITE:
            raise refusal(errno.EROFS)
        if whole and spot.is_folder:
            self._must_hold_no_place(spot)

    def _must_hold_no_place(self, spot: Spot) -> None:
        """Raises OSError if a folder has something in it that must stay where and as it is."""
        for place in self.view.within(spot.path):
            if os.path.lexists(
                f"/proc/self/fd/{spot.folder}/{place[len(spot.folder_path.rstrip('/')) + 1 :]}"
            ):
                raise refusal(errno.EROFS if self.view.look(place) == READ else errno.EBUSY)
        if self.view.has_globs and any(map(self._is_masked, self._files_below(spot.path))):
            raise refusal(errno.EBUSY)

    def _is_masked(self, path: str) -> bool:
        return self.view.look_at_file(path) == MASKED

    def _files_below(self, path: str) -> Iterator[str]:
        """Every file in a tree. Raises OSError for one that is too large to look through."""
        left, pending = _SCANNED, [path]
        while pending:
            with SeenFolder(self, pending.pop()) as folder:
                for entry in folder:
                    left -= 1
                    if left < 0:
                        raise refusal(errno.EBUSY)
                    name = f"{folder.path}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(name)
                    else:
                        yield name

    def rename(self, source: str, destination: str, *, replace: bool) -> None:
        """Raises OSError, Refused."""
        from ..rename import rename

        with (
            self._pinning.spot(source, follow_last=False) as old,
            spot_to_write(self._pinning, destination, follow_last=False) as new,
        ):
            if old.found is None:
                raise refusal(errno.ENOENT)
            self._must_take(old, whole=True)
            if new.found is not None:
                self._must_take(new, whole=True)
            elif not must_write(self.view, new):
                raise refusal(errno.EROFS)
            if old.is_folder and self.view.within(new.path):
                raise refusal(errno.EBUSY)  # what lies in it would get names that other rules are for
            rename(old.by_descriptor(), new.by_descriptor(), replace=replace)

    # Copies

    def copy(self, source: str, destination: str, recursive: bool) -> None:
        """A file, a link or a whole folder. Raises OSError, Refused."""
        with self._pinning.spot(source, follow_last=False) as spot:
            if spot.found is None:
                raise refusal(errno.ENOENT)
            mode = spot.found.st_mode
            if stat.S_ISLNK(mode):
                self._copy_link(os.readlink(spot.name, dir_fd=spot.folder), destination)
                return
            path = spot.path
        if stat.S_ISREG(mode):
            self._copy_file(path, destination)
        elif stat.S_ISDIR(mode):
            if not recursive:
                raise Refused("fs/copy requires recursive: true when sourcePath is a directory")
            with self._pinning.pin(path) as pinned:
                pinned.must_open()
            if self._is_within(destination, path):
                raise Refused("fs/copy cannot copy a directory to itself or one of its descendants")
            self._copy_tree(path, destination)
        else:
            raise Refused("fs/copy only supports regular files, directories, and symlinks")

    def _is_within(self, destination: str, source: str) -> bool:
        """Whether a destination, existing or not, lies in the source, by whatever name."""
        place = destination
        while True:
            try:
                with self._pinning.spot(place) as spot:
                    real = spot.path
                break
            except FileNotFoundError:
                place = parent(place)
        return real == source or real.startswith(source.rstrip("/") + "/")

    def _copy_link(self, target: str, destination: str) -> None:
        with spot_to_write(self._pinning, destination, follow_last=False) as spot:
            if spot.found is not None:
                raise refusal(errno.EEXIST)
            must_write(self.view, spot)
            os.symlink(target, spot.name, dir_fd=spot.folder)

    def _copy_file(self, source: str, destination: str) -> None:
        reading, found = self.open_read(source)
        try:
            if self._is_same(destination, found):
                return
            with self.replacement(destination, mode=stat.S_IMODE(found.st_mode)) as replacement:
                files.copy_content(reading, replacement)
                replacement.commit()
        finally:
            let_go(reading)

    def _is_same(self, path: str, found: os.stat_result) -> bool:
        try:
            with self._pinning.pin(path) as pinned:
                return (pinned.found.st_dev, pinned.found.st_ino) == (found.st_dev, found.st_ino)
        except OSError:
            return False

    def _copy_tree(self, source: str, destination: str) -> None:
        """As `host.files` does it; what may not be read in it ends the copy."""
        made: list[tuple[str, int]] = []
        pending = [(source, destination)]
        try:
            while pending:
                here, there = pending.pop()
                with SeenFolder(self, here) as folder:
                    if self._begin_copy(there, folder.mode, with_parents=not made):
                        made.append((there, folder.mode & PLAIN_BITS))
                    for entry in folder:
                        inner, target = f"{here.rstrip('/')}/{entry.name}", f"{there}/{entry.name}"
                        if entry.is_symlink():
                            self._copy_link(entry.link(), target)
                        elif entry.is_dir(follow_symlinks=False):
                            pending.append((inner, target))
                        elif entry.is_file(follow_symlinks=False):
                            self._copy_file(inner, target)
        finally:
            for path, mode in reversed(made):
                self.chmod(path, mode, follow=True)

    def _begin_copy(self, path: str, mode: int, *, with_parents: bool) -> bool:
        """Whether the folder is new. The reference makes its parents, too."""
        if with_parents:
            try:
                with self._pinning.spot(path):
                    pass
            except FileNotFoundError:
                self.create_directory(parent(path), True)
        with self._pinning.spot(path) as spot:
            if spot.found is None:
                must_write(self.view, spot)
                os.mkdir(spot.name, (mode & PLAIN_BITS) | stat.S_IRWXU, dir_fd=spot.folder)
                return True
            if not spot.is_folder:
                raise refusal(errno.EEXIST)
            return False


def _metadata(pinned: Pinned) -> Metadata:
    from ..metadata import Metadata
    from ..statx import statx_at

    if pinned.look in (MASKED, PASSES, LEADS):
        # What stands there in a mount: nothing of the thing itself.
        kind = stat.S_IFMT(pinned.found.st_mode)
        mode = kind | (0o755 if pinned.look == LEADS else 0)
        return Metadata(mode, pinned.through_link, 0, 0, 0)
    told = statx_at(None, pinned.by_descriptor, follow=True)
    return replace(told, is_symlink=True) if pinned.through_link else told


class SeenFolder:
    """What a folder holds, as inside a confinement. Used in a `with` block; its entries, like those of
    os.scandir, are good until its end."""

    __slots__ = ("_entries", "_files", "_filtered", "fd", "mode", "path")

    def __init__(self, confined: ConfinedFiles, path: str, *, follow: bool = True) -> None:
        """Raises OSError."""
        self._files = confined
        with confined.pin(path, follow=follow) as pinned:
            self.path = pinned.path
            self.mode = pinned.found.st_mode
            self.fd = pinned.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._entries = os.scandir(self.fd)
        except BaseException:
            let_go(self.fd)
            raise
        view = confined.view
        self._filtered = view.look(self.path) == LEADS

    def __enter__(self) -> SeenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()
        let_go(self.fd)

    def __iter__(self) -> Iterator[SeenEntry]:
        base, view = self.path.rstrip("/"), self._files.view
        for entry in self._entries:
            if not self._filtered or view.look(f"{base}/{entry.name}") != HIDDEN:
                yield SeenEntry(self._files, base, self.fd, entry)


class SeenEntry:
    """One name in a SeenFolder, with the calls of an os.DirEntry that are used here."""

    __slots__ = ("_base", "_entry", "_fd", "_files", "name")

    def __init__(self, confined: ConfinedFiles, base: str, fd: int, entry: os.DirEntry[str]) -> None:
        self._files = confined
        self._base = base
        self._fd = fd
        self._entry = entry
        self.name = entry.name

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return self._entry.is_file(follow_symlinks=False)

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return self._entry.is_dir(follow_symlinks=False)

    def is_symlink(self) -> bool:
        return self._entry.is_symlink()

    def stat(self) -> os.stat_result:
        """What the name leads to. Raises OSError."""
        with self._files.pin(f"{self._base}/{self.name}") as pinned:
            return pinned.found

    def described(self) -> files.Described | None:
        """As `metadata` tells it, which masks what is denied; None for what is not to be seen."""
        try:
            told = self._files.metadata(f"{self._base}/{self.name}")
            target = os.readlink(self.name, dir_fd=self._fd) if told.is_symlink else None
        except OSError:
            return None
        return files.description(self.name, told.mode, told.size, told.modified_ms, target)

    def link(self) -> str:
        """What a link says. Raises OSError."""
        return os.readlink(self.name, dir_fd=self._fd)
