"""Requests to other servers, on the loop: connections, kept for the next request, and one request on its way.

Names are looked up in threads. What speaks HTTP/2 does so in threads, too (`http2`).
"""

from __future__ import annotations

from ...core.http import REDIRECTS, shown
from ...core.http1 import NotHttp
from ...errors import AddressRefused, HttpFailed
from ...log import note
from ...record import quick_record
from .dial import HttpDial, client_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext
    from typing import Protocol

    from ...core.addresses import AddressRules
    from ...core.http import Affinity, Headers, HttpRequest
    from ...core.proxies import Proxies
    from ...loop import Loop, Timer
    from ..sandbox.upstream import Resolver
    from ..workers import Workers
    from .http1 import Kept, Key

    class Owner(Protocol):
        """Who wants an answer. Whatever is called ends with `finished` or `failed`."""

        def began(self, head: Head) -> None: ...
        def piece(self, data: bytes) -> None: ...
        def finished(self) -> None: ...
        def failed(self, error: HttpFailed | AddressRefused) -> None: ...


IDLE_CONNECTIONS = 32  # that are kept for the next request, of all hosts
IDLE_SECONDS = 30.0  # and for how long: most servers close theirs after a minute
_SHORT = 5  # digits of the length of a redirect's body that is read and thrown away
_REST_SECONDS = 0.5  # that it may take to come, so that its connection can be used again
UNREADABLE = "error decoding response body"


@quick_record
class Head:
    """What comes before the body."""

    status: int
    headers: list[tuple[str, str]]


class HttpPool:
    """The connections of one server that wait for the next request, and what all requests share."""

    def __init__(
        self,
        loop: Loop,
        resolver: Resolver,
        workers: Workers,
        rules: AddressRules,
        affinity: Affinity,
        proxies: Proxies | None = None,
    ) -> None:
        self.loop = loop
        self.proxies = proxies
        self.resolver = resolver
        self.workers = workers
        self.rules = rules
        self.affinity = affinity
        self._idle: dict[Key, list[Kept]] = {}
        self._count = 0
        self._context: SSLContext | None = None

    def with_context(self, done: Callable[[SSLContext | None], None]) -> None:
        """Calls `done` with what checks certificates; None when it cannot be made."""
        if self._context is not None:
            done(self._context)
            return

        def made(context: SSLContext | None, failure: BaseException | None) -> None:
            self._context = self._context or context
            done(self._context)

        self.workers.run(client_context, made)

    # Connections that wait

    def take(self, key: Key) -> Kept | None:
        """A connection that can be used again."""
        while (waiting := self._idle.get(key)) is not None:
            link = waiting.pop()
            self._count -= 1
            if not waiting:
                del self._idle[key]
            if self.loop.time() - link.since <= IDLE_SECONDS and link.is_alive():
                return link
            link.close()
        return None

    def give(self, link: Kept) -> None:
        """Keeps a connection for the next request, and closes those that were kept for too long."""
        link.since = self.loop.time()
        self._idle.setdefault(link.key, []).append(link)
        self._count += 1
        if self._count > 1:
            self._close_surplus(link.since)

    def _close_surplus(self, now: float) -> None:
        oldest = self._oldest()
        while self._count > IDLE_CONNECTIONS or now - oldest.since > IDLE_SECONDS:
            self._remove(oldest)
            oldest.close()
            oldest = self._oldest()

    def drop(self, link: Kept) -> None:
        """One that waits was closed by the other side."""
        if link in self._idle.get(link.key, ()):
            self._remove(link)

    def _oldest(self) -> Kept:
        return min([links[0] for links in self._idle.values()], key=lambda one: one.since)

    def _remove(self, link: Kept) -> None:
        links = self._idle[link.key]
        links.remove(link)
        self._count -= 1
        if not links:
            del self._idle[link.key]

    def close(self) -> None:
        while self._count:
            oldest = self._oldest()
            self._remove(oldest)
            oldest.close()


