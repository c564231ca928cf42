"""Empty files and folders in the place of what is missing and must stay so.

A sandbox can only protect a name below a writable place if there is something to mount on. So the server makes
it, and removes it when the last command that needs it is gone. Several servers of a user may need the same
one: each holds a shared lock on a note about it. Who can have the lock alone is the last, and removes the
placeholder and the note. A server that is killed loses its locks; the next one tidies up after it.
"""

from __future__ import annotations

import errno
import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

from ...errors import LaunchFailed
from ...log import warn
from ...stdlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .paths import Found, Protected

_ATTEMPTS = 20  # to lock a note that others remove meanwhile; each takes them microseconds
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOTE_BYTES = 8192  # a path and two numbers


class Placeholders:
    """The placeholders of one server. `folder` is where the notes are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # For each path: the locked note, and how many commands need it.
        self.held: dict[str, list[int]] = {}

    def take(self, wanted: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
        """Makes what is missing: paths, and whether each is a folder. Those that are returned are to be given
        back. The others cannot be made: by the server's user, and hence by no command of this user.

        Raises LaunchFailed, having made nothing.
        """
        taken: list[str] = []
        path = ""
        try:
            for path, is_dir in wanted:
                if self._take(path, is_dir):
                    taken.append(path)
        except OSError as error:
            self.give_back(taken)
            raise LaunchFailed(
                f"{os.strerror(error.errno or 0)} (os error {error.errno})",
                errno.errorcode.get(error.errno or 0),
                f"cannot put a placeholder where the sandbox protects a name: {error.filename or path}",
            ) from None
        return tuple(taken)

    def _take(self, path: str, is_dir: bool) -> bool:
        known = self.held.get(path)
        if known is not None:
            known[1] += 1
            return True
        fd = self._locked(path)
        try:
            if _make(path, is_dir):
                made = os.lstat(path)
                os.pwrite(fd, f"{made.st_dev} {made.st_ino} {path}".encode("utf-8", "surrogateescape"), 0)
        except BaseException as error:
            self._let_go(path, fd)
            if isinstance(error, OSError) and error.errno in _NOT_OURS:
                return False
            raise
        self.held[path] = [fd, 1]
        return True

    def give_back(self, paths: Iterable[str]) -> None:
        """One command less needs them."""
        for path in paths:
            known = self.held.get(path)
            if known is None:
                continue
            known[1] -= 1
            if known[1] <= 0:
                del self.held[path]
                self._let_go(path, known[0])

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
            note = os.pread(fd, _NOTE_BYTES, 0).decode("utf-8", "surrogateescape").split(" ", 2)
            self._let_go(note[2] if len(note) == 3 else "", fd)

    def _note(self, path: str) -> str:
        name = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        return f"{self._folder}/{name}"

    def _locked(self, path: str) -> int:
        """The note about a path, locked together with others who need it. Raises OSError."""
        name = self._note(path)
        for _ in range(_ATTEMPTS):
            try:
                fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                continue
            try:
                flock(fd, LOCK_SH)
                if _is(name, fd):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the last one has just removed it
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)

    def _let_go(self, path: str, fd: int) -> None:
        try:
            flock(fd, LOCK_EX | LOCK_NB)
            told = os.pread(fd, _NOTE_BYTES, 0).decode("utf-8", "surrogateescape").split(" ", 2)
            if len(told) == 3 and told[2] == path:
                _remove(path, told[:2])
            note = os.readlink(f"/proc/self/fd/{fd}")
            if _is(note, fd):
                os.unlink(note)
        except BlockingIOError:
            pass  # somebody else needs it still
        except OSError as error:
            warn("server", "a placeholder of a sandbox stays behind at %s: %s", path, error.strerror)
        finally:
            os.close(fd)


def _make(path: str, is_dir: bool) -> bool:
    """False if something is there: another server's, which has written the note, or somebody's own."""
    try:
        if is_dir:
            os.mkdir(path, 0o755)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except FileExistsError:
        return False
    return True


def _remove(path: str, identity: Sequence[str]) -> None:
    """Removes what we have made, if it still is that, and empty."""
    try:
        found = os.lstat(path)
        if [str(found.st_dev), str(found.st_ino)] != list(identity):
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
