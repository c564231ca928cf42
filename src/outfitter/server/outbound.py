"""What a server needs to send HTTP requests, for all its connections."""

from __future__ import annotations

from ..core.addresses import AddressRules
from ..core.http import AFFINITY, Affinity
from ..core.quotas import Quota
from ..errors import HttpFailed
from ..host.workers import Workers
from ..stdlib import allocate_lock
from .limits import HTTP_BODIES_TOTAL_BYTES, HTTP_REQUESTS_TOTAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.http import HttpRequest
    from ..core.quotas import Sharing
    from ..host.http import Exchange, HttpPool
    from ..loop import Loop
    from .settings import ServerSettings


class Outbound:
    """What the requests of all connections share: connections to other servers, threads, and bounds."""

    def __init__(self, loop: Loop, settings: ServerSettings, sharing: Sharing) -> None:
        self.workers = Workers(loop, HTTP_REQUESTS_TOTAL)
        self.room = Quota(HTTP_REQUESTS_TOTAL, sharing)
        self._rules = AddressRules(settings.http_deny, settings.http_allow)
        self._affinity = Affinity((*AFFINITY, *settings.http_cookies))
        self._pool: HttpPool | None = None
        self._held = 0  # bytes of bodies that are read to be answered in one message
        self._lock = allocate_lock()

    def exchange(self, outgoing: HttpRequest, *, follow: bool) -> Exchange:
        """In a thread: what it needs is imported at the first request, which takes a while."""
        from ..host.http import Exchange, HttpPool

        with self._lock:
            if self._pool is None:
                self._pool = HttpPool(self._rules, self._affinity)
        return Exchange(self._pool, outgoing, follow=follow)

    def hold(self, change: int) -> None:
        """Keeps count of the bodies in memory. Raises HttpFailed."""
        with self._lock:
            if change > 0 and self._held + change > HTTP_BODIES_TOTAL_BYTES:
                raise HttpFailed(
                    "failed to read http/request response body: this exec-server holds as much of such "
                    "bodies as it may; set streamResponse, or try again"
                )
            self._held += change
