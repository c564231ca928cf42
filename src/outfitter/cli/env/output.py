"""What the commands print: text for people, JSON for programs, and files that are whole or not there."""

from __future__ import annotations

import errno
import os
import stat
import sys

from ...errors import SettingInvalid
from ...plain import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..colour import Paint


def printable(text: str) -> str:
    """On one line, without what would move the cursor or change colours."""
    return plain(text, keep="")


def emit(text: str) -> None:
    """Prints lines; what a stream cannot encode is escaped, and a reader that has gone is no mistake."""
    emit_bytes(f"{text}\n".encode(sys.stdout.encoding or "ascii", "backslashreplace"))


def emit_json(value: object) -> None:
    from json import dumps

    emit(dumps(value, indent=2))


def emit_bytes(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on (`| head`). The interpreter would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """One line for people, beside the answer."""
    write_error(f"outfitter: {plain(text)}\n")


def write_error(text: str) -> None:
    """Puts text on stderr, as it is."""
    try:
        # Not through sys.stderr: what it could not write it would try again when the interpreter ends.
        os.write(2, text.encode(sys.stderr.encoding or "ascii", "backslashreplace"))
    except OSError:
        pass  # nobody is there, or the terminal is gone


def painter() -> Paint:
    from ..colour import Paint, wants_colour

    return Paint(wants_colour(sys.stdout))


def write_whole(
    path: str, data: bytes, *, private: bool = False, like: str | None = None, sync: bool = False
) -> None:
    """Puts a file in its place once it is complete. Raises SettingInvalid.

    Whoever may read and write the file that it replaces may do the same with it, and a link stays one.
    `private`: for its owner alone. With `like` it is a copy of that file, for the same users: a link in its
    place, which may be a project's and lead anywhere, is replaced. `sync`: not before it is on the disk, so
    that a crash of the machine leaves the one or the other.
    """
    try:
        found = _there(path) if like is None else os.stat(like)
        source = like or path
        if like is None:
            path = os.path.realpath(path)
        # Not our pid: in a container the next process has the same, and one that was killed leaves its file.
        own = f"{path}.{os.urandom(4).hex()}.new"
        mode = 0o600 if private or found else 0o666
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(fd, "wb") as file:
                if found and not private:
                    _liken(fd, source, found)
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(fd)
            os.replace(own, path)
        except BaseException:
            os.unlink(own)
            raise
    except OSError as error:
        raise SettingInvalid(f"cannot write {path}: {error.strerror}") from None


def _there(path: str) -> os.stat_result | None:
    """The file that would be replaced. Raises OSError for what is no file: a device, say."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "It is not a file", path)
    return found


def _liken(fd: int, path: str, like: os.stat_result) -> None:
    """Owner and mode, as far as we may give a file away: nobody can read it who could not before."""
    try:
        os.fchown(fd, like.st_uid, like.st_gid)
    except OSError as error:
        # EINVAL: in a namespace of users the file belongs to somebody who has no number there.
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
    # Of a file with an access list, the bits of the group are the most that those may do whom it names.
    os.fchmod(fd, like.st_mode & 0o707)
    if os.fstat(fd).st_gid == like.st_gid:
        try:
            _keep_attributes(path, fd)
        except OSError:
            return  # then not for the group, which may have had less
        os.fchmod(fd, like.st_mode & 0o777)


def _keep_attributes(path: str, fd: int) -> None:
    """Those of the file at `path`, its access list among them. Raises OSError."""
    from ...host.filecalls import FOLDER, keep_attributes

    above, name = os.path.split(os.path.realpath(path))
    folder = os.open(above, FOLDER)
    try:
        keep_attributes(folder, name, fd)
    finally:
        os.close(folder)
