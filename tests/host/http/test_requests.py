"""Connections to other servers: kept, used again, given up. Whole requests: tests/server/test_http.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from outfitter.core.addresses import AddressRules
from outfitter.core.http import Affinity, prepare
from outfitter.errors import AddressRefused, HttpFailed
from outfitter.host.http.requests import IDLE_CONNECTIONS, IDLE_SECONDS, Exchange, Head, HttpPool
from outfitter.host.sandbox.upstream import Resolver
from outfitter.host.workers import Workers
from outfitter.loop import EpollLoop
from tests.support.machine import wait_until
from tests.support.rawhttp import HOLD, RawOrigin, raw_origin

if TYPE_CHECKING:
    from outfitter.loop import Loop

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
SECONDS = 20.0  # then something hangs


class Asked:
    """Who wants an answer, and the request itself."""

    def __init__(self, pool: HttpPool, url: str, principal: str = "", *, begin: bool = True) -> None:
        self.loop = pool.loop
        self.head: Head | None = None
        self.body = b""
        self.failure: Exception | None = None
        self.over = False
        self.exchange = Exchange(pool, prepare("GET", url, [], b"", {}), self, principal, follow=True)
        if begin:
            self.exchange.begin()

    def began(self, head: Head) -> None:
        self.head = head

    def piece(self, data: bytes) -> None:
        self.body += data

    def finished(self) -> None:
        self.over = True

    def failed(self, error: HttpFailed | AddressRefused) -> None:
        self.failure = error
        self.over = True

    def whole(self) -> Asked:
        """Runs the loop to its end."""
        run_until(self.loop, lambda: self.over)
        return self


def run_until(loop: Loop, done: Callable[[], bool]) -> None:
    assert isinstance(loop, EpollLoop)
    deadline = loop.time() + SECONDS

    def look() -> None:
        if done() or loop.time() > deadline:
            loop.stop()
        else:
            loop.call_later(0.001, look)

    if not done():
        loop.call_soon(look)
        loop.run()
    assert done(), "it takes too long"


@pytest.fixture
def origin() -> Iterator[RawOrigin]:
    with raw_origin() as made:
        made.answers["/ok"] = [OK]
        made.answers["/hold"] = [HOLD]
        yield made


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    made = EpollLoop()
    yield made
    made.close()


@pytest.fixture
def pool(loop: EpollLoop) -> Iterator[HttpPool]:
    workers = Workers(loop)
    made = HttpPool(loop, Resolver(workers), workers, AddressRules(("127.0.0.9/32",)), Affinity())
    yield made
    made.close()


def test_connection_is_used_again(pool: HttpPool, origin: RawOrigin) -> None:
    for _ in range(3):
        one = Asked(pool, f"{origin.url}/ok").whole()
        assert (one.head, one.body) == (Head(200, [("content-length", "2")]), b"ok")
        assert (pool._count, len(origin._open)) == (1, 1)


def test_connection_is_used_again_by_its_principal_alone(pool: HttpPool, origin: RawOrigin) -> None:
    for principal, count in (("a", 1), ("b", 2), ("a", 2)):
        Asked(pool, f"{origin.url}/ok", principal).whole()
        assert pool._count == count


def test_no_more_connections_are_kept_than_are_of_use(pool: HttpPool, origin: RawOrigin) -> None:
    many = [Asked(pool, f"{origin.url}/ok") for _ in range(IDLE_CONNECTIONS + 2)]
    for one in many:
        assert one.whole().body == b"ok"
    assert pool._count == IDLE_CONNECTIONS
    wait_until(lambda: len(origin._open) == IDLE_CONNECTIONS, "they are still open")


def test_connection_that_waits_for_too_long_is_closed(pool: HttpPool, origin: RawOrigin) -> None:
    with raw_origin() as other:
        other.answers["/ok"] = [OK]
        for url in (origin.url, other.url):
            Asked(pool, f"{url}/ok").whole()
            for [link] in pool._idle.values():
                link.since -= IDLE_SECONDS + 1
        assert [key[2] for key in pool._idle] == [other.url]
        wait_until(lambda: not origin._open, "it is still open")
        Asked(pool, f"{other.url}/ok").whole()
        assert pool._count == 1
        wait_until(lambda: len(other._open) == 1, "the old one is still open")


def test_connection_that_the_other_end_closed_is_let_go(pool: HttpPool) -> None:
    with raw_origin() as other:
        other.answers["/ok"] = [OK]
        Asked(pool, f"{other.url}/ok").whole()
        [[link]] = pool._idle.values()
        assert link.is_alive()
    assert not link.is_alive()
    run_until(pool.loop, lambda: pool._count == 0)
    failed = Asked(pool, f"{other.url}/ok").whole()
    assert str(failed.failure) == f"http/request failed: error sending request for url ({other.url}/ok)"


def test_connection_that_says_more_than_it_was_asked_is_let_go(pool: HttpPool, origin: RawOrigin) -> None:
    origin.answers["/more"] = [OK + b"HTTP/1.1 200 OK\r\n"]
    assert Asked(pool, f"{origin.url}/more").whole().body == b"ok"
    assert pool._count == 0


def test_close_ends_it_wherever_it_is(pool: HttpPool, origin: RawOrigin) -> None:
    waiting, unresolved = Asked(pool, f"{origin.url}/hold"), Asked(pool, f"http://localhost:{origin.port}/ok")
    unresolved.exchange.close()
    run_until(pool.loop, lambda: not origin.seen.empty())
    waiting.exchange.close()
    wait_until(lambda: not origin._open, "its connection is still open")
    Asked(pool, f"http://localhost:{origin.port}/ok").whole()  # the loop has run meanwhile
    assert not (waiting.over or unresolved.over)
    assert [one.split(b" ")[1] for one in origin.asked()] == [b"/hold", b"/ok"]


def test_pause_holds_the_answer_back(pool: HttpPool, origin: RawOrigin) -> None:
    origin.answers["/parts"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", b"a", b"\0gate", b"bc"]
    one = Asked(pool, f"{origin.url}/parts")
    run_until(pool.loop, lambda: one.body == b"a")
    one.exchange.pause()
    origin.gate.set()
    Asked(pool, f"{origin.url}/ok").whole()
    assert one.body == b"a"
    one.exchange.resume()
    assert one.whole().body == b"abc"


def test_refused_address_is_not_connected_to(pool: HttpPool) -> None:
    assert isinstance(Asked(pool, "http://127.0.0.9/").failure, AddressRefused)


MOVED = b"HTTP/1.1 302 Moved\r\nlocation: /ok\r\ncontent-length: 9\r\n\r\n"


def test_redirect_is_followed_though_its_own_body_never_ends(pool: HttpPool, origin: RawOrigin) -> None:
    origin.answers["/moved"] = [MOVED + b"half", HOLD]
    one = Asked(pool, f"{origin.url}/moved").whole()
    assert (one.failure, one.body) == (None, b"ok")
    assert [one.split(b" ")[1] for one in origin.asked()] == [b"/moved", b"/ok"]


def test_redirect_whose_body_comes_soon_keeps_its_connection(pool: HttpPool, origin: RawOrigin) -> None:
    origin.answers["/moved"] = [MOVED, b"elsewhere"]
    assert Asked(pool, f"{origin.url}/moved").whole().body == b"ok"
    assert len(origin._threads) == 2  # the one that accepts, and that of one connection


def test_redirect_that_is_given_up_is_not_followed_later(pool: HttpPool, origin: RawOrigin) -> None:
    origin.answers["/moved"] = [MOVED, HOLD]
    one = Asked(pool, f"{origin.url}/moved")
    run_until(pool.loop, lambda: one.exchange._resting is not None)
    one.exchange.close()
    assert one.exchange._resting is None and not one.over


def test_what_came_before_a_bad_chunk_is_told(pool: HttpPool, origin: RawOrigin) -> None:
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
    origin.answers["/bad"] = [chunks + b"zz\r\n"]
    one = Asked(pool, f"{origin.url}/bad").whole()
    assert (one.body, str(one.failure)) == (b"abc", "error decoding response body")
    assert pool._count == 0
