"""New content for a file, under a confinement: as `host.files` writes it, but through held folders."""

from __future__ import annotations

import errno
import os
import stat

from ...core.visibility import CLOSED, HIDDEN, LEADS, MASKED, PASSES, WRITE
from ...errors import Refused
from ..files import Replacement, Update
from ..pipes import let_go
from .pinning import PlaceMissing, real_path, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.visibility import Visibility
    from .pinning import Pinning, Spot

# Bits of a mode that would let somebody else's command run as the server's user: they are never set here.
PLAIN_BITS = 0o1777


def must_write(view: Visibility, spot: Spot) -> bool:
    """Whether a name may be made and replaced; False if only what has it may be written. Raises OSError."""
    look, folder = spot.look, view.look(spot.folder_path)
    if look == WRITE and (folder == WRITE or spot.found is not None):
        return folder == WRITE
    if look == CLOSED or (look == HIDDEN and folder == CLOSED):
        raise refusal(errno.EACCES)
    if look == HIDDEN and folder not in (LEADS, PASSES):
        raise refusal(errno.ENOENT)
    raise refusal(errno.EROFS)


def spot_to_write(
    pinning: Pinning, path: str, follow: bool = True, *, follow_last: bool | None = None
) -> Spot:
    """Where something is to be made. Raises OSError."""
    try:
        return pinning.spot(path, follow=follow, follow_last=follow_last)
    except PlaceMissing:
        raise refusal(errno.EROFS) from None  # a mount would stand there


class ConfinedReplacement(Replacement):
    """A Replacement of a path as it is inside a confinement."""

    keeps = PLAIN_BITS

    def __init__(
        self,
        pinning: Pinning,
        path: str,
        follow: bool = True,
        mode: int | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """With `strict`, a file that has other names is not written: one may be outside. Raises OSError,
        Refused."""
        self._pinning = pinning
        self._strict = strict
        self._folder_path = ""
        super().__init__(path, follow, None if mode is None else mode & PLAIN_BITS, special=False)

    def _find(self, path: str, follow: bool) -> None:
        with spot_to_write(self._pinning, path, follow) as spot:
            found = spot.found
            if spot.is_link:
                raise refusal(errno.ELOOP)
            if not follow and spot.look == MASKED and found is not None:
                raise refusal(errno.EACCES)
            if spot.is_folder:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._opaque = not must_write(self._pinning.view, spot)
            if self._strict and found is not None and found.st_nlink > 1:
                raise refusal(errno.EPERM)
            self._folder_path, self._name, self._old = spot.folder_path, spot.name, found
            self._folder = spot.take_folder()

    def _open_in_place(self) -> None:
        if self._old is None or not stat.S_ISREG(self._old.st_mode):
            if self._old is None:
                super()._open_in_place()
            return  # nothing but a regular file is opened at all
        self.fd = open_regular(self._folder, self._name, self._old, os.O_WRONLY | os.O_TRUNC)
        self._in_place = True

    def commit(self) -> None:
        # The folder may have been moved since.
        if real_path(self._folder) != self._folder_path:
            raise refusal(errno.ESTALE)
        super().commit()


def open_regular(folder: int, name: str, found: os.stat_result, flags: int) -> int:
    """Opens a file by its name, if the name still has what was found. Raises OSError."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino) or not stat.S_ISREG(now.st_mode):
            raise refusal(errno.ESTALE)
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    finally:
        let_go(fd)


class ConfinedUpdate(Update):
    """An Update of a path as it is inside a confinement."""

    def __init__(self, pinning: Pinning, path: str, *, strict: bool = False) -> None:
        with spot_to_write(pinning, path) as spot:
            if spot.is_folder:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if spot.found is not None and spot.look == MASKED:
                raise refusal(errno.EACCES)  # the mask says so before its file system does
            must_write(pinning.view, spot)
            if spot.found is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self.fd = os.open(spot.name, flags, 0o666, dir_fd=spot.folder)
                return
            if not stat.S_ISREG(spot.found.st_mode):
                raise Refused(f"path `{path}` is not a file")
            if strict and spot.found.st_nlink > 1:
                raise refusal(errno.EPERM)
            self.fd = open_regular(spot.folder, spot.name, spot.found, os.O_WRONLY)
