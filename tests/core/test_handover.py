"""The format of what a server leaves to its next version: what goes in comes out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.handover import (
    FORMAT,
    Parcel,
    Received,
    ids_of,
    ids_told,
    log_of,
    log_told,
    queue_of,
    queue_told,
)
from outfitter.core.output import CROWDED_BYTES, Budget, OutputLog
from outfitter.core.stdin import REMEMBERED, StdinQueue, WriteIds


def given_over(told: Any, parcel: Parcel) -> Received:
    """What arrives of an object and what its parcel has taken."""
    return Received(memoryview(b"".join(parcel.pieces({"it": told}))))


@given(st.lists(st.binary(), max_size=5), st.text(st.characters(), max_size=20))
def test_bytes_and_text_arrive_as_they_were(pieces: list[bytes], text: str) -> None:
    parcel = Parcel()
    received = given_over({"text": text, "places": [parcel.put(one) for one in pieces]}, parcel)
    assert received.told["it"]["text"] == text
    assert [received.bytes(place) for place in received.told["it"]["places"]] == pieces


def test_text_that_is_no_utf8_and_numbers_of_any_size_arrive() -> None:
    told = {"surrogate": "a\udc80b", "mark": (1 << 62) | 12345, "deadline": 12345.678901234567, "none": None}
    assert given_over(told, Parcel()).told["it"] == told


def test_pieces_that_are_put_together_are_one() -> None:
    parcel = Parcel()
    place = parcel.put(b"ab", memoryview(b"cd"), b"")
    assert given_over(place, parcel).bytes(place) == b"abcd"


def test_descriptors_are_kept_once_and_what_is_none_is_not() -> None:
    parcel = Parcel()
    assert [parcel.keep(fd) for fd in (7, 3, -1, 7)] == [7, 3, -1, 7]
    assert given_over(None, parcel).told["descriptors"] == [7, 3]


def test_another_format_is_refused() -> None:
    other = b"".join(Parcel().pieces({})).replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1))
    with pytest.raises(ValueError, match=f"reads format {FORMAT} and was given {FORMAT + 1}"):
        Received(memoryview(other))


@pytest.mark.parametrize("data", [b"", b"something else entirely", b"outfitter handover"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no server has left this"):
        Received(memoryview(data))


# What a process has printed


def same(one: OutputLog, other: OutputLog) -> None:
    for name in OutputLog.__slots__:
        if name == "_chunks":
            assert list(one._chunks or ()) == list(other._chunks or ())
        elif name != "_budget":
            assert getattr(one, name) == getattr(other, name), name


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([b"stdout", b"stderr"]), st.binary(max_size=300)),
        st.sampled_from(["exit", "end", "close"]),
    ),
    max_size=30,
)


@given(EVENTS, st.sampled_from([100, 1 << 20]))
def test_log_goes_on_as_if_nothing_had_happened(events: list[Any], retained: int) -> None:
    budget = Budget(1 << 30)
    log = OutputLog(2, budget, retained)
    for event in events:
        if event == "exit" and not log.exited:
            log.exit(3)
        elif event == "end" and log._streams_open:
            log.end_stream()
        elif event == "close":
            log.close()
        elif isinstance(event, tuple) and not log.closed:
            log.append(*event)
    parcel = Parcel()
    received = given_over(log_told(log, parcel), parcel)
    new = Budget(1 << 30)
    after = log_of(received.told["it"], received, new)
    after._retained = retained
    same(log, after)
    assert new.used == budget.used == log._size
    for seq in range(log.next_seq):
        assert after.read(seq, None) == log.read(seq, None)
    if not log.closed:
        assert after.append(b"stdout", b"more") == log.append(b"stdout", b"more")
        same(log, after)


def test_chunk_that_is_a_view_arrives_as_bytes() -> None:
    log = OutputLog(1, Budget(1 << 30))
    log.append(b"pty", memoryview(b"abcdef")[2:4])
    parcel = Parcel()
    received = given_over(log_told(log, parcel), parcel)
    [chunk] = log_of(received.told["it"], received, Budget(CROWDED_BYTES)).after(0)
    assert (chunk.stream, chunk.data) == (b"pty", b"cd")
    assert type(chunk.data) is bytes


# What was written to it


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(0, 10), st.booleans())
def test_queue_keeps_what_was_not_taken(writes: list[bytes], taken: int, eof: bool) -> None:
    queue = StdinQueue()
    for data in writes:
        queue.push(data)
    if queue:
        queue.advance(min(taken, len(queue.head())))
    queue.eof = eof
    parcel = Parcel()
    received = given_over(queue_told(queue, parcel), parcel)
    after = queue_of(received.told["it"], received)
    assert after is not None
    assert [bytes(one) for one in after._chunks] == [bytes(one) for one in queue._chunks]
    assert (after.size, after.eof) == (queue.size, queue.eof)


def test_write_ids_are_known_and_forgotten_in_their_order() -> None:
    ids = WriteIds()
    for number in range(REMEMBERED):
        ids.add(str(number))
    after = ids_of(ids_told(ids))
    assert after is not None
    after.add("new")
    assert ("0" in after, "1" in after, "new" in after) == (False, True, True)


def test_what_was_never_made_is_not_made() -> None:
    parcel = Parcel()
    assert queue_of(queue_told(None, parcel), given_over(None, parcel)) is None
    assert ids_of(ids_told(None)) is None
