"""A sandbox as a client says it on the wire. The executor decides how it is enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.sandbox import Sandbox
    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri
    from .session import Params, RemoteSession


def wire_sandbox(sandbox: Sandbox, cwd: FileUri) -> Json:
    """The member `sandbox` of a request in a directory. Raises SettingInvalid."""
    from ..core.sandbox import context  # most clients never need it

    return context(sandbox, cwd).encode()


def start_members(session: RemoteSession, sandbox: Sandbox, cwd: FileUri) -> dict[str, Json]:
    """The members of process/start that say it. Raises CapabilityMissing, SettingInvalid."""
    members: dict[str, Json] = {"sandbox": wire_sandbox(sandbox, cwd)}
    if sandbox.domains:
        from ..protocol.network import ALLOW, NetworkProxy, ProxyRules

        session.require("networkProxyLaunch", "limit a command to some domains")
        rules = ProxyRules(domains=tuple([(name, ALLOW) for name in sandbox.domains]))
        members |= {"enforceManagedNetwork": True, "networkProxy": NetworkProxy(rules).encode()}
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
