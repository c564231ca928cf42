"""Streams of one socket, each as a server's connection: turns, bounds, pieces, and a service with malice."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.calling import Calling, Invitation
from outfitter.core.records import MAX_MESSAGE, cut, farewell
from outfitter.core.streams import Streams, Validate
from outfitter.errors import Disconnected, RemoteProtocolError
from outfitter.protocol import relay
from outfitter.protocol import websocket as ws
from outfitter.relay import carrier
from outfitter.relay.carrier import Carrier, StreamTransport
from outfitter.relay.keys import Keys, encapsulate, fingerprint
from outfitter.transport.base import HIGH, LOW
from tests.support.handloop import HandLoop

STATIC, HARNESS = Keys(), Keys()


class Server:
    """What a server would be to one stream."""

    def __init__(self, transport: StreamTransport) -> None:
        self.transport = transport
        transport.receiver = self
        self.got: list[bytes] = []
        self.lost_for: list[str] = []
        self.drains = 0

    def message(self, data: bytes) -> None:
        self.got.append(data)

    def drained(self) -> None:
        self.drains += 1

    def lost(self, reason: str) -> None:
        self.lost_for.append(reason)


class Service:
    """The other end of an executor's socket: it sees frames, and sends what it wants."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.far.setblocking(False)
        self.servers: list[Server] = []
        self.over: list[str] = []
        self.asked: list[tuple[Validate, Callable[[bool, str], None]]] = []
        streams = Streams(STATIC, "env", "reg", Keys, encapsulate)
        self.carrier = Carrier(
            self.loop,  # type: ignore[arg-type]
            near,
            streams,
            lambda transport: self.servers.append(Server(transport)),
            lambda asked, answered: self.asked.append((asked, answered)),
            self.over.append,
        )
        self._frames = ws.FrameReader(masked=True, limit=1 << 26)
        self.carrier.begin(b"")

    def say(self, frame: bytes) -> None:
        """Sends a frame and has the executor take it."""
        self.write(ws.header(len(frame), ws.BINARY) + frame)

    def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[self.far.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # the executor has left
            self.turn()

    def turn(self) -> None:
        for _ in range(4):
            self.loop.tick()
            self.loop.advance(0.0)

    def heard(self) -> list[bytes]:
        """The frames that have come, in order; the executor goes on writing."""
        return [payload for opcode, payload in self.raw() if opcode == ws.BINARY]

    def raw(self) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while True:
            self.turn()
            try:
                data = self.far.recv(1 << 20)
            except BlockingIOError:
                return found
            if not data:
                return found
            for opcode, payload in self._frames.feed(data):
                assert isinstance(payload, bytes)
                found.append((opcode, payload))

    def stream(self, name: str) -> tuple[Calling, Server]:
        invitation = Invitation("env", "reg", STATIC.public, "ws://h/", "may")
        calling = Calling(invitation, name, HARNESS, Keys(), encapsulate)
        for frame in calling.opening:
            self.say(frame)
        _, answered = self.asked.pop()
        answered(True, "ada")
        for frame in self.heard():
            calling.receive(frame)
        assert calling.is_open
        return calling, self.servers[-1]

    def close(self) -> None:
        self.far.close()
        self.turn()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def data(calling: Calling, *messages: bytes) -> list[bytes]:
    assert calling.sealer is not None
    sealed = [calling.sealer.seal(piece) for piece in cut(*((message,) for message in messages))]
    return [relay.DataWriter(calling.stream).head(seq, len(one)) + one for seq, one in sealed]


def test_a_stream_is_a_connection_of_who_the_registry_says(service: Service) -> None:
    calling, server = service.stream("s")
    assert (server.transport.principal, server.transport.address) == ("relay:ada", "relay stream s")
    [frame] = data(calling, b"question")
    service.say(frame)
    assert server.got == [b"question"]
    server.transport.send(b"answer", b"and more")
    assert [one for frame in service.heard() for one in calling.receive(frame)] == [b"answer", b"and more"]


def test_only_what_a_harness_itself_says_is_heard(service: Service) -> None:
    """The service pings, passes on what is no record of a harness, and repeats an old one."""
    calling, _ = service.stream("s")
    [frame] = data(calling, b"question")
    service.loop.now += 5
    service.say(frame)
    heard = service.carrier.heard
    assert heard == service.loop.now
    service.loop.now += 5
    service.write(ws.header(0, ws.PING))
    service.say(relay.reset("another"))
    service.say(frame)
    assert service.carrier.heard == heard


def test_without_a_name_from_the_registry_a_harness_is_its_key(service: Service) -> None:
    calling = Calling(
        Invitation("env", "reg", STATIC.public, "ws://h/", "may"), "s", HARNESS, Keys(), encapsulate
    )
    service.say(calling.opening[1])
    service.asked.pop()[1](True, "")
    assert service.servers[-1].transport.principal == f"relay:{fingerprint(HARNESS.public)}"
    assert len(fingerprint(HARNESS.public)) == 32


def test_who_streams_does_not_keep_another_from_answering(service: Service) -> None:
    """With the socket full, an answer waits for one record of each other stream, not for all they have."""
    streaming, answering = service.stream("busy")[1], service.stream("other")[1]
    streaming.transport.send(bytes(8 << 20))
    assert streaming.transport.buffered > 4 << 20
    answering.transport.send(b"answer")
    names = [relay.stream_of(frame) for frame in service.heard()]
    assert names.count("other") == 1
    # Behind what the kernel and the socket's own bound hold, and far before the end.
    assert names.index("other") < len(names) / 2
    assert streaming.transport.buffered == 0 and streaming.transport.all_sent


def test_a_server_hears_once_that_there_is_room_again(service: Service) -> None:
    _, server = service.stream("s")
    server.transport.send(bytes(8 << 20))
    assert server.drains == 0
    service.heard()
    assert server.drains == 1


def test_a_server_that_does_not_read_is_served_later(service: Service) -> None:
    calling, server = service.stream("s")
    server.transport.pause_reading()
    for frame in data(calling, *(b"%d" % n for n in range(100))):
        service.say(frame)
    assert server.got == []
    server.transport.resume_reading()
    service.loop.advance(0.0)
    service.turn()
    assert server.got == [b"%d" % n for n in range(100)]


def test_a_stream_whose_server_leaves_too_much_unread_ends_alone(service: Service) -> None:
    (calling, server), (other, well) = service.stream("s"), service.stream("other")
    server.transport.pause_reading()
    for number in range(129):
        [frame] = data(calling, b"%d" % number)
        service.say(frame)
    assert server.lost_for == ["the stream was ended"]
    assert relay.reset("s") in service.heard()
    [frame] = data(other, b"on")
    service.say(frame)
    assert well.got == [b"on"] and service.over == []


def test_of_streams_that_together_leave_too_much_unread_the_one_with_most_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "_QUEUED_BYTES", 4 * HIGH)
    (few, modest), (many, greedy), (other, well) = map(service.stream, ("few", "many", "other"))
    modest.transport.pause_reading()
    greedy.transport.pause_reading()
    for calling in (few, many, other, many, other, many):
        for frame in data(calling, bytes(HIGH)):
            service.say(frame)
    assert (modest.lost_for, greedy.lost_for) == ([], [])
    for frame in data(few, bytes(1)):
        service.say(frame)
    assert (modest.lost_for, greedy.lost_for, well.lost_for) == ([], ["the stream was ended"], [])
    assert relay.reset("many") in service.heard()
    modest.transport.resume_reading()
    service.turn()
    assert list(map(len, modest.got)) == [HIGH, 1]
    assert list(map(len, well.got)) == [HIGH, HIGH]


