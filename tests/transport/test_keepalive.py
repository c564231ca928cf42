"""Peers that are gone without a word: noticed in time, and only those."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from outfitter.protocol import websocket as ws
from outfitter.protocol.upgrade import Admitted, Response
from outfitter.transport.listener import Listener
from outfitter.transport.sockets import listen
from outfitter.transport.websocket import WebSocketTransport
from tests.support.handloop import HandLoop

if TYPE_CHECKING:
    from outfitter.protocol.upgrade import Caller

HEAD = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PING = ws.header(0, ws.PING)
PONG = bytes((0x80 | ws.PONG, 0x80)) + b"mask"


class Receiver:
    def __init__(self) -> None:
        self.lost_for: list[str] = []

    def message(self, data: str | bytes) -> None:
        raise AssertionError("no message was sent")

    def drained(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        self.lost_for.append(reason)


class Line:
    """A listener moved by hand and one raw peer."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.receiver = Receiver()
        self.transport: WebSocketTransport | None = None
        listening = listen("127.0.0.1", 0)
        self.listener = Listener(self.loop, listening, self.gate, self.connected, 10)
        self.peer = socket.create_connection(listening.getsockname())
        self.peer.settimeout(5)

    @staticmethod
    def gate(headers: dict[str, str], caller: Caller) -> Response | Admitted:
        return Admitted("somebody")

    def connected(self, transport: WebSocketTransport) -> None:
        transport.receiver = self.receiver
        self.transport = transport

    def upgrade(self) -> WebSocketTransport:
        self.peer.sendall(HEAD)
        self.loop.serve(lambda: self.transport is not None)
        assert self.peer.recv(4096).startswith(b"HTTP/1.1 101 ")
        assert self.transport is not None
        return self.transport


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    with contextlib.closing(line.peer):
        yield line
    line.listener.stop()
    if line.transport is not None and not line.receiver.lost_for:
        line.loop.serve(lambda: bool(line.receiver.lost_for))


def test_a_peer_that_answers_pings_stays(line: Line) -> None:
    line.upgrade()
    for _ in range(20):
        line.loop.advance(30)
        assert line.peer.recv(100) == PING
        line.peer.sendall(PONG)
    assert line.receiver.lost_for == []


def test_a_peer_that_answers_no_ping_for_a_minute_is_gone(line: Line) -> None:
    # Row 21.
    line.upgrade()
    line.loop.advance(30)
    assert line.peer.recv(100) == PING
    line.loop.advance(59)
    assert line.receiver.lost_for == []
    line.loop.advance(1)
    assert line.receiver.lost_for == ["the client stopped responding"]
    assert line.peer.recv(100) == b""


def test_a_peer_that_is_not_read_is_not_blamed_for_it(line: Line) -> None:
    # What it wants to be written waits for a disk, say.
    transport = line.upgrade()
    line.loop.advance(30)
    transport.pause_reading()
    for _ in range(10):
        assert line.peer.recv(100) == PING
        line.peer.sendall(PONG)
        line.loop.advance(30)
    transport.resume_reading()
    line.loop.advance(59)
    assert line.receiver.lost_for == []


def test_a_peer_that_is_silent_after_it_was_not_read_is_gone(line: Line) -> None:
    transport = line.upgrade()
    transport.pause_reading()
    line.loop.advance(300)
    transport.resume_reading()
    line.loop.advance(59)
    assert line.receiver.lost_for == []
    line.loop.advance(31)
    assert line.receiver.lost_for == ["the client stopped responding"]


# Another one asks for the session


def test_a_peer_that_is_asked_and_silent_is_gone(line: Line) -> None:
    transport = line.upgrade()
    line.loop.advance(1)
    transport.probe(5)
    line.loop.advance(5)
    assert line.receiver.lost_for == [
        "the client did not answer when another connection asked for its session"
    ]


def test_a_peer_that_is_asked_and_not_read_is_not_blamed_for_it(line: Line) -> None:
    transport = line.upgrade()
    transport.pause_reading()
    line.loop.advance(1)
    transport.probe(5)
    assert line.peer.recv(100) == PING
    line.peer.sendall(PONG)
    line.loop.advance(5)
    assert line.receiver.lost_for == []
    transport.resume_reading()
    line.loop.tick()
    line.loop.advance(1)
    transport.probe(5)
    line.loop.advance(5)
    assert len(line.receiver.lost_for) == 1


def test_a_peer_that_is_asked_and_takes_nothing_is_gone_though_it_is_not_read(line: Line) -> None:
    transport = line.upgrade()
    while not transport.buffered:
        transport.send(bytes(1 << 20))
    transport.pause_reading()
    line.loop.advance(1)
    transport.probe(5)
    line.loop.advance(5)
    assert len(line.receiver.lost_for) == 1


