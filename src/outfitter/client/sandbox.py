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


def wire_sandbox(session: RemoteSession, sandbox: Sandbox, cwd: FileUri) -> Json:
    """The member `sandbox` of a request in a directory. Raises SettingInvalid."""
    from ..core.sandbox import context  # most clients never need it

    return context(sandbox, cwd, session.resolve).encode()


def start_members(
    session: RemoteSession, sandbox: Sandbox, cwd: FileUri, *, asks: bool = False
) -> dict[str, Json]:
    """The members of process/start that say it. With `asks` the client wants to be asked about other hosts.
    Raises CapabilityMissing, SettingInvalid."""
    members: dict[str, Json] = {"sandbox": wire_sandbox(session, sandbox, cwd)}
    if asks and sandbox.network:
        raise SettingInvalid("nobody is asked about hosts where the whole network is allowed (network=True)")
    if sandbox.domains or asks:
        session.require("networkProxyLaunch", "limit a command to some domains")
        members["enforceManagedNetwork"] = True
        members["networkProxy"] = _proxy(sandbox, asks)
    return members


def _proxy(sandbox: Sandbox, asks: bool) -> Json:
    return {
        "proxy": {
            "enabled": True,
            "enableSocks5": True,
            "enableSocks5Udp": False,
            "allowUpstreamProxy": False,
            "dangerouslyAllowAllUnixSockets": False,
            "mode": "full",
            "domains": dict.fromkeys(sandbox.domains, "allow"),
            "unixSockets": None,
            "allowLocalBinding": False,
        },
        "auditMetadata": {},
        "environmentId": None,
        "executionId": None,
        "policyDecisionTimeoutMs": _DECIDE_MS if asks else None,
    }


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
