"""The managed network on the wire: `networkProxy`, `managedNetwork` and `enforceManagedNetwork` of
process/start, the question `network/policyRequest` that a server asks its client, and the notice
`network/policyDecision`.

Whether patterns of hosts make sense is decided in `core.hosts`; here is what stands in a message.
"""

from __future__ import annotations

from ..errors import InvalidParams, LimitExceeded
from ..record import record
from .fields import Fields, kind, wrong
from .jsonrpc import notice
from .jsontext import quote
from .shape import Shape, choice, member, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

ALLOW, DENY, ASK = "allow", "deny", "ask"
FULL, LIMITED = "full", "limited"
HTTP, CONNECT, SOCKS, SOCKS_UDP = "http", "https_connect", "socks5_tcp", "socks5_udp"
PROTOCOLS = (HTTP, CONNECT, SOCKS, SOCKS_UDP)
# Patterns of one policy. An allow-list that people write has dozens, a block-list thousands. To compile so
# many takes 20 ms, and a connection then looks them up.
MAX_DOMAINS = 8192
REASON_CHARACTERS = 512  # of a client's answer: a sentence; more is cut
_AUDIT = ("conversationId", "appVersion", "userAccountId", "authMode", "originator", "userEmail")
_AUDIT_MORE = ("terminalType", "model", "slug")


@record
class ProxyRules:
    """`networkProxy.proxy`: which hosts a command may reach, and how.

    `domains` are (pattern, allow or deny or none); `unix_sockets` (path, allow or deny) are read and refused
    by every proxy of ours.
    """

    socks: bool = True
    mode: str = FULL
    domains: tuple[tuple[str, str], ...] = ()
    local: bool = False
    unix_sockets: tuple[tuple[str, str], ...] = ()
    enabled: bool = True

    @classmethod
    def decode(cls, value: Json) -> ProxyRules:
        fields = Fields(value, "RemoteNetworkProxyConfig")
        enabled = fields.flag("enabled")
        socks = fields.flag("enableSocks5")
        # What widens a proxy in ways that ours does not offer is read, and of no effect.
        for name in ("enableSocks5Udp", "allowUpstreamProxy", "dangerouslyAllowAllUnixSockets"):
            fields.flag(name)
        mode = _variant(fields.raw("mode"), (LIMITED, FULL))
        domains = _permissions(fields.raw_or_none("domains"), "a map", ("none", ALLOW, DENY))
        sockets = _permissions(
            fields.raw_or_none("unixSockets"), "struct NetworkUnixSocketPermissions", (ALLOW, DENY)
        )
        return cls(socks, mode, domains, fields.flag("allowLocalBinding"), sockets, enabled)

    def encode(self) -> Json:
        return {
            "enabled": self.enabled,
            "enableSocks5": self.socks,
            "enableSocks5Udp": False,
            "allowUpstreamProxy": False,
            "dangerouslyAllowAllUnixSockets": False,
            "mode": self.mode,
            "domains": dict(self.domains),
            "unixSockets": dict(self.unix_sockets),
            "allowLocalBinding": self.local,
        }


