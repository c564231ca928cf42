"""Who is at the other end of an accepted connection, as the kernel says: its address and its user.

How to ask the kernel is loaded when somebody wants to know. A user who cannot be determined is None, never a
guess.
"""

from __future__ import annotations

from ..stdlib import AF_INET6, inet_pton, socket
from ..system import LINUX

_AF_UNIX = 1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..protocol.upgrade import Admitted
    from .sockets import End

    class Peers(Protocol):
        """What `linuxpeer` and `anypeer` have in common."""

        def get_ready(self) -> None: ...
        def credentials(self, sock: socket) -> int | None: ...
        def owner(self, theirs: End, ours: End) -> tuple[int | None, int]: ...


def peers() -> Peers:
    """What knows on this system whose the other end of a connection is."""
    if LINUX:
        from . import linuxpeer as known
    else:
        from . import anypeer as known  # type: ignore[no-redef]
    return known


class SocketCaller:
    """The other end of one accepted socket: `address` for people, `source` for limits."""

    __slots__ = ("_ours", "_sock", "_theirs", "address", "certificate", "host", "over_tcp", "source")

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self.certificate: Admitted | None = None  # TLS tells it
        self._ours: End | None = None
        self._theirs: End | None = None
        self.host = self.address = self.source = "a closed connection"
        self.over_tcp = sock.family != _AF_UNIX
        if not self.over_tcp:
            uid = peers().credentials(sock)
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
            return peers().credentials(self._sock)
        if self._ours is None or self._theirs is None or not self._on_this_machine():
            return None
        found, _ = peers().owner(self._theirs, self._ours)
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
        return peers().owner(self._theirs, self._ours)[1]

    def _on_this_machine(self) -> bool:
        return self.host.startswith("127.") or self.host == "::1" or self._theirs[0] == self._ours[0]  # type: ignore[index]


def source_of(host: str) -> str:
    """Whom an address belongs to: who has one of IPv6 has the 2^64 around it."""
    if ":" not in host or host == "::1":
        return host
    return f"{inet_pton(AF_INET6, host)[:8].hex(':', 2)}::/64"
