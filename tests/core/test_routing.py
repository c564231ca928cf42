"""Where frames go at a rendezvous."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import routing
from outfitter.core.routing import GONE, Close, Pass, Routes
from outfitter.protocol import relay

DATA = relay.DataWriter("s").head(0, 1) + b"x"


def routes() -> Routes:
    """An executor's socket 1 and two harnesses' 2 and 3."""
    made = Routes()
    assert made.attach("env", 1) == []
    assert made.join("env", 2) == made.join("env", 3) == []
    return made


def test_frames_go_to_the_executor_and_back_as_they_are() -> None:
    one = routes()
    assert one.received(2, relay.resume("s")) == [Pass(1, relay.resume("s"))]
    odd = b"\x12\x01s\x08\x01\x3a\x00"
    assert one.received(2, odd) == [Pass(1, odd)]
    assert one.received(1, DATA) == [Pass(2, DATA)]
    assert one.counts == (1, 2, 1)


def test_what_the_executor_sends_to_nobody_is_dropped() -> None:
    one = routes()
    assert one.received(1, DATA) == []
    assert one.received(1, b"\xff") == one.received(2, b"\xff") == one.received(9, DATA) == []


def test_a_stream_belongs_to_who_named_it_first() -> None:
    one = routes()
    one.received(2, DATA)
    assert one.received(3, DATA) == [Close(3, 1008, "the stream belongs to another connection")]
    assert one.received(1, DATA) == [Pass(2, DATA)]


def test_another_environment_s_streams_are_apart() -> None:
    one = routes()
    one.attach("other", 11)
    one.join("other", 12)
    one.received(2, DATA)
    assert one.received(12, DATA) == [Pass(11, DATA)]
    assert one.received(11, DATA) == [Pass(12, DATA)]


def test_a_harness_that_leaves_ends_its_streams_at_the_executor() -> None:
    one = routes()
    one.received(2, DATA)
    one.received(3, relay.resume("t"))
    assert one.lost(2) == [Pass(1, relay.reset("s"))]
    assert one.lost(2) == []
    assert one.received(1, DATA) == []
    assert one.received(3, DATA) == [Pass(1, DATA)]
    assert one.counts == (1, 1, 2)


def test_an_executor_that_leaves_ends_its_harnesses() -> None:
    one = routes()
    why = "the executor's connection was lost"
    assert one.lost(1) == [Close(2, GONE, why), Close(3, GONE, why)]
    assert not one.online("env")
    assert one.counts == (0, 0, 0)
    assert one.lost(2) == one.received(2, DATA) == []


def test_a_new_executor_takes_the_place_of_the_old() -> None:
    one = routes()
    why = "another executor took this one's place"
    assert one.attach("env", 4) == [Close(2, GONE, why), Close(3, GONE, why), Close(1, 1000, why)]
    assert one.received(1, DATA) == one.lost(1) == []
    assert one.online("env")
    assert one.join("env", 5) == []
    assert one.received(5, DATA) == [Pass(4, DATA)]


def test_a_harness_without_an_executor_is_sent_away() -> None:
    assert Routes().join("env", 2) == [Close(2, GONE, "the executor is not connected")]


@pytest.mark.parametrize(
    ("sockets", "each"), [(1, routing.STREAMS_PER_HARNESS), (16, routing.STREAMS_PER_HARNESS)]
)
def test_streams_are_bounded(sockets: int, each: int) -> None:
    one = Routes()
    one.attach("env", 0)
    for socket in range(1, sockets + 2):
        one.join("env", socket)
    for socket in range(1, sockets + 1):
        for number in range(each):
            frame = relay.resume(f"{socket} {number}")
            assert one.received(socket, frame) == [Pass(0, frame)]
    beyond = 1 if sockets == 1 else sockets + 1
    assert one.received(beyond, relay.resume("more")) == [Pass(beyond, relay.reset("more"))]


def test_a_name_that_is_too_long_to_be_kept_is_dropped() -> None:
    one = routes()
    assert one.received(2, relay.resume("x" * 129)) == []
    assert one.counts == (1, 2, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("ajrl"), st.sampled_from("xy"), st.integers(1, 6), st.sampled_from("stu"))
    )
)
def test_no_order_of_events_confuses_it(events: list[tuple[str, str, int, str]]) -> None:
    one, known, gone = Routes(), set(), set()
    for kind, environment, socket, stream in events:
        steps: list[routing.Step] = []
        if kind in "aj" and socket not in known:
            known.add(socket)
            steps = (one.attach if kind == "a" else one.join)(environment, socket)
        elif kind == "r":
            steps = one.received(socket, relay.resume(stream))
        elif kind == "l" and socket in known:
            gone.add(socket)
            steps = one.lost(socket)
        for step in steps:
            assert step.socket not in gone
            if isinstance(step, Close):
                gone.add(step.socket)
                assert one.lost(step.socket) == [] or step.code == 1008
    executors, harnesses, streams = one.counts
    assert executors + harnesses <= len(known - gone) and streams <= 3 * executors
