"""A mount namespace of our own: for the process that makes it, and for what it starts."""

from __future__ import annotations

import ctypes
import os

from .starter import Calls

_NEWNS, _NEWUSER = 0x20000, 0x10000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC = 1, 2, 4, 8, 32, 4096, 16384
_SLAVE = 1 << 19
_MNT_DETACH = 2


class Mounts(Calls):
    """The calls for mounts, which the standard library does not have. All raise OSError."""

    def unshare(self, flags: int) -> None:
        self.check(self.libc.unshare(flags), "unshare")

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        words = [os.fsencode(word) for word in (source, target, kind)]
        data = os.fsencode(options) or None
        self.check(self.libc.mount(*words, ctypes.c_ulong(flags), data), f"mount {target}")

    def unmount(self, target: str) -> None:
        self.check(self.libc.umount2(os.fsencode(target), _MNT_DETACH), "umount")


def entered() -> Mounts:
    """Enters a namespace: what is mounted elsewhere from now on is seen here, and not the other way round.

    For a process with one thread, which an ordinary user needs. Raises OSError.
    """
    mounts = Mounts()
    uid, gid = os.geteuid(), os.getegid()
    try:
        mounts.unshare(_NEWNS)
    except PermissionError:
        # Who is no administrator becomes one in a namespace of users, until it executes something.
        mounts.unshare(_NEWUSER | _NEWNS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    mounts.mount("none", "/", "", REC | _SLAVE)
    return mounts


class Scratch:
    """A folder in memory while a namespace is made: nothing outside sees what is in it."""

    def __init__(self, mounts: Mounts, use: str, flags: int) -> None:
        """Raises OSError."""
        self._mounts = mounts
        self.path = _private_folder(f"outfitter-{use}-{os.urandom(8).hex()}")
        try:
            mounts.mount("none", self.path, "tmpfs", flags | NOSUID | NODEV)
        except BaseException:
            os.rmdir(self.path)
            raise

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self._mounts.unmount(self.path)  # what is mounted from there elsewhere stays
        os.rmdir(self.path)


def _private_folder(name: str) -> str:
    """An empty folder of ours, to mount something on. Raises OSError."""
    for folder in ("/tmp", f"/run/user/{os.geteuid()}", "/dev/shm", "/var/tmp"):
        try:
            os.mkdir(f"{folder}/{name}", 0o700)
        except OSError:
            continue
        return f"{folder}/{name}"
    raise PermissionError(13, "cannot make a folder", "/tmp")
