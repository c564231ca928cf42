"""Files with secrets, or with keys that decide who is let in: refused where others have a hand in them."""

from __future__ import annotations

import os

from ..earlyerrors import SettingInvalid

_LARGEST = 1 << 20  # thousands of tokens or keys; whoever names a device has mistyped


def read(path: str, flag: str, *, secret: bool = True) -> bytes:
    """The content. Raises SettingInvalid, also when others may read a `secret`, or change what is none."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(_LARGEST + 1)
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
