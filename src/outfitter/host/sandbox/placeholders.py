"""Empty files and folders in the place of what is missing and must stay so.

A sandbox can only protect a name below a writable place if there is something to mount on. So the server
makes it, and removes it when the last command that needs it is gone. Several servers of a user may need the
same ones: for each folder there is a note about what was made in it, on which each of them holds a shared
lock. Who can have the lock alone is the last, and removes the placeholders and the note. A server that is
killed loses its locks; the next one tidies up after it.
"""

from __future__ import annotations

import errno
import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

from ...errors import LaunchFailed
from ...log import warn
from ...stdlib import sha256
from ..pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .paths import Found, Protected

_ATTEMPTS = 20  # to lock a note that others remove meanwhile; each takes them microseconds
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOTE_BYTES = (
    1 << 20
)  # paths and numbers; a folder has four placeholders, or one for each file that is hidden


# Who looks for repositories tells a placeholder by this, and passes it by: `providers.files.is_repository`.
PLACEHOLDER_MODE = 0o555


class Placeholders:
    """The placeholders of one server. `folder` is where the notes are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # For each folder with placeholders: the locked note, and how many commands need them.
        self.held: dict[str, list[int]] = {}

    def take(self, wanted: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
        """Makes what is missing: paths, and whether each is a folder. Returns the folders that have them now,
        to be given back. What cannot be made by the server's user can be made by no command of this user.

        Raises LaunchFailed, having made nothing.
        """
        taken: list[str] = []
        path = ""
        try:
            for path, is_dir in wanted:
                parent = os.path.dirname(path)
                if parent not in taken:
                    self._hold(parent)
                    taken.append(parent)
                self._make(path, is_dir, self.held[parent][0])
        except OSError as error:
            self.give_back(taken)
            raise LaunchFailed(
                f"{os.strerror(error.errno or 0)} (os error {error.errno})",
                errno.errorcode.get(error.errno or 0),
                f"cannot put a placeholder where the sandbox protects a name: {error.filename or path}",
            ) from None
        return tuple(taken)

    def _hold(self, parent: str) -> None:
        known = self.held.get(parent)
        if known is not None:
            known[1] += 1
        else:
            self.held[parent] = [self._locked(parent), 1]

    def _make(self, path: str, is_dir: bool, note: int) -> None:
        """Nothing, if something is there: another server's, which has written it down, or somebody's own."""
        try:
            if is_dir:
                os.mkdir(path, PLACEHOLDER_MODE)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            return
        except OSError as error:
            if error.errno in _NOT_OURS:
                return
            raise
        made = os.lstat(path)
        os.write(note, _bytes(f"{made.st_dev} {made.st_ino} {path}\0"))

    def give_back(self, parents: Iterable[str]) -> None:
        """One command less needs the placeholders in these folders."""
        for parent in parents:
            known = self.held.get(parent)
            if known is None:
                continue
            known[1] -= 1
            if known[1] <= 0:
                del self.held[parent]
                _let_go(self._note(parent), known[0])

    def tidy(self) -> None:
        """Removes what servers have left behind that were killed."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            try:
                fd = os.open(f"{self._folder}/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            _let_go(f"{self._folder}/{name}", fd)

    def _note(self, parent: str) -> str:
        return f"{self._folder}/{sha256(_bytes(parent)).hexdigest()[:40]}"

    def _locked(self, parent: str) -> int:
        """The note about a folder, locked together with others who need it. Raises OSError."""
        name = self._note(parent)
        for _ in range(_ATTEMPTS):
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                fd = os.open(name, flags, 0o600)
            except FileNotFoundError:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                continue
            try:
                flock(fd, LOCK_SH)
                if _is(name, fd):
                    return fd
            except BaseException:
                let_go(fd)
                raise
            let_go(fd)  # the last one has just removed it
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)


def _let_go(name: str, fd: int) -> None:
    """Removes what a note says, and the note, unless somebody else needs it still."""
    try:
        flock(fd, LOCK_EX | LOCK_NB)
        if _is(name, fd):
            told = os.pread(fd, _NOTE_BYTES, 0).decode("utf-8", "surrogateescape")
            for entry in told.split("\0")[:-1]:
                device, inode, path = entry.split(" ", 2)
                _remove(path, (int(device), int(inode)))
            os.unlink(name)
    except BlockingIOError:
        pass
    except (OSError, ValueError) as error:
        warn("server", "placeholders of a sandbox stay behind: %s", error)
    finally:
        let_go(fd)


def _remove(path: str, identity: tuple[int, int]) -> None:
    """Removes what we have made, if it still is that, and empty."""
    try:
        found = os.lstat(path)
        if (found.st_dev, found.st_ino) != identity:
            return
        if os.path.isdir(path):
            os.rmdir(path)
        elif found.st_size == 0:
            os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _is(path: str, fd: int) -> bool:
    try:
        there, held = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def needed(found: Found) -> list[tuple[str, bool]]:
    """Those for which there is nothing to mount on yet, each with whether it is a folder. What is there and
    empty counts as well: it may be the placeholder of another command, and go away with it."""
    wanted = [(one.path, one.is_dir) for root in found.writable for one in root.protected if not _filled(one)]
    return wanted + [(one.path, one.is_dir) for one in found.hidden if not one.exists]


def _filled(one: Protected) -> bool:
    if not one.exists:
        return False
    try:
        if not one.is_dir:
            return os.lstat(one.path).st_size > 0
        with os.scandir(one.path) as entries:
            return next(entries, None) is not None
    except OSError:
        return True  # who cannot look into it did not make it
