"""The program that starts commands in a mount namespace of its own, where startup files look empty.

It makes the namespace once, and then starts commands for a server that asks (`starter`). It has one thread,
which an ordinary user needs to enter a user namespace. It must be the commands' own user: who could mask
files as root could mask those that `su` reads.
"""

from __future__ import annotations

import os

from ..stdlib import socket
from .mounts import BIND, NODEV, NOEXEC, NOSUID, RDONLY, REMOUNT, Scratch, entered
from .starter import Calls, packed, receive, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def mask(paths: Sequence[str]) -> None:
    """Enters a namespace in which these files and folders look empty. Raises OSError."""
    mounts = entered()
    with Scratch(mounts, "mask", NOEXEC) as here:
        folder, file_ = f"{here}/folder", f"{here}/file"
        os.mkdir(folder, 0o755)
        os.close(os.open(file_, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        flags = NOSUID | NODEV | NOEXEC | RDONLY
        mounts.mount("none", here, "", REMOUNT | flags)  # who writes to one is told so
        for path in paths:
            try:
                mounts.mount(folder if os.path.isdir(path) else file_, path, "", BIND)
            except FileNotFoundError:
                continue  # it went away meanwhile


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
