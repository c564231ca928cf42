"""Where http/request may connect to: not to what an operator forbids, nor to where clouds keep secrets."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from ..errors import AddressRefused, SettingInvalid
from .hosts import embedded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Network = IPv4Network | IPv6Network

# A machine of a cloud gets its credentials there, whoever asks. A client elsewhere is not to have them.
METADATA = ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32")


class AddressRules:
    """`allowed` ranges are exempt from the `denied` ones. Raises SettingInvalid for what is no range."""

    def __init__(self, denied: Iterable[str] = (), allowed: Iterable[str] = ()) -> None:
        self._denied = tuple([_network(one) for one in denied])
        self._allowed = tuple([_network(one) for one in allowed])

    def check(self, address: str) -> None:
        """Raises AddressRefused. An address of IPv6 that leads to one of IPv4 is both of them."""
        if not self._denied:
            return
        found = ip_address(address.partition("%")[0])
        inner = embedded(found)
        for one in (found,) if inner is None else (found, inner):
            network = next((net for net in self._denied if one in net), None)
            if network is not None and not any(one in net for net in self._allowed):
                raise AddressRefused(str(one), str(network))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise SettingInvalid(
            f"`{text}` is no range of addresses: write one like 10.0.0.0/8 or fd00::/8"
        ) from None
