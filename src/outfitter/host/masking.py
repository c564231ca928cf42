"""The program that starts commands in a mount namespace of its own, where startup files look empty.

It makes the namespace once, and then starts commands for a server that asks (`starter`). It has one thread,
which an ordinary user needs to enter a user namespace. It must be the commands' own user: who could mask
files as root could mask those that `su` reads.
"""

from __future__ import annotations

import ctypes
import os

from ..stdlib import socket
from .starter import Calls, packed, receive, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NEWNS, _NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_MS_REC, _MS_SLAVE = 16384, 1 << 19
_MNT_DETACH = 2


class _Mounts(Calls):
    """What it takes to make files look empty."""

    def unshare(self, flags: int) -> None:
        self.check(self.libc.unshare(flags), "unshare")

    def mount(self, source: str, target: str, kind: str, flags: int) -> None:
        words = [os.fsencode(word) for word in (source, target, kind)]
        self.check(self.libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")

    def unmount(self, target: str) -> None:
        self.check(self.libc.umount2(os.fsencode(target), _MNT_DETACH), "umount")


def mask(paths: Sequence[str]) -> None:
    """Enters a namespace in which these files and folders look empty. Raises OSError."""
    mounts = _Mounts()
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
    # What is mounted elsewhere from now on is seen here; what is mounted here is not seen elsewhere.
    mounts.mount("none", "/", "", _MS_REC | _MS_SLAVE)
    here = _private_folder()
    try:
        mounts.mount("none", here, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        folder, file_ = f"{here}/folder", f"{here}/file"
        os.mkdir(folder, 0o755)
        os.close(os.open(file_, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RDONLY
        mounts.mount("none", here, "", _MS_REMOUNT | flags)  # who writes to one is told so
        for path in paths:
            try:
                mounts.mount(folder if os.path.isdir(path) else file_, path, "", _MS_BIND)
            except FileNotFoundError:
                continue  # it went away meanwhile
        mounts.unmount(here)
    finally:
        os.rmdir(here)


def _private_folder() -> str:
    """An empty folder of ours, to mount something on. Raises OSError."""
    name = f"outfitter-mask-{os.urandom(8).hex()}"
    for folder in ("/tmp", f"/run/user/{os.geteuid()}", "/dev/shm", "/var/tmp"):
        try:
            os.mkdir(f"{folder}/{name}", 0o700)
        except OSError:
            continue
        return f"{folder}/{name}"
    raise PermissionError(13, "cannot make a folder", "/tmp")


def main() -> None:
    """Serves until the other end is closed."""
    server = socket(1, 1, 0, fileno=0)  # a stream
    request, _ = receive(server)
    try:
        mask(request[0])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        server.sendall(packed((what,)))
        return
    server.sendall(packed(("",)))
    serve(server, Calls())