class Exchange:
    """One request to its answer, redirects included. Its owner is told on the loop."""

    def __init__(
        self, pool: HttpPool, outgoing: HttpRequest, owner: Owner, principal: str, *, follow: bool
    ) -> None:
        self.principal = principal
        self._pool = pool
        self._outgoing = outgoing
        self._owner = owner
        self._left = REDIRECTS if follow else -1
        self._following: HttpRequest | None = None  # a redirect leads there, when its answer is over
        self._resting: Timer | None = None  # until then, the answer that leads there may end
        self._dial: HttpDial | None = None
        self._link: Kept | None = None
        self._begun = self._over = False

    def begin(self) -> None:
        """Sends the request, on a connection that waits or on a new one."""
        url = self._outgoing.url
        proxies = self._pool.proxies
        proxy = None if proxies is None else proxies.of(url)
        key = self.principal, "" if proxy is None else proxy.url.origin, url.origin
        link = self._pool.take(key)
        if link is not None:
            self._send(link)
            return
        dial = HttpDial(self._pool, url, proxy, key, self._opened)
        if self._link is None and not self._over:
            self._dial = dial

    def _opened(self, link: Kept | AddressRefused | None) -> None:
        self._dial = None
        if isinstance(link, AddressRefused):
            self._over = True
            self._owner.failed(link)
        elif link is None:
            self._fail()
        else:
            self._send(link)

    def _send(self, link: Kept) -> None:
        self._link = link
        told = self._outgoing
        try:
            link.send(told, self._pool.affinity.header(told.url), self)
        except NotHttp:
            link.close()
            self._fail()

    # From the connection

    def head(self, status: int, headers: Headers) -> None:
        url = self._outgoing.url
        head = Head(status, shown(headers))
        self._pool.affinity.keep(url, head.headers)
        if self._left >= 0 and 300 < status < 309:
            try:
                self._following = self._redirect(head)
            except HttpFailed as error:
                self._end_with(error)
                return
        if self._following is None:
            self._begun = True
            self._owner.began(head)
        elif not any(name == "content-length" and len(value) < _SHORT for name, value in head.headers):
            self._follow()
        else:
            self._resting = self._pool.loop.call_later(_REST_SECONDS, self._follow)

    def _redirect(self, head: Head) -> HttpRequest | None:
        location = next((value for name, value in head.headers if name == "location"), None)
        following = self._outgoing.redirected(head.status, location)
        if following is not None and self._left == 0:
            raise HttpFailed("http/request failed: too many redirects")
        return following

    def data(self, piece: bytes) -> None:
        if self._following is None:
            self._owner.piece(piece)

    def end(self) -> None:
        self._link = None
        if self._following is not None:
            self._follow()
        elif not self._over:
            self._over = True
            self._owner.finished()

    def broken(self) -> None:
        self._link = None
        if self._following is not None:
            self._follow()
        else:
            self._fail()

    def _follow(self) -> None:
        self._rest()
        link, self._link = self._link, None
        if link is not None:
            link.close()  # what comes with the redirect is long, or late, and nobody wants it
        following, self._following = self._following, None
        assert following is not None
        self._left -= 1
        self._outgoing = following
        self.begin()

    def _rest(self) -> None:
        """Waits no more for the end of an answer that leads elsewhere."""
        timer, self._resting = self._resting, None
        if timer is not None:
            timer.cancel()

    def _fail(self) -> None:
        if self._begun:
            note("server", "=", "http/request: the body failed")
            self._end_with(HttpFailed(UNREADABLE))
        else:
            note("server", "=", "http/request failed")
            text = self._outgoing.url.text
            self._end_with(HttpFailed(f"http/request failed: error sending request for url ({text})"))

    def _end_with(self, error: HttpFailed) -> None:
        self.close()
        self._owner.failed(error)

    # From its owner

    def pause(self) -> None:
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        if self._link is not None:
            self._link.resume()

    def close(self) -> None:
        """Ends it, wherever it is; its owner hears nothing more."""
        self._over = True
        self._rest()
        if self._dial is not None:
            self._dial.cancel()
            self._dial = None
        link, self._link = self._link, None
        if link is not None:
            link.close()
