"""The direct transport as a server's connection: what waits behind a message in pieces, and for how long."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from outfitter.protocol import websocket as ws
from outfitter.protocol.registry import DirectAnswer
from outfitter.relay.direct import DirectTransport
from outfitter.transport.base import LOW
from tests.support.handloop import HandLoop


class Far:
    """A socket whose other end takes as much as `room` says, at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = b""
        self.closed = False
        self._pair = socket.socketpair()  # for the loop; nothing goes through it

    def fileno(self) -> int:
        return self._pair[0].fileno()

    def sendmsg(self, parts: list[bytes]) -> int:
        data = b"".join(parts)[: self.room]
        if not data:
            raise BlockingIOError
        self.room -= len(data)
        self.taken += data
        return len(data)

    def close(self) -> None:
        self.closed = True
        for one in self._pair:
            one.close()

    def heard(self) -> list[bytes]:
        frames = ws.FrameReader(masked=True, limit=1 << 26)
        return [payload.encode() for _, payload in frames.feed(self.taken) if isinstance(payload, str)]


class Server:
    def __init__(self, room: int) -> None:
        self.loop, self.far = HandLoop(), Far(room)
        self.over: list[str] = []
        self.lost_for: list[str] = []
        self.drains = 0
        told = DirectAnswer("box", "direct_jsonrpc_v1", "r", "ws://h/")
        self.transport = DirectTransport(self.loop, self.far, told, self.over.append)  # type: ignore[arg-type]
        self.transport.receiver = self
        self.transport.begin(b"")

    def message(self, data: object) -> None: ...

    def drained(self) -> None:
        self.drains += 1

    def lost(self, reason: str) -> None:
        self.lost_for.append(reason)


@pytest.fixture
def serving() -> Iterator[Callable[[int], Server]]:
    made: list[Server] = []

    def make(room: int) -> Server:
        made.append(Server(room))
        return made[-1]

    yield make
    for one in made:
        one.far.close()


@pytest.mark.parametrize("room", [1 << 30, 4])
def test_what_waits_for_a_message_in_pieces_counts_and_its_end_makes_room(
    serving: Callable[[int], Server], room: int
) -> None:
    """Whether the other end takes all of it at once or later: the server hears once that it has gone."""
    server = serving(room)
    transport = server.transport
    transport.begin_message(b"a" * LOW, wake=lambda: None)
    transport.send(b"behind")
    assert (transport.buffered, server.far.taken, transport.all_sent) == (LOW + 6, b"", False)
    transport.end_message(b"b")
    server.loop.advance(0.0)
    if room == 4:
        assert transport.buffered > LOW and server.drains == 0
        server.far.room = 1 << 30
        server.loop.serve(lambda: transport.all_sent)
    assert server.far.heard() == [b"a" * LOW + b"b", b"behind"]
    assert (transport.buffered, server.drains, transport.all_sent) == (0, 1, True)


def test_little_that_waits_is_nobody_s_news(serving: Callable[[int], Server]) -> None:
    server = serving(1 << 30)
    server.transport.begin_message(b"a", wake=lambda: None)
    server.transport.send(b"behind")
    server.transport.end_message(b"b")
    server.loop.advance(0.0)
    assert (server.far.heard(), server.drains) == ([b"ab", b"behind"], 0)


def test_an_end_lets_go_of_a_message_in_pieces(serving: Callable[[int], Server]) -> None:
    server = serving(1 << 30)
    server.transport.begin_message(b"half", wake=lambda: None)
    server.transport.close(1001, "over")
    server.transport.end_message(b"the rest")
    assert (server.transport.buffered, server.far.closed, server.lost_for) == (0, True, ["over"])
    assert server.far.heard() == []
