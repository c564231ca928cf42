"""A sandbox as a client says it on the wire. The executor decides how it is enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SettingInvalid

if TYPE_CHECKING:
    from ..core.sandbox import Sandbox
    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri
    from .session import Params, RemoteSession

# How long a command waits for a person to decide; then its connection is refused, and it may try again.
_DECIDE_MS = 600_000


def wire_sandbox(sandbox: Sandbox, cwd: FileUri) -> Json:
    """The member `sandbox` of a request in a directory. Raises SettingInvalid."""
    from ..core.sandbox import context  # most clients never need it

    return context(sandbox, cwd).encode()


def start_members(
    session: RemoteSession, sandbox: Sandbox, cwd: FileUri, *, asks: bool = False
) -> dict[str, Json]:
    """The members of process/start that say it. With `asks` the client wants to be asked about other hosts.
    Raises CapabilityMissing, SettingInvalid."""
    members: dict[str, Json] = {"sandbox": wire_sandbox(sandbox, cwd)}
    if asks and sandbox.network:
        raise SettingInvalid("nobody is asked about hosts where the whole network is allowed (network=True)")
    if sandbox.domains or asks:
        from ..protocol.network import ALLOW, NetworkProxy, ProxyRules

        session.require("networkProxyLaunch", "limit a command to some domains")
        rules = ProxyRules(domains=tuple([(name, ALLOW) for name in sandbox.domains]))
        proxy = NetworkProxy(rules, _DECIDE_MS if asks else None)
        members |= {"enforceManagedNetwork": True, "networkProxy": proxy.encode()}
    return members


def confined(params: Params, sandbox: Json) -> Params:
    """Params of a file request with the sandbox that it is answered in; None for none."""
    return params if sandbox is None else _Confined(params, sandbox)


class _Confined:
    def __init__(self, params: Params, sandbox: Json) -> None:
        self._params = params
        self._sandbox = sandbox

    def encode(self) -> Json:
        told = self._params.encode()
        assert isinstance(told, dict)
        return {**told, "sandbox": self._sandbox}
