"""Connections to other servers: kept, used again, given up. Whole requests: tests/server/test_http.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from outfitter.core.addresses import AddressRules
from outfitter.core.http import Affinity, prepare
from outfitter.errors import HttpFailed
from outfitter.host.http import IDLE_CONNECTIONS, IDLE_SECONDS, Exchange, HttpPool
from tests.support.machine import wait_until
from tests.support.rawhttp import HOLD, RawOrigin, raw_origin


@pytest.fixture
def origin() -> Iterator[RawOrigin]:
    with raw_origin() as made:
        made.answers["/ok"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]
        made.answers["/hold"] = [HOLD]
        yield made


@pytest.fixture
def pool() -> Iterator[HttpPool]:
    made = HttpPool(AddressRules(), Affinity())
    yield made
    while made._count:
        made._oldest().close()


def exchange(pool: HttpPool, url: str) -> Exchange:
    return Exchange(pool, prepare("GET", url, [], b"", {}), follow=True)


def body(one: Exchange) -> bytes:
    return b"".join(iter(one.read, b""))


def test_connection_is_used_again(pool: HttpPool, origin: RawOrigin) -> None:
    for _ in range(3):
        one = exchange(pool, f"{origin.url}/ok")
        assert one.begin().status == 200
        assert body(one) == b"ok"
        assert (pool._count, len(origin._open)) == (1, 1)


def test_no_more_connections_are_kept_than_are_of_use(pool: HttpPool, origin: RawOrigin) -> None:
    many = [exchange(pool, f"{origin.url}/ok") for _ in range(IDLE_CONNECTIONS + 2)]
    for one in many:
        one.begin()
    for one in many:
        assert body(one) == b"ok"
    assert pool._count == IDLE_CONNECTIONS
    wait_until(lambda: len(origin._open) == IDLE_CONNECTIONS, "they are still open")


def test_connection_that_waits_for_too_long_is_closed(pool: HttpPool, origin: RawOrigin) -> None:
    with raw_origin() as other:
        other.answers["/ok"] = origin.answers["/ok"]
        for url in (origin.url, other.url):
            one = exchange(pool, f"{url}/ok")
            one.begin()
            assert body(one) == b"ok"
            for [link] in pool._idle.values():
                link.since -= IDLE_SECONDS + 1
        assert list(pool._idle) == [other.url]
        wait_until(lambda: not origin._open, "it is still open")


def test_connection_that_the_other_end_closed_is_not_used(pool: HttpPool, origin: RawOrigin) -> None:
    with raw_origin() as other:
        other.answers["/ok"] = origin.answers["/ok"]
        one = exchange(pool, f"{other.url}/ok")
        one.begin()
        body(one)
        url = other.url
    with pytest.raises(HttpFailed, match="error sending request"):
        exchange(pool, f"{url}/ok").begin()
    assert pool._count == 0


def test_cut_ends_what_blocks(pool: HttpPool, origin: RawOrigin) -> None:
    one = exchange(pool, f"{origin.url}/hold")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            one.begin()
        except HttpFailed as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    origin.seen.get(timeout=20)
    one.cut()
    thread.join(20)
    assert [str(error) for error in failures] == [
        f"http/request failed: error sending request for url ({origin.url}/hold)"
    ]


def test_cut_before_it_began_ends_it_too(pool: HttpPool, origin: RawOrigin) -> None:
    one = exchange(pool, f"{origin.url}/ok")
    one.cut()
    with pytest.raises(HttpFailed):
        one.begin()
    assert origin.asked() == []
