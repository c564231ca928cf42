"""SOCKS5 (RFC 1928) as a server reads it: no authentication, TCP connections only.

Peers are told apart by the socket they come through, so that a password would add nothing.
"""

from __future__ import annotations

from ipaddress import ip_address

from ..protocol.network import SOCKS
from .hosts import canonical
from .network import Destination

GREETED = b"\x05\x00"
NO_METHOD = b"\x05\xff"
# Replies, with an address that nobody uses.
_REPLY = b"\x05%c\x00\x01\x00\x00\x00\x00\x00\x00"
OK, FAILED, REFUSED, UNREACHABLE, NO_CONNECTION, UNSUPPORTED, BAD_ADDRESS = (
    _REPLY % code for code in (0, 1, 2, 4, 5, 7, 8)
)
_VERSION, _CONNECT = 5, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4


class Invalid(Exception):
    """What was said is not SOCKS5, or not for us; `reply` says so, and the connection ends."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(reply.hex())
        self.reply = reply


def greeting(data: bytes) -> int:
    """How long the greeting is; 0 while more of it must come. Raises Invalid."""
    if data and data[0] != _VERSION:
        raise Invalid(b"")
    if len(data) < 2 or len(data) < 2 + data[1]:
        return 0
    size = 2 + data[1]
    if 0 not in data[2:size]:
        raise Invalid(NO_METHOD)
    return size


def request(data: bytes) -> tuple[Destination, int] | None:
    """What is wanted, and how long the request is; None while more of it must come. Raises Invalid."""
    if len(data) < 5:
        return None
    version, command, _, kind, first = data[:5]
    if version != _VERSION:
        raise Invalid(b"")
    if command != _CONNECT:
        raise Invalid(UNSUPPORTED)
    if kind == _NAME:
        start, size = 5, first
    elif kind in (_IPV4, _IPV6):
        start, size = 4, 4 if kind == _IPV4 else 16
    else:
        raise Invalid(BAD_ADDRESS)
    end = start + size + 2
    if len(data) < end:
        return None
    host, port = data[start : start + size], int.from_bytes(data[end - 2 : end], "big")
    try:
        name = host.decode("ascii") if kind == _NAME else str(ip_address(host))
        if kind == _NAME and ":" in name:
            name = f"[{name.strip('[]')}]"  # an address where a name belongs is one all the same
        target = Destination(SOCKS, canonical(name), port)
    except (ValueError, UnicodeDecodeError):
        raise Invalid(REFUSED) from None
    if not port:
        raise Invalid(REFUSED)
    return target, end
