"""The executor's streams: every cell of the table, every limit."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import streams
from outfitter.core.calling import Calling, Invitation
from outfitter.core.noise import Channel, Initiator, Responder, _State, prologue
from outfitter.core.records import cut, farewell
from outfitter.core.streams import Begun, Came, Ended, Send, Streams, Validate
from outfitter.errors import Disconnected, RemoteProtocolError
from outfitter.protocol import relay
from outfitter.relay.keys import Keys, encapsulate

STATIC, HARNESS = Keys(), Keys()
INVITATION = Invitation("env", "reg", STATIC.public, "ws://somewhere/", "may")


def executor() -> Streams:
    return Streams(STATIC, "env", "reg", Keys, encapsulate)


def calling(stream: str = "s", authorization: str = "may") -> Calling:
    invitation = Invitation("env", "reg", STATIC.public, "ws://somewhere/", authorization)
    return Calling(invitation, stream, HARNESS, Keys(), encapsulate)


def pending(one: Streams, stream: str = "s", now: float = 0.0) -> tuple[Calling, Validate]:
    harness = calling(stream)
    [asked] = one.receive(harness.opening[1], now)
    assert isinstance(asked, Validate)
    return harness, asked


def opened(one: Streams, stream: str = "s") -> tuple[Calling, Begun]:
    harness, asked = pending(one, stream)
    sent, begun = one.validated(stream, asked.instance, True, 0.0)
    assert isinstance(sent, Send) and isinstance(begun, Begun)
    assert harness.receive(sent.frame) == []
    return harness, begun


def data(harness: Calling, message: bytes) -> bytes:
    assert harness.sealer is not None
    seq, record = harness.sealer.seal(*cut((message,)))
    return relay.DataWriter(harness.stream).head(seq, len(record)) + record


RESET = Send(relay.reset("s"))


def test_a_stream_begins_goes_on_and_ends() -> None:
    one = executor()
    harness = calling()
    assert one.receive(harness.opening[0], 0.0) == []
    [asked] = one.receive(harness.opening[1], 0.0)
    assert asked == Validate("s", 1, HARNESS.public, "may")
    sent, begun = one.validated("s", 1, True, 0.0)
    assert isinstance(sent, Send) and isinstance(begun, Begun)
    assert (begun.stream, begun.instance, begun.harness) == ("s", 1, HARNESS.public)
    assert not harness.is_open
    assert harness.receive(sent.frame) == []
    assert harness.is_open
    assert one.receive(data(harness, b"question"), 0.0) == [Came(1, [b"question"])]
    seq, record = begun.sealer.seal(*cut((b"answer",)))
    assert harness.receive(relay.DataWriter("s").head(seq, len(record)) + record) == [b"answer"]
    assert one.receive(relay.reset("s", "bye"), 0.0) == [Ended(1)]
    assert one.active == 0


def test_each_end_can_say_why_it_goes_and_nobody_else() -> None:
    one = executor()
    harness, begun = opened(one)
    seq, record = begun.sealer.seal(farewell(4001, "taken over"))
    assert harness.receive(relay.DataWriter("s").head(seq, len(record)) + record) == []
    assert harness.farewell == (4001, "taken over")
    assert harness.sealer is not None
    seq, record = harness.sealer.seal(farewell(4002, ""))
    frame = relay.DataWriter("s").head(seq, len(record)) + record
    assert one.receive(frame, 0.0) == [Ended(1, (4002, ""))]
    assert one.active == 0
    assert one.receive(frame, 0.0) == [RESET]


UNKNOWN: dict[str, tuple[Callable[[], bytes], list[streams.Action]]] = {
    "data": (lambda: relay.DataWriter("s").head(0, 1) + b"x", [RESET]),
    "reset": (lambda: relay.reset("s"), []),
    "resume": (lambda: relay.resume("s"), []),
    "no frame": (lambda: b"\xff", []),
    "a handshake that is none": (lambda: relay.handshake("s", b"x"), [RESET]),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_comes_on_an_unknown_stream(what: str) -> None:
    frame, actions = UNKNOWN[what]
    assert executor().receive(frame(), 0.0) == actions


@pytest.mark.parametrize("what", ["handshake", "data"])
def test_whoever_does_not_wait_for_the_registry_is_reset_and_charged(what: str) -> None:
    one = executor()
    harness, asked = pending(one)
    frame = harness.opening[1] if what == "handshake" else relay.DataWriter("s").head(0, 1) + b"x"
    assert one.receive(frame, 0.0) == [RESET]
    assert one._failures == 1
    assert one.validated("s", asked.instance, True, 0.0) == []  # too late


def test_a_pending_stream_that_is_reset_is_forgotten_and_nobody_is_charged() -> None:
    one = executor()
    _, asked = pending(one)
    assert one.receive(relay.resume("s"), 0.0) == []
    assert one.receive(relay.reset("s"), 0.0) == []
    assert one.validated("s", asked.instance, True, 0.0) == []
    assert one._failures == 0


def test_an_answer_for_an_older_stream_of_the_same_name_does_nothing() -> None:
    one = executor()
    _, old = pending(one)
    one.receive(relay.reset("s"), 0.0)
    _, new = pending(one)
    assert one.validated("s", old.instance, True, 0.0) == []
    assert len(one.validated("s", new.instance, True, 0.0)) == 2


def test_a_handshake_on_an_active_stream_is_reset_and_the_stream_goes_on() -> None:
    one = executor()
    harness, _ = opened(one)
    assert one.receive(calling().opening[1], 0.0) == [RESET]
    assert one.receive(relay.resume("s"), 0.0) == []
    assert one.receive(data(harness, b"on"), 0.0) == [Came(1, [b"on"])]
    assert one._failures == 0


def test_a_record_that_is_not_right_ends_its_stream_alone() -> None:
    one = executor()
    other, _ = opened(one, "other")
    opened(one)
    bad = relay.DataWriter("s").head(0, 20) + bytes(20)
    assert one.receive(bad, 0.0) == [Ended(2), RESET]
    assert one.receive(bad, 0.0) == [RESET]
    assert one.receive(data(other, b"on"), 0.0) == [Came(1, [b"on"])]


def test_a_stream_that_we_end_is_reset_once() -> None:
    one = executor()
    _, begun = opened(one)
    assert one.close(begun.instance) == [RESET]
    assert one.close(begun.instance) == []


def test_the_end_of_an_old_stream_leaves_a_new_one_of_the_same_name_alone() -> None:
    one = executor()
    _, old = opened(one)
    one.receive(relay.reset("s"), 0.0)
    harness, _ = opened(one)
    assert one.close(old.instance) == []
    assert one.receive(data(harness, b"on"), 0.0) == [Came(2, [b"on"])]


def test_who_is_refused_by_the_registry_is_reset() -> None:
    one = executor()
    _, asked = pending(one)
    assert one.validated("s", asked.instance, False, 0.0) == [RESET]
    assert one._failures == 1


def test_eight_failures_have_everybody_wait_ten_seconds() -> None:
    one = executor()
    working, _ = opened(one, "working")
    for _ in range(streams.FAILURES):
        assert one.receive(relay.handshake("s", b"x"), 100.0) == [RESET]
    assert one.receive(calling().opening[1], 109.9) == [RESET]
    assert one.receive(data(working, b"on"), 109.9) == [Came(1, [b"on"])]
    assert one._failures == 0  # nobody is charged for the wait
    pending(one, now=110.0)


def test_a_stream_that_begins_does_not_make_failures_good() -> None:
    one = executor()
    for number in range(streams.FAILURES - 1):
        one.receive(relay.handshake("s", b"x"), 0.0)
        opened(one, f"good {number}")
    assert one.receive(relay.handshake("s", b"x"), 0.0) == [RESET]
    assert one.receive(calling().opening[1], 1.0) == [RESET]


def test_thirty_two_may_wait_for_the_registry() -> None:
    one = executor()
    for number in range(streams.MAX_PENDING):
        pending(one, f"s{number}")
    assert one.receive(calling().opening[1], 0.0) == [RESET]
    assert one._failures == 0


def test_who_gives_up_again_and_again_asks_the_registry_no_more_than_who_waits() -> None:
    """Each question is a thread of the executor, for as long as the registry takes."""
    one = executor()
    asked = []
    for number in range(streams.MAX_PENDING):
        asked.append(pending(one, f"s{number}")[1])
        assert one.receive(relay.reset(f"s{number}"), 0.0) == []
    assert one.receive(calling().opening[1], 0.0) == [RESET]
    assert one._failures == 0
    assert one.validated("s0", asked[0].instance, False, 0.0) == []
    pending(one)


def test_a_hundred_and_twenty_eight_streams_may_be_active() -> None:
    one = executor()
    for number in range(streams.MAX_ACTIVE):
        opened(one, f"s{number}")
    assert one.active == streams.MAX_ACTIVE
    assert one.receive(calling().opening[1], 0.0) == [RESET]


@pytest.mark.parametrize(("size", "taken"), [(4096, True), (4097, False)])
def test_an_authorization_has_a_limit(size: int, taken: bool) -> None:
    one = executor()
    [action] = one.receive(calling(authorization="x" * size).opening[1], 0.0)
    assert isinstance(action, Validate) is taken
    assert one._failures == (not taken)


def test_an_authorization_that_is_no_text_is_refused_and_charged() -> None:
    one = executor()
    said = prologue("env", "reg", "s")
    first = Initiator(HARNESS, Keys(), STATIC.public, said, b"\xff", encapsulate).message
    assert one.receive(relay.handshake("s", first), 0.0) == [RESET]
    assert (one._failures, one._asking) == (1, 0)


def test_nothing_of_a_handshake_is_kept_when_it_is_over() -> None:
    """No object that holds its secrets; the ciphers of the stream have keys of their own."""

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, Initiator | Responder | _State | Channel) for one in gc.get_objects())

    before, one = kept(), executor()
    harness, begun = opened(one)
    assert kept() <= before
    assert one.receive(data(harness, b"on"), 0.0) == [Came(begun.instance, [b"on"])]
    pending(one, "given up")
    one.receive(relay.reset("given up"), 0.0)
    assert kept() <= before


@given(st.lists(st.binary(max_size=120), max_size=8))
def test_any_bytes_leave_other_streams_alone(messages: list[bytes]) -> None:
    one = executor()
    harness, _ = opened(one)
    for message in messages:
        one.receive(message, 0.0)
    assert one.receive(data(harness, b"on"), 0.0) == [Came(1, [b"on"])]


# The harness's end

OWN_BEFORE: dict[str, tuple[bytes, type[Exception]]] = {
    "data": (relay.DataWriter("s").head(0, 1) + b"x", RemoteProtocolError),
    "reset": (relay.reset("s"), Disconnected),
    "a handshake that is none": (relay.handshake("s", b"x"), RemoteProtocolError),
    "an invalid frame": (relay.handshake("s", b"")[:-4] + b"\x52\x00", RemoteProtocolError),
    "no frame": (b"\xff", RemoteProtocolError),
}


@pytest.mark.parametrize("what", OWN_BEFORE)
def test_what_ends_a_harness_s_stream_before_it_is_open(what: str) -> None:
    frame, error = OWN_BEFORE[what]
    with pytest.raises(error):
        calling().receive(frame)


@pytest.mark.parametrize("what", ["data", "reset", "handshake", "no frame"])
def test_what_ends_a_harness_s_stream_once_it_is_open(what: str) -> None:
    harness, _ = opened(executor())
    frames = {
        "data": relay.DataWriter("s").head(0, 20) + bytes(20),
        "reset": relay.reset("s"),
        "handshake": relay.handshake("s", b"x"),
        "no frame": b"\xff",
    }
    with pytest.raises(Disconnected if what == "reset" else RemoteProtocolError):
        harness.receive(frames[what])


@pytest.mark.parametrize("is_open", [False, True])
def test_a_harness_ignores_other_streams_and_what_asks_for_nothing(is_open: bool) -> None:
    harness = opened(executor())[0] if is_open else calling()
    for frame in (relay.resume("s"), relay.resume("t"), relay.reset("t"), relay.handshake("t", b"")):
        assert harness.receive(frame) == []
    assert harness.is_open is is_open


def test_a_bundle_does_not_show_what_admits() -> None:
    assert "may" not in repr(INVITATION) and "somewhere" not in repr(INVITATION)
