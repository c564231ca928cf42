"""The kernel's keyring of this user: a few secrets for later processes of the same user, never on a disk.

Every process of the user can read them, as it can read the environment of his commands. They are gone when
their time is over, when the user has no process left, or when the machine restarts. Containers often forbid
the calls: then nothing is kept.
"""

from __future__ import annotations

import errno
import os

from ..system import LINUX

# What one key may hold: a user may have 20,000 bytes in all his keys, by default.
LARGEST = 8 << 10
_NUMBERS = {"x86_64": (248, 250), "aarch64": (217, 219), "riscv64": (217, 219)}  # add_key, keyctl
_PROCESS_KEYRING, _USER_KEYRING = -2, -4
_JOIN_SESSION, _SETPERM, _UNLINK, _LINK, _SEARCH, _READ, _SET_TIMEOUT = 1, 5, 9, 8, 10, 11, 15
# Whoever has it in a keyring: everything. The user: view, read, search. Nobody else.
_PERMISSIONS = 0x3F0B0000


def keep(name: str, data: bytes, seconds: int) -> bool:
    """Keeps it under a name, in place of what was there; whether that worked."""
    if len(data) > LARGEST:
        forget(name)
        return False
    try:
        # First where only this process has it: in the user's keyring nobody may change its permissions.
        key = _call(0, b"user", name.encode(), data, len(data), _PROCESS_KEYRING)
        try:
            _call(1, _SETPERM, key, _PERMISSIONS)
            _call(1, _SET_TIMEOUT, key, seconds)
            _call(1, _LINK, key, _USER_KEYRING)
        finally:
            _call(1, _UNLINK, key, _PROCESS_KEYRING)
    except OSError:
        return False
    return True


def find(name: str) -> bytes | None:
    """What was kept; None when it is not there any more, or nothing can be kept."""
    import ctypes

    try:
        key = _call(1, _SEARCH, _USER_KEYRING, b"user", name.encode(), 0)
        buffer = ctypes.create_string_buffer(LARGEST)
        size = _call(1, _READ, key, buffer, LARGEST)
    except OSError:
        return None
    return buffer.raw[:size] if size <= LARGEST else None


def forget(name: str) -> None:
    try:
        key = _call(1, _SEARCH, _USER_KEYRING, b"user", name.encode(), 0)
        _call(1, _UNLINK, key, _USER_KEYRING)
    except OSError:
        pass


def leave_session() -> None:
    """Gives this thread, and what it starts, an empty keyring in place of that of the login: a process has
    what is in there whoever it becomes. Raises OSError."""
    try:
        _call(1, _JOIN_SESSION, None)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # nobody here can use keyrings
            raise


def _call(which: int, *args: object) -> int:
    """add_key(2) or keyctl(2). Raises OSError."""
    import ctypes

    numbers = _NUMBERS.get(os.uname().machine) if LINUX else None
    if numbers is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result: int = syscall(ctypes.c_long(numbers[which]), *words)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
