"""Which proxy a request of http/request goes through: the variables of this machine say so, as the reference
reads them. Pure."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from ..protocol.base64 import encode
from ..record import record
from .url import Url, UrlInvalid, parse, unquoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network, IPv6Network

_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


@record
class HttpProxy:
    """`authorization` is the value of its header, if it wants one."""

    hidden = ("authorization",)

    url: Url
    authorization: bytes | None


class Proxies:
    """`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or the same in lower case."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        every = _proxy(_first(variables, "ALL_PROXY"))
        # A CGI program gets the `HttpProxy` header of whoever asks as HTTP_PROXY.
        plain = "" if "REQUEST_METHOD" in variables else _first(variables, "HTTP_PROXY")
        self._by_scheme = {
            "http": _proxy(plain) or every,
            "https": _proxy(_first(variables, "HTTPS_PROXY")) or every,
        }
        self._networks: list[IPv4Network | IPv6Network] = []
        self._names: list[str] = []
        for one in _first(variables, "NO_PROXY").lower().split(","):
            try:
                self._networks.append(ip_network(one.strip(), strict=False))
            except ValueError:
                if one.strip():
                    self._names.append(one.strip())

    def __bool__(self) -> bool:
        return any(self._by_scheme.values())

    def of(self, url: Url) -> HttpProxy | None:
        proxy = self._by_scheme[url.scheme]
        return None if proxy is None or self._is_exempt(url.host.strip("[]")) else proxy

    def _is_exempt(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return any(_matches(name, host) for name in self._names)
        return any(address in network for network in self._networks)


def _first(variables: Mapping[str, str], name: str) -> str:
    """The first that is there, whatever it says."""
    return variables.get(name, variables.get(name.lower(), ""))


def _matches(name: str, host: str) -> bool:
    """A name stands for its subdomains, too; `*` for every name."""
    name = name.removeprefix(".")
    return host == name or host.endswith(f".{name}") or name == "*"


def _proxy(text: str) -> HttpProxy | None:
    """What is no address of a proxy is none."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "http", text
    if not rest or scheme.lower() not in _SCHEMES:
        return None
    try:
        # The reference speaks HTTP to what it takes for SOCKS, too.
        url = parse(f"{scheme if scheme.lower() == 'https' else 'http'}://{rest}")
    except UrlInvalid:
        return None
    known = None
    if url.user or url.password:
        known = b"Basic " + encode(b"%b:%b" % (unquoted(url.user), unquoted(url.password)))
    return HttpProxy(url, known)