def test_where_principals_take_turns_a_stream_is_heard_in_its_own(service: Service) -> None:
    """Else whoever is served now would pay for what others start."""
    calling, server = service.stream("s")
    service.loop.takes_turns = True
    frames = data(calling, *(b"%d" % n for n in range(20)))
    for frame in frames:
        service.carrier.frame(frame)
    assert server.got == []
    service.turn()
    assert server.got == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize("how", ["reset", "farewell", "lost"])
def test_what_came_before_the_end_of_a_stream_is_heard_before_it(service: Service, how: str) -> None:
    calling, server = service.stream("s")
    service.loop.takes_turns = True
    for frame in data(calling, *(b"%d" % n for n in range(20))):
        service.carrier.frame(frame)
    assert server.got == [] and calling.sealer is not None
    if how == "lost":
        service.carrier.lost("the socket is gone")
    elif how == "reset":
        service.carrier.frame(relay.reset("s"))
    else:
        seq, record = calling.sealer.seal(farewell(4002, ""))
        service.carrier.frame(relay.DataWriter("s").head(seq, len(record)) + record)
    assert server.got == [b"%d" % n for n in range(20)]
    assert len(server.lost_for) == 1


def test_a_stream_that_brings_more_than_may_wait_is_heard_at_once(service: Service) -> None:
    calling, server = service.stream("s")
    service.loop.takes_turns = True
    for number in range(300):
        [frame] = data(calling, b"%d" % number)
        service.carrier.frame(frame)
    assert 300 - 64 <= len(server.got) < 300
    service.turn()
    service.turn()
    service.turn()
    assert server.got == [b"%d" % n for n in range(300)] and server.lost_for == []


