"""Who is at the other end of an accepted connection, as the kernel says: its address and its user.

A unix socket has the user as peer credentials, and TCP within one machine as the owner of the peer's socket:
`peer` finds both on Linux, `anypeer` elsewhere. A user who cannot be determined is None, never a guess.
"""

from __future__ import annotations

from ..stdlib import AF_INET6, inet_pton
from ..system import LINUX

if LINUX:
    from .peer import credentials, get_ready, owner
else:
    from .anypeer import credentials, get_ready, owner

__all__ = ["SocketCaller", "get_ready", "owner", "source_of"]

_AF_UNIX = 1  # on every system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.upgrade import Admitted
    from ..stdlib import socket

    _End = tuple[str, int]  # an IP address and a port


class SocketCaller:
    """The other end of one accepted socket: `address` for people, `source` for limits."""

    __slots__ = ("_ours", "_sock", "_theirs", "address", "certificate", "host", "over_tcp", "source")

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self.certificate: Admitted | None = None  # TLS tells it
        self._ours: _End | None = None
        self._theirs: _End | None = None
        self.host = self.address = self.source = "a closed connection"
        self.over_tcp = sock.family != _AF_UNIX
        if not self.over_tcp:
            uid = credentials(sock)
            self.host = "a unix socket" if uid is None else f"uid {uid} on a unix socket"
            self.address = self.source = self.host
            return
        try:
            self._ours, self._theirs = sock.getsockname()[:2], sock.getpeername()[:2]
        except OSError:
            return  # reset before it was accepted
        host, port = self._theirs
        self.host = host.removeprefix("::ffff:") if "." in host else host
        self.source = source_of(self.host)
        self.address = f"[{host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def uid(self) -> int | None:
        """The user at the other end; None where the kernel does not say, or it is on another machine."""
        if self._sock.family == _AF_UNIX:
            return credentials(self._sock)
        if self._ours is None or self._theirs is None or not self._on_this_machine():
            return None
        found, _ = owner(self._theirs, self._ours)
        try:
            # Only while the connection lives is the pair of addresses taken: after a reset, the owner could
            # be another process that connected from the same port.
            self._sock.getpeername()
        except OSError:
            return None
        return found

    def socket_number(self) -> int | None:
        """The kernel's number for the socket at the other end; None for another machine's or a unix socket, 0
        where the kernel does not say."""
        if self._ours is None or self._theirs is None or not self._on_this_machine():
            return None
        return owner(self._theirs, self._ours)[1]

    def _on_this_machine(self) -> bool:
        return self.host.startswith("127.") or self.host == "::1" or self._theirs[0] == self._ours[0]  # type: ignore[index]


def source_of(host: str) -> str:
    """Whom an address belongs to: who has one of IPv6 has the 2^64 around it."""
    if ":" not in host or host == "::1":
        return host
    return f"{inet_pton(AF_INET6, host)[:8].hex(':', 2)}::/64"
