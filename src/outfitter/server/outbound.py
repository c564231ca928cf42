"""What a server needs to send HTTP requests, for all its connections."""

from __future__ import annotations

from ..core.addresses import AddressRules
from ..core.http import AFFINITY, Affinity
from ..core.proxies import Proxies
from ..core.quotas import Quota
from ..core.shares import Shares
from ..errors import HttpFailed
from ..host.http.requests import HttpPool
from ..host.sandbox.upstream import Resolver
from ..host.workers import Workers
from .limits import HTTP_BODIES_TOTAL_BYTES, HTTP_REQUESTS_TOTAL, HTTP_RESOLVING, HTTP_RESOLVING_TOTAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.quotas import Sharing
    from ..loop import Loop
    from .settings import ServerSettings


class Outbound:
    """What the requests of all connections share: connections to other servers, threads, and bounds."""

    def __init__(
        self, loop: Loop, settings: ServerSettings, sharing: Sharing, variables: Mapping[str, str]
    ) -> None:
        # For certificates, for HTTP/2, and for large answers: a request needs one at a time.
        self.workers = Workers(loop, HTTP_REQUESTS_TOTAL)
        self.room = Quota(HTTP_REQUESTS_TOTAL, sharing)
        rules = AddressRules(settings.http_deny, settings.http_allow)
        affinity = Affinity((*AFFINITY, *settings.http_cookies))
        proxies = Proxies(variables)
        # Threads of their own: to look a name up can take longer than the request that wanted it.
        shares = Shares(HTTP_RESOLVING_TOTAL, HTTP_RESOLVING)
        resolver = Resolver(Workers(loop, HTTP_RESOLVING_TOTAL), shares=shares)
        self.pool = HttpPool(loop, resolver, self.workers, rules, affinity, proxies or None)
        self._bodies = Quota(HTTP_BODIES_TOTAL_BYTES, sharing)  # that are answered in one message

    def hold(self, principal: str, size: int) -> None:
        """Keeps count of the bodies in memory. Raises HttpFailed."""
        if not self._bodies.allows(principal, size):
            raise HttpFailed(
                "failed to read http/request response body: this exec-server holds as much of such "
                "bodies as it may; set streamResponse, or try again"
            )
        self._bodies.take(principal, size)

    def let_go(self, principal: str, size: int) -> None:
        """A body, or what had come of it, has left."""
        if size:
            self._bodies.give(principal, size)