def test_a_message_in_pieces_goes_whole_and_what_was_sent_meanwhile_behind_it(service: Service) -> None:
    calling, server = service.stream("s")
    transport = server.transport
    transport.begin_message(b"one ", wake=lambda: None)
    transport.send(b"meanwhile")
    transport.send_fragment(b"two ", b"three ")
    assert not transport.all_sent and service.heard() == []
    transport.end_message(b"four")
    got = [one for frame in service.heard() for one in calling.receive(frame)]
    assert got == [b"one two three four", b"meanwhile"]
    assert transport.all_sent


def test_what_waits_for_a_message_in_pieces_counts_and_its_end_makes_room(service: Service) -> None:
    calling, server = service.stream("s")
    transport = server.transport
    transport.begin_message(bytes(100), wake=lambda: None)
    transport.send_fragment(bytes(LOW))
    transport.send_parts((bytes(7), bytes(3)), (b"x",))
    assert transport.buffered == 100 + LOW + 11
    service.heard()
    assert (transport.buffered, server.drains) == (100 + LOW + 11, 0)
    transport.end_message(b"!")
    got = [one for frame in service.heard() for one in calling.receive(frame)]
    assert list(map(len, got)) == [101 + LOW, 10, 1]
    assert (transport.buffered, server.drains) == (0, 1)


