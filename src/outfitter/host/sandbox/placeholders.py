"""Empty files and folders in the place of what is missing and must stay so.

A sandbox can only protect a name below a writable place if there is something to mount on. So the server
makes it, and removes it when the last command that needs it is gone. Several servers of a user may need the
same ones: for each folder there is a note about what was made in it, on which each of them holds a shared
lock. Who can have the lock alone is the last, and removes the placeholders and the note. A server that is
killed loses its locks; the next one tidies up after it.

Servers of other users, or with another home, have notes of their own and know nothing of ours. So each holds
a shared lock on the folder itself as well, and nothing is removed from a folder that another has locked: a
placeholder that goes away takes with it what another sandbox has mounted on it.
"""

from __future__ import annotations

import errno
import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

from ...core.permissions import covers
from ...errors import LaunchFailed
from ...log import warn
from ...openers import private_folder
from ...stdlib import sha256
from ..pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .paths import Found, Protected

_ATTEMPTS = 20  # to lock what others remove meanwhile; each takes them microseconds
_AGAIN_SECONDS = 0.001
# For who cannot write where the server keeps what outlives it: no home, a full disk, one that is read-only.
REMEDY = "make room there, or start the server with OUTFITTER_HOME set to a folder that its user can write"
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
        # For each folder with placeholders: the locked note, how many commands need them, and the locked
        # folder.
        self.held: dict[str, list[int]] = {}
        self._kept = False  # whether something was left to be removed, for another server

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
                _reason(error.filename or path, path),
                "sandbox",
            ) from None
        return tuple(taken)

    def _hold(self, parent: str) -> None:
        known = self.held.get(parent)
        if known is not None:
            known[1] += 1
        else:
            folder = _locked_folder(parent)
            try:
                self.held[parent] = [self._locked(parent), 1, folder]
            except BaseException:
                let_go(folder)
                raise

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
        entry = _bytes(f"{made.st_dev} {made.st_ino} {path}\0")
        try:
            if os.write(note, entry) < len(entry):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            _remove(path, (made.st_dev, made.st_ino))  # nobody would know of it
            raise OSError(error.errno, error.strerror, self._folder) from None

    def give_back(self, parents: Iterable[str]) -> None:
        """One command less needs the placeholders in these folders."""
        for parent in parents:
            known = self.held.get(parent)
            if known is None:
                continue
            known[1] -= 1
            if known[1] <= 0:
                del self.held[parent]
                let_go(known[2])
                kept = not _let_go(self._note(parent), known[0])
                if self._kept:
                    self.tidy()  # whoever needed them may be gone
                self._kept = self._kept or kept

    def tidy(self) -> None:
        """Removes what servers have left behind that were killed."""
        self._kept = False
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            try:
                fd = os.open(f"{self._folder}/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            if not _let_go(f"{self._folder}/{name}", fd):
                self._kept = True

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
                private_folder(self._folder)
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


def _let_go(name: str, fd: int) -> bool:
    """Removes what a note says, and the note, unless somebody else needs it still, who may not know that it
    is to be removed: then this is False."""
    alone: list[int] = []
    try:
        flock(fd, LOCK_EX | LOCK_NB)
        if _is(name, fd):
            told = os.pread(fd, _NOTE_BYTES, 0).decode("utf-8", "surrogateescape")
            entries = [entry.split(" ", 2) for entry in told.split("\0")[:-1]]
            for folder in {os.path.dirname(path) for *_, path in entries}:
                alone.append(_open_folder(folder))
                if not _lock(alone[-1], LOCK_EX):
                    return False
            for device, inode, path in entries:
                _remove(path, (int(device), int(inode)))
            os.unlink(name)
    except BlockingIOError:
        pass
    except (OSError, ValueError) as error:
        warn("server", "placeholders of a sandbox stay behind: %s", error)
    finally:
        let_go(fd, *alone)
    return True


def _open_folder(path: str) -> int:
    """A descriptor to lock a folder by; -1 where this user may not, and then neither did another server of
    this user."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1


def _lock(folder: int, kind: int) -> bool:
    """Whether we have the lock, as far as the file system has locks at all. Never waits: another program may
    have it for long."""
    try:
        if folder >= 0:
            flock(folder, kind | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _locked_folder(path: str) -> int:
    """The folder, locked together with others who have placeholders there. Raises OSError."""
    fd = _open_folder(path)
    for _ in range(_ATTEMPTS):
        if _lock(fd, LOCK_SH):
            return fd
        time.sleep(_AGAIN_SECONDS)
    let_go(fd)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)


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


def _reason(subject: str, path: str) -> str:
    if subject == os.path.dirname(path):
        return f"another program has locked {subject} (flock), where the sandbox protects {path}: end it"
    if not covers(path, subject):
        return f"cannot write down that the sandbox protects {path}: {subject}; {REMEDY}"
    return f"cannot put a placeholder where the sandbox protects a name: {subject}"


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
