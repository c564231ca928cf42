"""What a command may reach: a policy, its verdicts, and what a proxy answers. Nothing here opens a socket.

The order counts (it is the reference's): what is denied is denied; what is local is refused unless it is
allowed by its very name; what is allowed goes; of the rest the client may be asked. A verdict about a name is
not the last one: the addresses behind it are judged as well, and the proxy connects to one of those.
"""

from __future__ import annotations

from ..protocol.jsontext import dumps
from ..protocol.network import ALLOW, ASK, CONNECT, DENY, HTTP, LIMITED, SOCKS
from ..record import record
from .hosts import HostPatterns, address_of, check_denied, embedded, is_local, names_this_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.network import ProxyRules
    from .hosts import Address

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@record
class Destination:
    """What somebody wants to reach: `host` is canonical."""

    protocol: str
    host: str
    port: int
    method: str | None = None


@record
class NetworkVerdict:
    """What becomes of it. `scope` says whether the host is the reason."""

    decision: str
    source: str
    reason: str
    scope: str = "domain"
    override: bool = False

    @property
    def allows(self) -> bool:
        return self.decision == ALLOW


ALLOWED = NetworkVerdict(ALLOW, "baseline_policy", "allow")
DENIED = NetworkVerdict(DENY, "baseline_policy", "denied")
LOCAL = NetworkVerdict(DENY, "baseline_policy", "not_allowed_local")
# The only one about which a client may be asked.
UNLISTED = NetworkVerdict(DENY, "baseline_policy", "not_allowed")
UNSAFE = NetworkVerdict(DENY, "mode_guard", "method_not_allowed", "non_domain")
OPAQUE = NetworkVerdict(DENY, "mode_guard", "mitm_required", "non_domain")
UNIX_SOCKET = NetworkVerdict(DENY, "proxy_state", "unix_socket_unsupported", "non_domain")
UNANSWERED = NetworkVerdict(DENY, "decider", "not_allowed")


def decided(decision: str, reason: str) -> NetworkVerdict:
    """What a client has answered."""
    if decision == ALLOW:
        return NetworkVerdict(ALLOW, "decider", "allow", override=True)
    return NetworkVerdict(ASK if decision == ASK else DENY, "decider", reason or "not_allowed")


class NetworkPolicy:
    """The rules of one command's proxy. Raises InvalidParams."""

    def __init__(self, rules: ProxyRules) -> None:
        self._limited = rules.mode == LIMITED
        self._local = rules.local
        self._allowed, self._denied = HostPatterns(), HostPatterns()
        for pattern, access in rules.domains:
            if access == DENY:
                check_denied(pattern)
        for pattern, access in rules.domains:
            if access == ALLOW:
                self._allowed.add(pattern)
            elif access == DENY:
                self._denied.add(pattern)

    def judge(self, target: Destination) -> NetworkVerdict:
        """By the host alone."""
        host = target.host
        if self._limited and target.protocol == SOCKS:
            return UNSAFE
        address = address_of(host)
        if self._is_denied(host, address):
            return DENIED
        local = names_this_host(host) or (address is not None and is_local(address))
        if local and not self._local and host not in self._allowed.exact:
            return LOCAL
        return ALLOWED if self._allowed.match(host) else UNLISTED

    def guard(self, target: Destination) -> NetworkVerdict | None:
        """What forbids a request although its host is allowed."""
        if not self._limited:
            return None
        if target.protocol == CONNECT:
            return OPAQUE  # nobody could see what is done inside
        return None if target.method in _SAFE_METHODS else UNSAFE

    def judge_addresses(self, target: Destination, addresses: Sequence[Address]) -> NetworkVerdict | None:
        """By what its name stands for: None if nothing speaks against all of them.

        One address that is not public is enough: a name that has both is made to get around this.
        """
        if any(self._is_denied(str(one), one) for one in addresses):
            return DENIED
        if self._local or (target.host in self._allowed.exact and self._means_local(target.host)):
            return None
        for one in addresses:
            if is_local(one) and str(one) not in self._allowed.exact:
                return LOCAL
        return None

    def _means_local(self, host: str) -> bool:
        return names_this_host(host) or address_of(host) is not None

    def _is_denied(self, host: str, address: Address | None) -> bool:
        if self._denied.match(host):
            return True
        inner = None if address is None else embedded(address)
        return inner is not None and self._denied.match(str(inner))


# What a proxy answers


@record
class ProxyAnswer:
    """A whole response of the proxy itself."""

    status: int
    kind: str
    body: bytes
    error: str = ""


def plain(status: int, text: str, error: str = "") -> ProxyAnswer:
    return ProxyAnswer(status, "text/plain", text.encode(), error)


_WORDS = {
    "not_allowed": ("blocked-by-allowlist", "Domain not in allowlist."),
    "not_allowed_local": (
        "blocked-by-allowlist",
        "Sandbox policy blocks local/private network addresses.",
    ),
    "denied": ("blocked-by-denylist", "Domain denied by the sandbox policy."),
    "method_not_allowed": ("blocked-by-method-policy", "Method not allowed in limited mode."),
    "mitm_required": ("blocked-by-mitm-required", "MITM required for limited HTTPS."),
}
_OTHERS = ("blocked-by-policy", "Request blocked by network policy.")


def refusal(target: Destination, verdict: NetworkVerdict) -> ProxyAnswer:
    """What a refused request is answered."""
    if verdict is UNIX_SOCKET:
        return plain(501, "unix sockets unsupported")
    error, words = _WORDS.get(verdict.reason, _OTHERS)
    if target.protocol != HTTP:
        return plain(403, words, error)
    told = {
        "status": "blocked",
        "host": target.host,
        "reason": verdict.reason,
        "decision": verdict.decision,
        "source": verdict.source,
        "protocol": target.protocol,
        "port": target.port,
        "message": words,
    }
    return ProxyAnswer(403, "application/json", dumps(told).encode(), error)


def unresolved(target: Destination) -> ProxyAnswer:
    return plain(502, f"upstream failure: {target.host} cannot be resolved")


UPSTREAM_FAILED = plain(502, "upstream failure")
UNIX_SOCKET_TARGET = Destination(HTTP, "unix-socket", 0)
