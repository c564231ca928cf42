"""Whose the other end of a connection is, on Linux; elsewhere `anypeer` finds out.

A unix socket has the user as peer credentials. For TCP within one machine, the kernel's socket table has the
owner of the peer's socket; netlink's sock_diag gives it for one pair of addresses in 10 µs, where reading
/proc/net/tcp takes 2 ms.
"""

from __future__ import annotations

import sys

from ..stdlib import AF_INET6, inet_pton, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sockets import End

_AF_INET, _AF_NETLINK = 2, 16
_SOL_SOCKET, _SO_PEERCRED = 1, 17
_SOCK_RAW, _SOCK_CLOEXEC, _SOCK_NONBLOCK = 3, 0o2000000, 0o4000
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_TCP, _ESTABLISHED = 6, 1
_MAPPED = bytes(10) + b"\xff\xff"  # ::ffff:0:0/96, an IPv4 address inside an IPv6 socket
_LARGEST_TABLE = 8 << 20  # of /proc/net/tcp: some 50,000 sockets; a larger one would hold the loop too long


def credentials(sock: socket) -> int | None:
    """The user at the other end of a unix socket."""
    try:
        return _known(_number(sock.getsockopt(_SOL_SOCKET, _SO_PEERCRED, 12), 4))  # pid, uid, gid
    except OSError:
        return None


def _known(uid: int | None) -> int | None:
    """A user whom our user namespace does not know is shown as 65534, which may be a user here as well."""
    if uid != _overflow_uid():
        return uid
    try:
        with open("/proc/self/uid_map", "rb") as file:
            everybody_is_known = (file.read() or b"").split() == [b"0", b"0", b"4294967295"]
    except OSError:
        return None
    return uid if everybody_is_known else None


_overflow: int | None = None


def _overflow_uid() -> int:
    """Read once: it takes as long as all the rest, and nobody changes it while the machine runs."""
    global _overflow
    if _overflow is None:
        try:
            with open("/proc/sys/kernel/overflowuid", "rb") as file:
                _overflow = int(file.read() or b"65534")  # nothing: the kernel was busy
        except (OSError, ValueError):
            _overflow = 65534  # the kernel's default
    return _overflow


def owner(theirs: End, ours: End) -> tuple[int | None, int]:
    """The user whose TCP socket on this machine has the address `theirs` and is connected to `ours`, and the
    kernel's number for it; 0 for none."""
    source, target = _packed(theirs[0]), _packed(ours[0])
    said = _ask(source, theirs[1], target, ours[1])
    uid, number = _look_up(source, theirs[1], target, ours[1]) if said is None else said
    return _known(uid), number


def _packed(host: str) -> bytes:
    """An address as bytes: four, or sixteen. IPv4 inside IPv6 is IPv4."""
    if ":" not in host:
        return inet_pton(_AF_INET, host)
    packed = inet_pton(AF_INET6, host)
    return packed[12:] if packed.startswith(_MAPPED) else packed


# One question to sock_diag

_asking: socket | None = None


def get_ready() -> None:
    """Opens the socket for questions, so that it does not need a descriptor when the server has none left."""
    global _asking
    _overflow_uid()
    if _asking is None:
        try:
            _asking = socket(_AF_NETLINK, _SOCK_RAW | _SOCK_CLOEXEC | _SOCK_NONBLOCK, _NETLINK_SOCK_DIAG)
        except OSError:
            pass  # a sandbox without netlink: there may be /proc


def _ask(source: bytes, port: int, target: bytes, target_port: int) -> tuple[int | None, int] | None:
    global _asking
    get_ready()
    if _asking is None:
        return None
    order = sys.byteorder
    both = (
        port.to_bytes(2, "big")
        + target_port.to_bytes(2, "big")
        + source.ljust(16, b"\0")
        + target.ljust(16, b"\0")
    )
    family = _AF_INET if len(source) == 4 else AF_INET6
    # Any state, any interface, no cookie.
    question = bytes((family, _TCP, 0, 0)) + b"\xff" * 4 + both + bytes(4) + b"\xff" * 8
    size = (16 + len(question)).to_bytes(4, order)
    kind = _SOCK_DIAG_BY_FAMILY.to_bytes(2, order) + _NLM_F_REQUEST.to_bytes(2, order)
    try:
        _asking.send(size + kind + bytes(8) + question)
        said = _asking.recv(4096)  # the kernel has answered before `send` returns
    except OSError:
        _asking.close()  # an answer that comes late must not be taken for that of the next question
        _asking = None
        return None
    answer = said[16:]
    if len(answer) < 72 or said[4:6] != kind[:2]:
        return None  # no such connection, or a kernel that cannot say
    # Where nobody has connected from there, the kernel names who listens there. A socket that its process has
    # closed already has no inode, and root for its user.
    if answer[1] != _ESTABLISHED or answer[4:40] != both or _number(answer, 68) == 0:
        return None
    return _number(answer, 64), _number(answer, 68)


def _number(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 4], sys.byteorder)


# The table in /proc, where sock_diag is not


def _look_up(source: bytes, port: int, target: bytes, target_port: int) -> tuple[int | None, int]:
    for name in ("tcp", "tcp6"):
        wide = name == "tcp6"
        if len(source) == 16 and not wide:
            continue
        ends = [_shown(_MAPPED + end if wide and len(end) == 4 else end) for end in (source, target)]
        wanted = f": {ends[0]}:{port:04X} {ends[1]}:{target_port:04X} {_ESTABLISHED:02X} ".encode()
        try:
            with open(f"/proc/net/{name}", "rb") as file:
                table = file.read(_LARGEST_TABLE)
        except OSError:
            continue
        place = table.find(wanted)
        # tx:rx, timer, retransmits, uid, timeout, inode
        fields = table[place + len(wanted) :].split(None, 6) if place >= 0 else []
        if len(fields) == 7 and fields[5] != b"0":
            return int(fields[3]), int(fields[5])
    return None, 0


def _shown(end: bytes) -> str:
    return "".join(f"{_number(end, place):08X}" for place in range(0, len(end), 4))
