"""The program that opens listening sockets in other network namespaces, for a server that asks through its
stdin.

It forks for each request: who has entered a user namespace cannot leave it. It has one thread, which an
ordinary user needs to enter one. Messages are those of `host.masking`. The request is a list of addresses and
ports, with a descriptor of the namespace; the answer is why not, or where, with the sockets.
"""

from __future__ import annotations

import ctypes
import gc
import os
from array import array
from fcntl import ioctl

from ...stdlib import socket
from ..starter import packed, receive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEWNET, _NEWUSER = 0x40000000, 0x10000000
_NS_GET_USERNS = 0xB701
_PR_SET_DUMPABLE = 4
_RIGHTS, _SOL_SOCKET = 1, 1
_INET, _INET6, _STREAM = 2, 10, 1
_BACKLOG = 256  # as many connections as a proxy serves at a time


def main() -> None:
    """Serves until the other end is closed."""
    server = socket(1, 1, 0, fileno=0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.chdir("/")
    gc.collect()
    gc.freeze()  # a child shares what it does not touch
    while True:
        try:
            request, fds = receive(server)
        except (EOFError, ConnectionError):
            return
        pid = os.fork()
        if pid == 0:
            try:
                _serve(libc, server, request, fds[0])
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        for fd in fds:
            os.close(fd)


def _serve(libc: Any, server: socket, request: tuple[Any, ...], namespace: int) -> None:
    opened: list[socket] = []
    places: list[tuple[str, int]] = []
    why = ""
    try:
        _enter(libc, namespace)
        for address, port in request[0]:
            sock = socket(_INET6 if ":" in address else _INET, _STREAM, 0)
            try:
                sock.bind((address, port))
                sock.listen(_BACKLOG)
            except OSError:
                sock.close()
                if ":" not in address:
                    raise
                continue  # a machine without IPv6
            opened.append(sock)
            places.append((address, port))
    except OSError as error:
        why = f"{error.filename or 'listening'}: {error.strerror}"
    rights = array("i", [sock.fileno() for sock in opened])
    server.sendmsg([packed((why, places))], [(_SOL_SOCKET, _RIGHTS, rights)] if not why else [])


def _enter(libc: Any, namespace: int) -> None:
    """Raises OSError."""
    if libc.setns(namespace, _NEWNET) == 0:
        return
    # Who is no administrator becomes one in the user namespace that it belongs to.
    owner = ioctl(namespace, _NS_GET_USERNS)
    for fd, kind in ((owner, _NEWUSER), (namespace, _NEWNET)):
        if libc.setns(fd, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "setns")
