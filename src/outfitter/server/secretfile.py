"""Files with secrets, or with keys that decide who is let in: refused where others have a hand in them."""

from __future__ import annotations

import os
import select
import time

from ..earlyerrors import SettingInvalid

_LARGEST = 1 << 20  # thousands of tokens or keys; whoever names a device has mistyped
# For somebody to write to a pipe that is read again, while all clients wait. Before there are any, a person
# may first have to type a password.
AGAIN_SECONDS = 1.0


def read(path: str, flag: str, *, secret: bool = True, seconds: float | None = None) -> bytes:
    """The content. Raises SettingInvalid, also when others may read a `secret`, or change what is none, and
    when it is a pipe that has not brought all of it after `seconds`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            found = os.fstat(fd)
            data = _content(fd, seconds)
        finally:
            os.close(fd)
    except TimeoutError:
        raise SettingInvalid(
            f"{flag} {path} is a pipe, and nobody has written all of it within {seconds:g} s"
        ) from None
    except OSError as error:
        raise SettingInvalid(f"{flag} {path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise SettingInvalid(f"{flag} {path} has more than {_LARGEST} bytes")
    others = found.st_mode & (0o077 if secret else 0o022)
    if found.st_uid != os.getuid() and found.st_gid in (os.getgid(), *os.getgroups()):
        others &= ~0o040  # an owner who gave it to our group: so that we can read it and not change it
    if others:
        what = "read" if secret else "change"
        remedy = "chmod 600" if secret else "chmod go-w"
        mode = f"{found.st_mode & 0o777:04o}"
        raise SettingInvalid(
            f"{flag} {path}: other users can {what} it (mode {mode}); run `{remedy} {path}`"
            + (", and write such files after `umask 077`" if secret else "")
        )
    return data


def _content(fd: int, seconds: float | None) -> bytes:
    """All of it, or too much. Raises TimeoutError, OSError."""
    end = None if seconds is None else time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    data = b""
    while len(data) <= _LARGEST:
        # A pipe that nobody has opened yet brings nothing; without looking, it would be at its end.
        if not waiting.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
            raise TimeoutError
        more = os.read(fd, _LARGEST)
        if not more:
            break
        data += more
    return data
