"""Listening and accepting without the `socket` module, whose import costs as much as the interpreter's start.

`_socket` is what it wraps; only these two calls differ. Everything else a connection needs (recv, sendmsg,
setsockopt, shutdown) is the same object.
"""

from __future__ import annotations

import os

from ..earlyerrors import SettingInvalid
from ..stdlib import AF_INET6, SO_REUSEADDR, SOL_SOCKET, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    End = tuple[str, int]  # an IP address and a port

    class Place(Protocol):
        """A way to listen."""

        local: bool  # nobody on another machine can reach it

        @property
        def url(self) -> str:
            """What a client dials; the port is known once it listens."""

        def listen(self) -> socket:
            """Raises SettingInvalid."""

        @property
        def identity(self) -> tuple[int, int] | None:
            """What tells that which it has left outside of the process from another one in its place."""

        def adopt(self, fd: int, identity: Sequence[int] | None) -> socket:
            """Goes on with a socket that listens there already."""

        def leave(self) -> None:
            """Removes what it has left outside of the process."""

    class Stream(Protocol):
        """What a transport needs of a connection that does not block: a socket, or TLS over one."""

        def fileno(self) -> int: ...
        def recv(self, size: int, /) -> bytes: ...
        def send(self, data: bytes, /) -> int: ...
        def sendmsg(self, pieces: Sequence[bytes | memoryview], /) -> int: ...
        def shutdown(self, how: int, /) -> None: ...
        def close(self) -> None: ...


_AF_INET, _SOCK_STREAM = 2, 1  # on every system
BACKLOG = 1024  # connections that come while we start, or in a burst


class HandshakeFailed(OSError):
    """A connection that was to be encrypted is not. `reason` is for the log."""

    def __init__(self, reason: str) -> None:
        from errno import EPROTO

        super().__init__(EPROTO, reason)
        self.reason = reason


def is_ipv4(host: str) -> bool:
    """Whether text is an IPv4 address with all its four numbers, in ASCII digits."""
    parts = host.split(".") if host.isascii() else []
    return len(parts) == 4 and all(part.isdigit() and len(part) <= 3 and int(part) < 256 for part in parts)


class TcpPlace:
    """A literal address and a port; port 0 takes a free one."""

    def __init__(self, host: str, port: int, scheme: str = "ws") -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self.local = host.startswith("127.") or host == "::1"

    @property
    def url(self) -> str:
        return f"{self._scheme}://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"

    def listen(self) -> socket:
        try:
            sock = listen(self._host, self._port)
        except OSError as error:
            text = f"cannot listen on {self._host}:{self._port}: {error.strerror}"
            raise SettingInvalid(text) from None
        self._port = sock.getsockname()[1]
        return sock

    identity = None

    def adopt(self, fd: int, identity: Sequence[int] | None) -> socket:
        sock = listening_on(fd)
        self._port = sock.getsockname()[1]
        return sock

    def leave(self) -> None:
        """The kernel does."""


def listen(host: str, port: int) -> socket:
    """A socket listening on a literal address; port 0 takes a free one. Raises OSError."""
    family = AF_INET6 if ":" in host else _AF_INET
    sock = socket(family, _SOCK_STREAM, 0)
    try:
        sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def accept(listening: socket) -> socket:
    """The next connection, which does not block. Raises BlockingIOError when there is none, OSError."""
    fd, _ = listening._accept()  # type: ignore[attr-defined]  # of _socket.socket
    return socket_of(listening, fd)


def socket_of(listening: socket, fd: int) -> socket:
    """A connection that was accepted from this socket; it does not block. Raises OSError, and closes it."""
    try:
        sock = socket(listening.family, _SOCK_STREAM, 0, fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    try:
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def listening_on(fd: int) -> socket:
    """A socket that listens already; what kind it is, the kernel knows."""
    return socket(fileno=fd)
