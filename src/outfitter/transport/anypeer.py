"""Whose the other end of a connection is, on a Unix that is not Linux.

A unix socket has credentials that `getpeereid` or, on a Mac, LOCAL_PEERCRED tells. Of TCP nobody but `lsof`
knows: it shows the sockets of our own user, and to root those of all. It takes some 50 ms, so a server with
many strangers should have tokens (`--ws-auth`), for which nobody has to look.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..stdlib import socket
    from .sockets import End

_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1  # macOS and FreeBSD, <sys/un.h>
_XUCRED = 76  # bytes of struct xucred, <sys/ucred.h>: version, uid, number of groups, 16 groups
_LSOF = ("/usr/sbin/lsof", "/usr/bin/lsof", "/usr/local/sbin/lsof")
_SECONDS = 10.0  # so long clients wait for an answer; most often it takes 50 ms. Nobody is served meanwhile


def get_ready() -> None:
    """Loads what `owner` needs, so that it needs no descriptor when the server has none left."""
    import subprocess  # noqa: F401


def credentials(sock: socket) -> int | None:
    """The user at the other end of a unix socket."""
    try:
        return peer_of(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED))
    except OSError:
        return _by_getpeereid(sock.fileno())


def peer_of(said: bytes) -> int | None:
    """The user in what LOCAL_PEERCRED says; None for a version that nobody knows."""
    import sys

    version, uid = (int.from_bytes(said[place : place + 4], sys.byteorder) for place in (0, 4))
    return uid if len(said) >= 8 and version == 0 else None


def _by_getpeereid(fd: int) -> int | None:
    import ctypes

    ask = getattr(ctypes.CDLL(None), "getpeereid", None)
    uid, gid = ctypes.c_uint(), ctypes.c_uint()
    if ask is None or ask(fd, ctypes.byref(uid), ctypes.byref(gid)) != 0:
        return None
    return uid.value


def owner(theirs: End, ours: End) -> tuple[int | None, int]:
    """The user whose TCP socket on this machine has the address `theirs` and is connected to `ours`; and 0,
    as no such system numbers sockets."""
    import subprocess

    program = next((path for path in _LSOF if os.access(path, os.X_OK)), None)
    if program is None:
        return None, 0
    # This user's alone, by numbers, one field per line; an address in brackets is IPv6.
    words = [program, "-nP", "-a", f"-iTCP:{theirs[1]}", "-sTCP:ESTABLISHED", "-Fun"]
    try:
        said = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None, 0
    return owner_in(said.stdout, f"{_shown(theirs)}->{_shown(ours)}"), 0


def _shown(end: End) -> str:
    host = end[0].removeprefix("::ffff:") if "." in end[0] else end[0]
    return f"[{host}]:{end[1]}" if ":" in host else f"{host}:{end[1]}"


def owner_in(said: bytes, pair: str) -> int | None:
    """Whose process, in what `lsof -F` says, has a socket with this pair of addresses."""
    uid = None
    for line in said.decode("utf-8", "replace").splitlines():
        if line[:1] == "p":
            uid = None
        elif line[:1] == "u" and line[1:].isdigit():
            uid = int(line[1:])
        elif line[:1] == "n" and line[1:] == pair:
            return uid
    return None