def test_a_message_in_pieces_that_is_too_large_ends_the_stream_with_the_piece_that_is_too_much(
    service: Service,
) -> None:
    calling, server = service.stream("s")
    server.transport.begin_message(b"", wake=lambda: None)
    piece = bytes(MAX_MESSAGE // 8)
    for _ in range(8):
        server.transport.send_fragment(piece)
    assert server.lost_for == []
    server.transport.send_fragment(b"x")
    assert server.lost_for == ["a message is larger than a stream can carry"]
    server.transport.send_fragment(piece)
    server.transport.end_message(piece)
    assert server.transport.buffered == 0
    said, ended = service.heard()
    assert (calling.receive(said), ended) == ([], relay.reset("s"))
    assert calling.farewell == (1009, "a message is larger than a stream can carry")


def test_a_message_in_pieces_for_a_stream_that_has_ended_is_bounded_as_well(service: Service) -> None:
    _, server = service.stream("s")
    server.transport.close(1000, "over")
    server.transport.begin_message(bytes(MAX_MESSAGE), wake=lambda: None)
    server.transport.send_fragment(b"x")
    assert server.transport.buffered == 0


def test_a_stream_that_is_closed_keeps_nothing_of_a_message_in_pieces(service: Service) -> None:
    calling, server = service.stream("s")
    server.transport.begin_message(b"half", wake=lambda: None)
    server.transport.send(b"meanwhile")
    server.transport.close(4001, "taken over")
    assert server.transport.buffered == 0
    said, ended = service.heard()
    assert (calling.receive(said), calling.farewell) == ([], (4001, "taken over"))
    assert ended == relay.reset("s")


def test_a_harness_that_says_farewell_ends_its_stream_with_a_code(service: Service) -> None:
    (calling, server), (_, other) = service.stream("s"), service.stream("other")
    assert calling.sealer is not None
    seq, record = calling.sealer.seal(cut((b"last",))[0] + farewell(4002, ""))
    service.say(relay.DataWriter("s").head(seq, len(record)) + record)
    assert server.got == [b"last"]
    assert (server.lost_for, server.transport.close_code) == (["the harness has left"], 4002)
    assert (other.lost_for, other.transport.close_code, service.heard()) == ([], None, [])


def test_a_service_that_takes_no_refusals_is_not_read_until_it_does(service: Service) -> None:
    refused = relay.DataWriter("nobody").head(0, 1) + b"x"
    one = ws.header(len(refused), ws.BINARY) + refused
    flood, sent = memoryview(one * 100_000), 0
    while service.loop.readers:
        try:
            sent += service.far.send(flood[sent:])
        except BlockingIOError:
            service.turn()
    assert HIGH < service.carrier._socket.buffered < 3 * HIGH
    assert set(service.heard()) == {relay.reset("nobody")}
    service.write(bytes(flood[sent : sent + -sent % len(one)]))  # the rest of one that was sent in part
    service.heard()
    service.say(refused)
    assert service.heard() == [relay.reset("nobody")]


def test_a_service_that_pings_and_takes_no_answers_gets_fewer(service: Service) -> None:
    _, server = service.stream("s")
    server.transport.send(bytes(8 << 20))
    service.write(b"\x89\x02hi")
    assert (ws.PONG, b"hi") not in service.raw()
    service.write(b"\x89\x02hi")
    assert service.raw() == [(ws.PONG, b"hi")]


def test_what_was_queued_is_sent_before_a_stream_is_closed(service: Service) -> None:
    calling, server = service.stream("s")
    server.transport.send(bytes(2 << 20))
    server.transport.close(1000, "done")
    server.transport.send(b"too late")
    frames = service.heard()
    assert sum(len(one) for frame in frames[:-1] for one in calling.receive(frame)) == 2 << 20
    assert frames[-1] == relay.reset("s")
    assert server.lost_for == ["done"]


def test_a_lost_socket_ends_every_stream_once(service: Service) -> None:
    servers = [service.stream(name)[1] for name in ("s", "t")]
    service.far.close()
    service.turn()
    assert [server.lost_for for server in servers] == [["the service closed the connection"]] * 2
    assert service.over == ["the service closed the connection"]
    servers[0].transport.send(b"nobody hears it")
    servers[0].transport.close(1000, "")


def test_a_lost_socket_takes_along_who_is_still_being_checked(service: Service) -> None:
    calling = Calling(
        Invitation("env", "reg", STATIC.public, "ws://h/", "may"), "s", HARNESS, Keys(), encapsulate
    )
    for frame in calling.opening:
        service.say(frame)
    [(_, answered)] = service.asked
    service.close()
    assert service.over
    answered(True, "ada")  # nobody would ever end this connection
    assert service.servers == []


def test_a_lost_socket_takes_along_what_waits(service: Service) -> None:
    _, server = service.stream("s")
    server.transport.send(bytes(8 << 20))
    assert server.transport.buffered > 4 << 20
    service.far.close()
    service.turn()
    assert (server.transport.buffered, server.transport.all_sent, len(server.lost_for)) == (0, True, 1)


def test_who_wants_a_session_that_a_stream_holds_gets_it(service: Service) -> None:
    _, server = service.stream("s")
    server.transport.probe(5.0)
    service.turn()
    assert server.lost_for == ["the stream was ended"]


@pytest.mark.parametrize(
    "bad",
    [
        ws.header(262_145, ws.BINARY) + bytes(262_145),
        b"\x82\x85\x00\x00\x00\x00hello",  # masked, as no service does
        b"\x83\x01x",  # an opcode that is none
        b"\xf2\x01x",  # reserved bits
    ],
)
def test_a_service_that_breaks_the_rules_of_the_socket_is_left(bad: bytes, service: Service) -> None:
    service.write(bad)
    assert len(service.over) == 1


def test_a_service_that_stops_answering_pings_is_left(service: Service) -> None:
    """Each half a minute a ping; a minute without a word after one, and the socket is given up."""
    _, server = service.stream("s")
    for _ in range(2):
        service.loop.advance(30.0)
        assert service.raw() == [(ws.PING, b"")]
        service.write(ws.header(0, ws.PONG))
    for _ in range(2):
        service.loop.advance(30.0)
    assert service.over == []
    service.loop.advance(30.0)
    assert service.over == ["the service stopped responding"] == server.lost_for


def test_pings_of_a_service_are_answered(service: Service) -> None:
    service.write(b"\x89\x02hi")
    assert service.raw() == [(ws.PONG, b"hi")]


def test_text_is_dropped_and_262144_bytes_are_taken(service: Service) -> None:
    calling, server = service.stream("s")
    service.write(b"\x81\x02hi")
    service.say(bytes(262_144))
    [frame] = data(calling, b"on")
    service.say(frame)
    assert server.got == [b"on"] and service.over == []


def frames_with_malice(honest: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """What a service could send instead of what it was given: bits changed, cut, twice, on other streams."""
    one = st.sampled_from(honest)

    def changed(frame: bytes, at: int, bit: int) -> bytes:
        at %= len(frame)
        return frame[:at] + bytes([frame[at] ^ (1 << bit)]) + frame[at + 1 :]

    return st.lists(
        st.one_of(
            one,
            st.builds(changed, one, st.integers(0, 10_000), st.integers(0, 7)),
            st.builds(lambda frame, size: frame[: size % (len(frame) + 1)], one, st.integers(0, 10_000)),
            st.builds(lambda frame: frame.replace(b"victim", b"other!"), one),
            st.binary(max_size=64),
            st.just(relay.reset("nobody")),
        ),
        max_size=12,
    )


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_service_crashes_or_confuses_an_executor(chosen: st.DataObject) -> None:
    """Whatever it makes of what a harness sent: the server hears a beginning of it, unchanged, or nothing;
    and another stream goes on."""
    service = Service()
    try:
        (victim, heard), (other, well) = service.stream("victim"), service.stream("unhurt")
        sent = [b"one", b"two", b"three", b"four"]
        frames = [frame for message in sent for frame in data(victim, message)]
        # Not the other one's name: a service can always reset a stream.
        for frame in chosen.draw(frames_with_malice([*frames, *victim.opening])):
            if relay.stream_of(frame) != "unhurt":
                service.say(frame)
        assert heard.got == sent[: len(heard.got)]
        [frame] = data(other, b"on")
        service.say(frame)
        assert well.got == [b"on"] and service.over == []
    finally:
        service.close()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_service_confuses_a_harness(chosen: st.DataObject) -> None:
    """A harness gets a beginning of what the executor said, unchanged, or the stream is over."""
    service = Service()
    try:
        calling, server = service.stream("victim")
        sent = [b"one", b"two", b"three"]
        frames = []
        for message in sent:
            server.transport.send(message)
            frames += service.heard()
        got: list[bytes] = []
        try:
            for frame in chosen.draw(frames_with_malice(frames)):
                got += calling.receive(frame)
        except (Disconnected, RemoteProtocolError):
            pass
        assert got == sent[: len(got)]
    finally:
        service.close()


def test_frames_of_one_stream_are_worth_nothing_on_another(service: Service) -> None:
    """A service cannot mix streams of one harness: each has keys of its own."""
    (one, first), (_, second) = service.stream("one"), service.stream("two")
    [frame] = data(one, b"for one")
    service.say(frame.replace(b"\x12\x03one", b"\x12\x03two"))
    assert (first.got, second.got) == ([], [])
    assert second.lost_for == ["the relay ended the stream"]
    service.say(frame)
    assert first.got == [b"for one"]


def test_what_an_executor_sent_is_not_taken_back(service: Service) -> None:
    """A service that sends an executor's own records back to it ends the stream: directions have keys."""
    _, server = service.stream("s")
    server.transport.send(b"mine")
    [frame] = service.heard()
    service.say(frame)
    assert server.got == [] and len(server.lost_for) == 1


@pytest.mark.parametrize(("ahead", "ends"), [(64, False), (65, True)])
def test_sixty_four_records_may_be_missing(ahead: int, ends: bool, service: Service) -> None:
    calling, server = service.stream("s")
    small = [frame for n in range(ahead + 1) for frame in data(calling, b"%d" % n)]
    service.say(small[ahead])
    assert bool(server.lost_for) is ends
    for frame in reversed(small[:ahead]):
        service.say(frame)
    assert server.got == ([] if ends else [b"%d" % n for n in range(ahead + 1)])