def test_a_peer_that_takes_nothing_for_five_minutes_is_gone(line: Line) -> None:
    transport = line.upgrade()
    while not transport.buffered:
        transport.send(bytes(1 << 20))
    line.loop.advance(299)
    assert line.receiver.lost_for == []
    line.loop.advance(61)
    assert line.receiver.lost_for == ["the client has read nothing for too long"]


def test_a_slow_peer_that_takes_something_now_and_then_stays(line: Line) -> None:
    transport = line.upgrade()
    while transport.buffered < 32 << 20:
        transport.send(bytes(1 << 20))
    for _ in range(6):
        line.loop.advance(250)
        before = transport.buffered
        while transport.buffered == before:
            line.peer.recv(1 << 20)
            line.loop.tick()
    assert line.receiver.lost_for == []


def test_a_connection_that_never_says_what_it_wants_is_closed(line: Line) -> None:
    line.peer.sendall(HEAD[:40])
    line.loop.serve(lambda: len(line.listener.open) == 1)
    line.loop.advance(9.9)
    assert len(line.listener.open) == 1
    line.loop.advance(0.1)
    assert line.listener.open == set()
    assert line.peer.recv(100) == b""


# Credentials that expire


class Passing(Line):
    """A line whose credential ends at 5,000 by a clock that is set by hand."""

    def __init__(self) -> None:
        self.clock = 4000.0
        super().__init__()
        self.listener.wall = lambda: self.clock

    @staticmethod
    def gate(headers: dict[str, str], caller: Caller) -> Response | Admitted:
        return Admitted("somebody", 5000.0)

    def pass_time(self, seconds: float) -> None:
        """On both clocks; the peer answers each ping."""
        for _ in range(int(seconds / 10)):
            self.clock += 10
            self.loop.advance(10)
            self.peer.sendall(PONG)
            self.loop.tick()


@pytest.fixture
def passing() -> Iterator[Passing]:
    line = Passing()
    with contextlib.closing(line.peer):
        yield line
    line.listener.stop()
    if line.transport is not None:
        line.loop.advance(5)


EXPIRED = "the token of this connection has expired; connect again with a new one"


def close_frame(line: Line) -> bytes:
    data = b""
    while ws.close_payload(1008, EXPIRED) not in data:
        more = line.peer.recv(4096)
        assert more
        data += more
    return data


def test_connection_ends_when_its_credential_expires(passing: Passing) -> None:
    passing.upgrade()
    passing.pass_time(990)
    assert passing.receiver.lost_for == []
    passing.pass_time(10)
    assert passing.receiver.lost_for == [EXPIRED]
    assert close_frame(passing)


def test_clock_that_is_set_is_noticed_within_a_minute(passing: Passing) -> None:
    passing.upgrade()
    passing.clock = 6000.0
    passing.pass_time(50)
    assert passing.receiver.lost_for == []
    passing.pass_time(10)
    assert passing.receiver.lost_for == [EXPIRED]


def test_connection_with_a_credential_that_has_just_expired_ends_at_once(passing: Passing) -> None:
    passing.clock = 5000.0
    passing.upgrade()
    assert passing.receiver.lost_for == [EXPIRED]


def test_timer_of_a_credential_ends_with_its_connection(passing: Passing) -> None:
    passing.upgrade().close(1000, "")
    passing.loop.advance(5)
    assert passing.loop.waiting == 0


def test_an_operator_s_keepalive_sets_both_times(line: Line) -> None:
    line.listener.keepalive = 1.0
    line.upgrade()
    line.loop.advance(1)
    assert line.peer.recv(100) == PING
    line.loop.advance(2.9)
    assert line.receiver.lost_for == []
    line.loop.advance(0.1)
    assert line.receiver.lost_for == ["the client stopped responding"]


def test_the_listener_knows_when_anybody_was_heard_last(line: Line) -> None:
    began = line.loop.now
    line.loop.advance(3)
    assert line.listener.heard() == began  # who only knocks is not heard
    transport = line.upgrade()
    assert line.listener.heard() == began + 3
    line.loop.advance(4)
    line.peer.sendall(PONG)
    line.loop.serve(lambda: transport.heard == line.loop.now)
    assert line.listener.heard() == began + 7
    line.loop.advance(5)
    line.peer.close()
    line.loop.serve(lambda: bool(line.receiver.lost_for))
    assert line.listener.heard() == began + 7  # whoever has left was heard then
