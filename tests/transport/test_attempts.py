"""Connections before anybody vouches for them: their budget, their patience, and what the log keeps."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator

import pytest

from outfitter.core.quotas import Sharing
from outfitter.protocol.upgrade import Admitted, Response
from outfitter.transport.attempts import Attempts
from outfitter.transport.listener import Listener
from outfitter.transport.sockets import listen
from outfitter.transport.websocket import WebSocketTransport
from tests.support.handloop import HandLoop
from tests.support.machine import SECOND


class Waiting:
    """A connection that says nothing."""

    def __init__(self, attempts: Attempts, loop: HandLoop, source: str) -> None:
        self._attempts = attempts
        self.source = source
        self.since = loop.time()
        self.dropped = False
        attempts.enter(self)

    def abort(self) -> None:
        self.dropped = True
        self._attempts.leave(self)


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


# The budget


def test_there_is_room_until_the_budget_is_spent(loop: HandLoop) -> None:
    attempts = Attempts(loop, 3, 3)
    waiting = []
    for number in range(3):
        assert attempts.make_room() == 0.0
        waiting.append(Waiting(attempts, loop, "a"))
        assert len(attempts) == number + 1
    assert attempts.make_room() == 1.0
    loop.advance(0.75)
    assert attempts.make_room() == 0.25
    assert not any(one.dropped for one in waiting)
    loop.advance(0.25)
    assert attempts.make_room() == 0.0
    assert [one.dropped for one in waiting] == [True, False, False]
    assert len(attempts) == 2


def test_a_smaller_budget_is_given_on_sooner(loop: HandLoop) -> None:
    attempts = Attempts(loop)
    attempts.narrow(64)
    waiting = [Waiting(attempts, loop, f"{number % 4}") for number in range(64)]
    assert attempts.make_room() == 0.25
    loop.advance(0.25)
    assert attempts.make_room() == 0.0
    assert [one.dropped for one in waiting] == [True] + [False] * 63


@pytest.mark.parametrize(("limit", "each"), [(None, 128), (1000, 128), (64, 32)])
def test_one_source_has_half_of_the_budget_at_most(loop: HandLoop, limit: int | None, each: int) -> None:
    attempts = Attempts(loop)
    if limit is not None:
        attempts.narrow(limit)
    waiting = [Waiting(attempts, loop, "a") for _ in range(each - 1)]
    loop.advance(1.0)
    waiting.append(Waiting(attempts, loop, "a"))
    assert not any(one.dropped for one in waiting)
    waiting.append(Waiting(attempts, loop, "a"))
    assert [one.dropped for one in waiting] == [True] + [False] * each


def test_who_has_most_gives_way(loop: HandLoop) -> None:
    attempts = Attempts(loop, 4, 4)
    alone = Waiting(attempts, loop, "alone")
    many = [Waiting(attempts, loop, "many") for _ in range(3)]
    loop.advance(1)
    assert attempts.make_room() == 0.0
    assert (alone.dropped, [one.dropped for one in many]) == (False, [True, False, False])


def test_one_source_cannot_take_all(loop: HandLoop) -> None:
    attempts = Attempts(loop, 10, 2)
    first = [Waiting(attempts, loop, "a") for _ in range(2)]
    loop.advance(0.75)
    young = Waiting(attempts, loop, "a")  # too many, but none of them had time to speak
    assert (len(attempts), [one.dropped for one in first]) == (3, [False, False])
    loop.advance(0.25)
    Waiting(attempts, loop, "a")
    assert ([one.dropped for one in first], young.dropped, len(attempts)) == ([True, False], False, 3)
    Waiting(attempts, loop, "b")
    assert len(attempts) == 4


def test_who_leaves_gives_its_place_back_once(loop: HandLoop) -> None:
    attempts = Attempts(loop, 1, 1)
    one = Waiting(attempts, loop, "a")
    attempts.leave(one)
    attempts.leave(one)
    assert (len(attempts), attempts.make_room()) == (0, 0.0)


def test_source_that_may_have_one_replaces_it(loop: HandLoop) -> None:
    attempts = Attempts(loop, 5, 1)
    first = Waiting(attempts, loop, "a")
    loop.advance(1)
    second = Waiting(attempts, loop, "a")
    assert (first.dropped, second.dropped, len(attempts)) == (True, False, 1)
    second.abort()
    assert (len(attempts), attempts._sources) == (0, {})  # nothing is kept of who has left


# A listener


HEAD = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Silent:
    def message(self, data: str | bytes) -> None: ...
    def drained(self) -> None: ...
    def lost(self, reason: str) -> None: ...


class Place:
    """A listener moved by hand, where everybody is admitted who asks."""

    def __init__(
        self,
        loop: HandLoop,
        decided: Response | Admitted,
        limit: int = 1000,
        sharing: Sharing | None = None,
    ) -> None:
        self.loop = loop
        self.decided = decided
        self.admitted: list[WebSocketTransport] = []
        self.socket = listen("127.0.0.1", 0)
        shares = None if sharing is None else lambda: sharing
        self.listener = Listener(
            loop, self.socket, lambda *_: self.decided, self.connected, limit, sharing=shares
        )
        self.peers: list[socket.socket] = []

    def connected(self, transport: WebSocketTransport) -> None:
        transport.receiver = Silent()
        self.admitted.append(transport)

    def dial(self) -> socket.socket:
        peer = socket.create_connection(self.socket.getsockname())
        peer.settimeout(5 * SECOND)
        self.peers.append(peer)
        return peer

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.loop.tick()

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        self.loop.advance(20)
        self.listener.stop()


@pytest.fixture
def place(loop: HandLoop) -> Iterator[Place]:
    place = Place(loop, Admitted("somebody"))
    yield place
    place.close()


def test_clients_that_all_connect_before_one_speaks_are_served(place: Place) -> None:
    """They are more than may wait, and none of them is dropped for that."""
    peers = [place.dial() for _ in range(400)]
    place.ticks(500)
    assert len(place.listener.attempts) == 256
    for peer in peers:
        peer.sendall(HEAD)
    place.loop.serve(lambda: len(place.admitted) == 400)
    assert [peer.recv(12) for peer in peers] == [b"HTTP/1.1 101"] * 400


def test_client_that_cannot_be_served_now_is_told_so_before_it_is_admitted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "outfitter.transport.websocket", None)  # it cannot be loaded
        refused = place.dial()
        refused.sendall(HEAD)
        place.ticks(5)
        assert refused.recv(12) == b"HTTP/1.1 503"
    admitted = place.dial()
    admitted.sendall(HEAD)
    place.loop.serve(lambda: len(place.admitted) == 1)
    assert admitted.recv(12) == b"HTTP/1.1 101"


def test_idle_connections_give_way_to_a_client(place: Place) -> None:
    idle = [place.dial() for _ in range(300)]
    place.ticks(300)
    client = place.dial()
    client.sendall(HEAD)
    place.ticks(10)
    assert place.admitted == []
    place.loop.advance(1.0)
    place.ticks(400)
    assert len(place.admitted) == 1
    assert client.recv(12) == b"HTTP/1.1 101"
    assert idle[0].recv(1) == b""
    assert len(place.listener.attempts) <= 256


def test_connections_that_wait_do_not_count_as_clients(place: Place) -> None:
    small = Place(place.loop, Admitted("somebody"), limit=1)
    try:
        for _ in range(5):
            small.dial()
        small.ticks(10)
        first, second = small.dial(), small.dial()
        first.sendall(HEAD)
        small.loop.serve(lambda: len(small.admitted) == 1)
        second.sendall(HEAD)
        small.ticks(5)
        assert (first.recv(12), second.recv(12)) == (b"HTTP/1.1 101", b"HTTP/1.1 503")
        for _ in range(5):  # who comes when it is full has done nothing wrong, and does not wait
            third = small.dial()
            third.sendall(HEAD)
            small.ticks(5)
            assert third.recv(12) == b"HTTP/1.1 503"
    finally:
        small.close()


def test_refused_connection_waits_for_its_answer(place: Place) -> None:
    place.decided = Response(401, "no")
    for wait in (0, 0, 0, 0.05, 0.1):
        peer = place.dial()
        peer.sendall(HEAD)
        place.ticks(3)
        assert (len(place.listener.attempts) > 0) is (wait > 0)
        place.loop.advance(wait)
        assert len(place.listener.attempts) == 0
        assert peer.recv(12) == b"HTTP/1.1 401"
    place.decided = Admitted("somebody")
    peer = place.dial()
    peer.sendall(HEAD)
    place.ticks(3)
    assert peer.recv(12) == b"HTTP/1.1 101"


# Shares


def statuses(place: Place, *principals: str) -> list[bytes]:
    found = []
    for principal in principals:
        place.decided = Admitted(principal)
        peer = place.dial()
        peer.sendall(HEAD)
        place.ticks(3)
        found.append(peer.recv(4096))
    return found


def test_one_of_several_principals_cannot_take_all_connections(loop: HandLoop) -> None:
    place = Place(loop, Admitted(""), 4, Sharing(True))
    answers = statuses(place, "alice", "alice", "alice", "bob", "carol")
    assert [answer[9:12] for answer in answers] == [b"101", b"101", b"503", b"101", b"101"]
    assert answers[2].endswith(b"you already have 2 connections, your share of this exec-server: close one")
    place.close()


def test_the_only_principal_may_have_every_connection(loop: HandLoop) -> None:
    place = Place(loop, Admitted(""), 3, Sharing())
    answers = statuses(place, "alice", "alice", "alice", "alice")
    assert [answer[9:12] for answer in answers] == [b"101", b"101", b"101", b"503"]
    assert answers[3].endswith(b"this exec-server already has 3 connections, which is its limit")
    place.close()


# Refusals


def test_refusals_of_one_source_take_longer_each_time(loop: HandLoop) -> None:
    attempts = Attempts(loop)
    delays = [attempts.failed("a") for _ in range(12)]
    assert delays == [0, 0, 0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert attempts.failed("b") == 0.0
    for _ in range(2000):
        assert attempts.failed("a") == 2.0


def test_source_that_was_silent_for_a_minute_is_as_good_as_new(loop: HandLoop) -> None:
    attempts = Attempts(loop)
    for _ in range(5):
        attempts.failed("a")
    loop.advance(60)
    assert attempts.failed("a") == 0.2
    loop.advance(60.1)
    assert [attempts.failed("a") for _ in range(4)] == [0, 0, 0, 0.05]


def test_the_table_of_sources_is_bounded(loop: HandLoop) -> None:
    attempts = Attempts(loop)
    for _ in range(4):
        attempts.failed("first")
    for number in range(1023):
        attempts.failed(str(number))
    assert attempts.failed("first") == 0.1  # the last one it remembers
    attempts.failed("another")  # "0" is forgotten, which was silent for longest
    for _ in range(2):
        attempts.failed("0")
    assert (attempts.failed("0"), attempts.failed("0"), attempts.failed("first")) == (0.0, 0.05, 0.2)


# The log


def test_a_flood_of_refusals_leaves_few_lines(loop: HandLoop, caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(loop)
    with caplog.at_level(logging.WARNING):
        for number in range(500):
            attempts.log_refusal(f"192.0.2.1:{number}", "401 no")
        loop.advance(10)
        assert [record.getMessage() for record in caplog.records] == [
            *(f"! refused 192.0.2.1:{number}: 401 no" for number in range(10)),
            "! and 490 more within 10 s, the last one: refused 192.0.2.1:499: 401 no",
        ]
        caplog.clear()
        loop.advance(100)
        attempts.log_refusal("192.0.2.1:1", "401 again")
        loop.advance(100)
        assert [record.getMessage() for record in caplog.records] == ["! refused 192.0.2.1:1: 401 again"]


def test_nothing_in_a_line_steers_a_terminal(loop: HandLoop, caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(loop)
    attempts.log_refusal("192.0.2.1:1", "401 \x1b[31m\nforged line")
    assert [record.getMessage() for record in caplog.records] == [
        r"! refused 192.0.2.1:1: 401 \x1b[31m\nforged line"
    ]


def test_a_connection_that_was_dropped_is_in_the_log(
    loop: HandLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop, 2, 2)
    for _ in range(2):
        Waiting(attempts, loop, "192.0.2.1")
    loop.advance(1)
    attempts.make_room()
    text = "! dropped a connection of 192.0.2.1 that asked for nothing: it had 2"
    assert [record.getMessage() for record in caplog.records] == [text]
    assert attempts.refused == {"silent": 1}


def test_refusals_are_counted_by_causes_that_are_ours(loop: HandLoop) -> None:
    attempts = Attempts(loop)
    for cause in ("token", "token", "tls", "", "a stranger's word"):
        attempts.log_refusal("192.0.2.1:1", "401 no", cause)
    assert attempts.refused == {"token": 2, "tls": 1, "other": 2}