def _permissions(value: Json, expected: str, allowed: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if type(value) is not dict:
        raise wrong(value, expected)
    if len(value) > MAX_DOMAINS:
        raise LimitExceeded("`networkProxy`", len(value), MAX_DOMAINS, "patterns", "use wider ones")
    return tuple([(name, _variant(one, allowed)) for name, one in value.items()])


def _variant(value: Json, allowed: tuple[str, ...]) -> str:
    if type(value) is dict and len(value) == 1 and next(iter(value.values())) is None:
        value = next(iter(value))
    if type(value) is not str:
        raise InvalidParams(f"invalid type: {kind(value)}, expected string or map")
    if value not in allowed:
        names = [f"`{one}`" for one in allowed]
        expected = " or ".join(names) if len(names) == 2 else f"one of {', '.join(names)}"
        raise InvalidParams(f"unknown variant `{value}`, expected {expected}")
    return value


@record
class NetworkProxy:
    """`networkProxy`: a proxy for one command. With `timeout_ms` its client is asked about hosts that no rule
    names, and has so long to answer."""

    rules: ProxyRules
    timeout_ms: int | None = None

    @classmethod
    def decode(cls, value: Json) -> NetworkProxy:
        """Raises InvalidParams."""
        fields = Fields(value, "RemoteNetworkProxyLaunchConfig")
        rules = ProxyRules.decode(fields.raw("proxy"))
        if "auditMetadata" in fields:
            audit = Fields(fields.raw("auditMetadata"), "NetworkProxyAuditMetadata")
            for name in (*_AUDIT, *_AUDIT_MORE):
                audit.text_or_none(name)
        for name in ("environmentId", "executionId"):
            fields.text_or_none(name)
        return cls(rules, fields.unsigned_or_none("policyDecisionTimeoutMs"))

    def encode(self) -> Json:
        return {"proxy": self.rules.encode(), "auditMetadata": {}, "policyDecisionTimeoutMs": self.timeout_ms}


@record
class NetworkParams:
    """What process/start says about the network. `enforced`: a command in a sandbox has no other way out than
    the proxy."""

    proxy: NetworkProxy | None = None
    enforced: bool = False

    @classmethod
    def decode(cls, fields: Fields) -> NetworkParams | None:
        """Of the params of process/start; None where they say nothing. Raises InvalidParams."""
        enforced = fields.flag_or("enforceManagedNetwork", False)
        _check_managed(fields.raw_or_none("managedNetwork"))
        told = fields.raw_or_none("networkProxy")
        if told is None and not enforced:
            return None
        return cls(None if told is None else NetworkProxy.decode(told), enforced)


def _check_managed(value: Json) -> None:
    """Of another system's sandbox: read, and of no effect, because a namespace has ports of its own."""
    if value is None:
        return
    fields = Fields(value, "ManagedNetworkSandboxContext")
    for port in fields.items("loopbackPorts") if "loopbackPorts" in fields else ():
        if type(port) is not int:
            raise wrong(port, "u16")
        if not 0 <= port <= 0xFFFF:
            raise InvalidParams("invalid number")
    fields.flag_or("allowLocalBinding", False)
    fields.flag_or("dangerouslyAllowAllUnixSockets", False)


# What a server asks


@shape("NetworkPolicyRequest")
class Wanted(Shape):
    """What a command wants to reach."""

    protocol: str = member(choice(*PROTOCOLS))
    host: str
    port: int


@shape("NetworkPolicyRequestParams")
class PolicyRequestParams(Shape):
    """network/policyRequest: may this process reach that?"""

    process_id: str
    request: Wanted


@record
class PolicyAnswer:
    """What the client says: allow, deny or ask, and why."""

    decision: str
    reason: str = ""

    @classmethod
    def decode(cls, value: Json) -> PolicyAnswer:
        """Raises InvalidParams."""
        fields = Fields(Fields(value, "NetworkPolicyResponse").raw("decision"), "NetworkDecision")
        decision = fields.choice("type", (ALLOW, DENY, ASK))
        return cls(decision, (fields.text_or_none("reason") or "")[:REASON_CHARACTERS])

    def encode(self) -> Json:
        told: dict[str, Json] = {"type": self.decision}
        if self.decision != ALLOW:
            told["reason"] = self.reason
        return {"decision": told}


@shape("NetworkPolicyDecision")
class DecisionNotice(Shape):
    """network/policyDecision: what became of one wish. `method` is that of HTTP."""

    process_id: str
    timestamp: str
    scope: str
    decision: str
    source: str
    reason: str
    protocol: str
    host: str
    port: int
    method: str | None = member(default=None, omit=True)
    client: str = ""
    policy_override: bool = False

    def message(self) -> bytes:
        return notice("network/policyDecision", self.encode())


def check(network: NetworkProxy) -> None:
    """Raises InvalidParams for what no proxy can be started with, in the reference's words. The patterns of
    hosts are checked where they are compiled (`core.hosts`)."""
    if network.timeout_ms == 0:
        raise InvalidParams("network policy decision callback timeout must be nonzero")
    rules = network.rules
    if not rules.enabled:
        raise InvalidParams(f"{INVALID}: executor-local network proxy launch requires an enabled proxy")
    allowed = [path for path, access in rules.unix_sockets if access == ALLOW]
    for number, path in enumerate(allowed):
        if not path.startswith("/") or "\0" in path:
            raise InvalidParams(
                f"{INVALID}: invalid network.allow_unix_sockets[{number}]: expected a NUL-free absolute path "
                f"for Linux, got {quote(path)}"
            )


INVALID = "invalid network proxy config"
