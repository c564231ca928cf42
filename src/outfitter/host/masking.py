"""The program that starts commands in a mount namespace of its own, where startup files look empty.

It makes the namespace once, and then starts commands for a server that asks (`starter`). It has one thread,
which an ordinary user needs to enter a user namespace. It must be the commands' own user: who could mask
files as root could mask those that `su` reads.

Who renames a file onto a masked one takes the mask away, in all namespaces; editors do that. So the masks are
looked at before each command, and while commands run the kernel tells when a name comes.
"""

from __future__ import annotations

import os
import select

from ..stdlib import socket
from .mounts import BIND, NODEV, NOEXEC, NOSUID, RDONLY, REMOUNT, Scratch, entered
from .starter import Calls, is_asked, packed, receive, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOVED_TO, _CREATE = 0x80, 0x100
_NONBLOCK, _CLOEXEC = 0x800, 0x80000
_EVENTS = 64 << 10  # bytes at a time; which names came does not matter


class MaskedFiles:
    """A namespace in which these files and folders look empty."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Enters it. Raises OSError."""
        self._paths = paths
        self._mounts = entered()
        self._devices: set[int] = set()  # of what is mounted there
        libc = self._mounts.libc
        self._events = libc.inotify_init1(_NONBLOCK | _CLOEXEC)  # without one, what comes is seen later
        folders = {os.path.dirname(one) for path in paths for one in (path, os.path.realpath(path))}
        for folder in folders if self._events >= 0 else ():
            libc.inotify_add_watch(self._events, os.fsencode(folder), _MOVED_TO | _CREATE)
        self.renew()

    def renew(self) -> None:
        """Masks what is not, or not any more. Raises OSError."""
        bare = [path for path in self._paths if self._is_bare(path)]
        if bare:
            self._mask(bare)

    def _is_bare(self, path: str) -> bool:
        try:
            return os.stat(path).st_dev not in self._devices
        except OSError:
            return False  # it is not there

    def _mask(self, paths: Sequence[str]) -> None:
        mounts = self._mounts
        with Scratch(mounts, "mask", NOEXEC) as here:
            folder, file_ = f"{here}/folder", f"{here}/file"
            os.mkdir(folder, 0o755)
            os.close(os.open(file_, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            flags = NOSUID | NODEV | NOEXEC | RDONLY
            mounts.mount("none", here, "", REMOUNT | flags)  # who writes to one is told so
            self._devices.add(os.stat(here).st_dev)
            for path in paths:
                try:
                    mounts.mount(folder if os.path.isdir(path) else file_, path, "", BIND)
                except FileNotFoundError:
                    continue  # it went away meanwhile

    def is_asked(self, server: socket) -> bool:
        """As `starter.is_asked`, and masks anew what comes meanwhile."""
        while True:
            waiting = [server, self._events] if self._events >= 0 else [server]
            ready, _, _ = select.select(waiting, [], [])
            if self._events in ready:
                os.read(self._events, _EVENTS)
            self.renew()
            if server in ready:
                return is_asked(server)


def main() -> None:
    """Serves until the other end is closed."""
    server = socket(1, 1, 0, fileno=0)  # a stream
    request, _ = receive(server)
    try:
        masked = MaskedFiles(request[0])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        server.sendall(packed((what,)))
        return
    server.sendall(packed(("",)))
    serve(server, Calls(), is_asked=masked.is_asked)
