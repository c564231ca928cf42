"""Hosts as a policy sees them: one spelling for each, patterns of them, and which addresses are not public.

Who wants to get around a policy spells a host in another way: `LOCALHOST.`, `0x7f.1`, `::ffff:127.0.0.1`.
`canonical` undoes that, for requests and for patterns alike.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

from ..env.pattern import MAX_WILDCARD_CHARACTERS, Patterns
from ..errors import InvalidParams, LimitExceeded
from ..protocol.network import INVALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    Address = IPv4Address | IPv6Address

MAX_HOST = 255  # bytes of a name in DNS, and in SOCKS
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


def canonical(host: str) -> str:
    """The one spelling of a host: lower case, no trailing dots, brackets, port or scope, addresses as every
    program writes them. Raises ValueError for what cannot be a host."""
    host = _bare(host)
    address = address_of(host)
    if address is not None:
        return str(address)
    if not host or len(host) > MAX_HOST or not _NAME.issuperset(host):
        raise ValueError("invalid host")
    return host


def _bare(host: str) -> str:
    host = host.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.partition("%")[0].rstrip(".").lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")  # as a client sends it
        except UnicodeError:
            pass
    return host


def address_of(host: str) -> Address | None:
    """The address that a bare host is, in any spelling that a C library takes; None for a name."""
    if ":" in host:
        try:
            found = IPv6Address(host)
        except ValueError:
            return None
        return found.ipv4_mapped or found
    number = _aton(host)
    return None if number is None else IPv4Address(number)


def _aton(host: str) -> int | None:
    """As inet_aton: one to four numbers, decimal, octal (0…) or hexadecimal (0x…); the last one fills up."""
    parts = host.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    numbers = []
    for part in parts:
        try:
            if part[:2] == "0x":
                number = int(part[2:] or "0", 16)
            elif part.isdigit():
                number = int(part, 8 if part[0] == "0" else 10)
            else:
                return None
        except ValueError:
            return None
        if "_" in part or number < 0:
            return None
        numbers.append(number)
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 1 << (8 * (4 - len(first))):
        return None
    for place, number in enumerate(first):
        last |= number << (8 * (3 - place))
    return last


# Where no policy that names public hosts may lead: this host, its networks, and what nobody has.
_LOCAL4 = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_GLOBAL6 = ip_network("2000::/3")  # all that was ever given to anybody
_LOCAL6 = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that one of IPv6 leads to (NAT64, 6to4, the old compatible form)."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour


def is_local(address: Address) -> bool:
    """Whether an address is not a public one."""
    inner = embedded(address)
    if inner is not None:
        return is_local(inner)
    if isinstance(address, IPv4Address):
        return any(address in one for one in _LOCAL4)
    return address not in _GLOBAL6 or any(address in one for one in _LOCAL6)


def names_this_host(host: str) -> bool:
    """Whether a canonical name means this host by convention, whatever a resolver says."""
    return host == "localhost" or host.endswith(".localhost")


# Patterns


class HostPatterns:
    """Patterns of hosts: exact ones, `*.d` (below d), `**.d` (d and below), `*`, and `*` or `?` anywhere."""

    def __init__(self) -> None:
        self.exact: set[str] = set()
        self._below: set[str] = set()
        self._wild: list[str] = []
        self._others: Patterns | None = None  # the wild ones, once somebody asks
        self.all = False

    def add(self, pattern: str) -> None:
        """Raises InvalidParams, in the reference's words."""
        bare = checked(pattern)
        if bare in ("*", "**.*"):
            self.all = True
        elif bare.startswith("**.") and not _wild(bare[3:]):
            self.exact.add(bare[3:])
            self._below.add(bare[3:])
        elif bare.startswith("*.") and not _wild(bare[2:]):
            self._below.add(bare[2:])
        elif _wild(bare):
            self._wild.append(bare.removeprefix("**."))
            if bare.startswith("**."):
                self._wild.append(bare[1:])
            size = sum(map(len, self._wild))
            if size > MAX_WILDCARD_CHARACTERS:
                raise LimitExceeded(
                    "patterns of hosts with wildcards inside",
                    size,
                    MAX_WILDCARD_CHARACTERS,
                    "characters",
                    _FEWER,
                )
        else:
            self.exact.add(bare)

    def match(self, host: str) -> bool:
        """Whether a canonical host is one of them."""
        if self.all or host in self.exact:
            return True
        if self._below and ":" not in host:
            at = host.find(".")
            while at >= 0:
                if host[at + 1 :] in self._below:
                    return True
                at = host.find(".", at + 1)
        if not self._wild:
            return False
        if self._others is None:
            self._others = Patterns(self._wild)
        return self._others.match(host) is not None


def checked(pattern: str) -> str:
    """A pattern in the spelling of canonical hosts. Raises InvalidParams."""
    text = pattern.strip()
    front = next((one for one in ("**.", "*.") if text.startswith(one)), "")
    rest = text[len(front) :]
    if not rest:
        raise InvalidParams(f"{INVALID}: domain pattern is empty")
    if "**" in rest:
        raise InvalidParams(f"{INVALID}: unsupported repeated wildcard: {text}")
    if ("[" in rest or "]" in rest) and not _bracketed(rest):
        raise InvalidParams(f"{INVALID}: brackets are only supported for IPv6 literals or [*]: {text}")
    if [mark for mark in text if mark in "{}\\/" or mark.isspace()]:
        raise InvalidParams(f"{INVALID}: unsupported domain pattern syntax: {text}")
    bare = _bare(rest)
    address = None if front else address_of(bare)
    return front + (bare if address is None else str(address))


def check_denied(pattern: str) -> None:
    """Raises InvalidParams for a pattern that denies everything: who means that allows nothing."""
    text = pattern.strip()
    bare = _bare(text.removeprefix("**.")) if "**" not in text.removeprefix("**.") else ""
    if bare == "*" and not text.startswith("*."):
        raise InvalidParams(
            f"{INVALID}: invalid value for network.denied_domains: {pattern} (allowed exact hosts or scoped "
            "wildcards like *.example.com or **.example.com)"
        )


def _bracketed(text: str) -> bool:
    inside, closed, behind = text[1:].partition("]")
    if not (text.startswith("[") and closed and (not behind or behind.startswith(":"))):
        return False
    return inside == "*" or (":" in inside and address_of(inside.partition("%")[0]) is not None)


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


_FEWER = "use *.NAME or **.NAME, of which there may be thousands"
