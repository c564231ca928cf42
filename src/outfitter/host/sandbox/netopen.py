"""The program that opens listening sockets in other network namespaces, for a server that asks through its
stdin.

It forks for each request: who has entered a user namespace cannot leave it, and one that has to wait holds up
no other. It has one thread, which an ordinary user needs to enter a user namespace. A request is one packet:
a number, addresses and ports, with a descriptor of the namespace. So is an answer: the number, why not, and
the ports, with the sockets.
"""

from __future__ import annotations

import ctypes
import gc
import marshal
import os
import time
from array import array
from fcntl import ioctl

from ...stdlib import SIG_IGN, signal, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PACKET = 4096  # a request and an answer are a tenth of it
MOST_FDS = 8
_NEWNET, _NEWUSER = 0x40000000, 0x10000000
_NS_GET_USERNS = 0xB701
_SIOCGIFFLAGS, _IFF_UP = 0x8913, 1
_PR_SET_DUMPABLE = 4
_RIGHTS, _SOL_SOCKET, _SIGCHLD = 1, 1, 17
_INET, _INET6, _STREAM, _DATAGRAM, _UNIX, _SEQPACKET = 2, 10, 1, 2, 1, 5
_EMFILE, _ENETDOWN = 24, 100
_BACKLOG = 256  # as many connections as a proxy serves at a time
# Bubblewrap names its process before that process has a loopback: how long it is waited for, and how often it
# is looked at.
_LOOPBACK_SECONDS, _LOOK_SECONDS = 10.0, 0.0002


def main() -> None:
    """Serves until the other end is closed."""
    server = socket(_UNIX, _SEQPACKET, 0, fileno=0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal(_SIGCHLD, SIG_IGN)  # nobody waits for a child
    os.chdir("/")
    gc.collect()
    gc.freeze()  # a child shares what it does not touch
    while True:
        try:
            data, fds = receive(server)
        except ConnectionError:
            return
        if not data:
            return
        if os.fork() == 0:
            try:
                # Where no descriptor was left for it, it did not come; who asked must hear of it.
                _serve(libc, server, marshal.loads(data), fds[0] if fds else -1)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


def receive(sock: socket) -> tuple[bytes, list[int]]:
    """A packet, and the descriptors that came with it. Raises OSError."""
    numbers = array("i")
    data, ancillary, _, _ = sock.recvmsg(PACKET, 24 + MOST_FDS * numbers.itemsize)
    for level, kind, content in ancillary:
        if level == _SOL_SOCKET and kind == _RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    for fd in numbers:
        os.set_inheritable(fd, False)
    return data, list(numbers)


def send(sock: socket, message: tuple[Any, ...], fds: Sequence[int]) -> None:
    """Raises OSError."""
    rights = [(_SOL_SOCKET, _RIGHTS, array("i", fds))] if fds else []
    sock.sendmsg([marshal.dumps(message)], rights)


def _serve(libc: Any, server: socket, request: tuple[Any, ...], namespace: int) -> None:
    number, places = request
    opened: list[socket] = []
    ports: list[int] = []
    why = ""
    try:
        if namespace < 0:
            raise OSError(_EMFILE, os.strerror(_EMFILE), "namespace")
        _enter(libc, namespace)
        _await_loopback()
        for address, port in places:
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
            ports.append(port)
    except OSError as error:
        why = f"{error.filename or 'listening'}: {error.strerror}"
    except Exception as error:
        why = type(error).__name__  # a fault of ours: whoever waits must hear of it
    send(server, (number, why, ports), [] if why else [sock.fileno() for sock in opened])


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


def _await_loopback() -> None:
    """Raises OSError."""
    until = time.monotonic() + _LOOPBACK_SECONDS
    sock = socket(_INET, _DATAGRAM, 0)
    while not ioctl(sock.fileno(), _SIOCGIFFLAGS, b"lo".ljust(40, b"\0"))[16] & _IFF_UP:
        if time.monotonic() > until:
            raise OSError(_ENETDOWN, os.strerror(_ENETDOWN), "loopback")
        time.sleep(_LOOK_SECONDS)
    sock.close()
