"""Records of a stream: cut, numbered, held, refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import records
from outfitter.core.noise import Channel, cipher, nonce
from outfitter.core.records import MAX_MESSAGE, MAX_RECORD, Opener, Sealer, cut, farewell
from outfitter.errors import RemoteProtocolError

KEY = bytes(range(32))
CHANNEL = Channel(KEY, KEY, b"")


def record(seq: int, plain: bytes) -> bytes:
    return cipher(KEY).encrypt(nonce(seq), plain, None)


def framed(*messages: bytes) -> bytes:
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


@pytest.mark.parametrize("size", [1, MAX_RECORD - 4, MAX_RECORD - 3, MAX_RECORD, 400_000])
def test_a_message_is_cut_into_records_and_put_together_again(size: int) -> None:
    message = bytes(range(256)) * (size // 256 + 1)
    message = message[:size]
    sealer = Sealer(CHANNEL)
    sealed = [sealer.seal(piece) for piece in cut((message[:7], message[7:]))]
    assert [seq for seq, _ in sealed] == list(range(len(sealed)))
    assert len(sealed) == (size + 4 + MAX_RECORD - 1) // MAX_RECORD
    assert all(len(one) == MAX_RECORD + 16 for _, one in sealed[:-1])
    opener = Opener(CHANNEL)
    found = [opener.open(seq, one) for seq, one in sealed]
    assert found == [[]] * (len(sealed) - 1) + [[message]]
    assert opener.held == 0


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=12), st.lists(st.integers(0, 60), max_size=30))
def test_messages_come_out_as_they_went_in_however_they_were_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    plain = framed(*messages)
    opener, found, place = Opener(CHANNEL), [], 0
    for seq, size in enumerate([*cuts, len(plain)]):
        found += opener.open(seq, record(seq, plain[place : place + size]))
        place += size
    assert found == messages
    assert opener.held == 0


@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=12))
def test_records_out_of_order_and_twice_come_out_once_and_in_order(
    order: list[int], again: list[int]
) -> None:
    sealer = Sealer(CHANNEL)
    sealed = [sealer.seal(framed(b"%d" % number)) for number in range(12)]
    opener = Opener(CHANNEL)
    found = [message for place in [*order, *again] for message in opener.open(*sealed[place])]
    assert found == [b"%d" % number for number in range(12)]
    assert opener.held == 0


def test_small_messages_share_a_record() -> None:
    [piece] = cut((b"a", b"b"), (b"c",))
    assert Opener(CHANNEL).open(*Sealer(CHANNEL).seal(piece)) == [b"ab", b"c"]


def test_sixty_four_records_may_be_ahead_and_no_more() -> None:
    opener = Opener(CHANNEL)
    assert opener.open(64, record(64, framed(b"x"))) == []
    with pytest.raises(RemoteProtocolError, match="record 0 of the stream is missing"):
        opener.open(65, record(65, framed(b"x")))


def test_records_that_wait_take_a_mebibyte_at_most() -> None:
    opener = Opener(CHANNEL)
    size = MAX_RECORD + 16
    for seq in range(1, (1 << 20) // size + 1):
        assert opener.open(seq, bytes(size)) == []
    assert opener.held == (1 << 20) // size * size
    with pytest.raises(RemoteProtocolError):
        opener.open(40, bytes(size))


@pytest.mark.parametrize(
    "one",
    [
        record(1, framed(b"x")),
        record(0, framed(b"x"))[:-1],
        record(0, framed(b"x")) + b"x",
        b"",
        bytes(15),
        bytes(16),
        record(0, bytes(MAX_RECORD + 1)),
        record(0, bytes(4)),
        record(0, (MAX_MESSAGE + 1).to_bytes(4, "big")),
        record(0, b"\xff\xff\xff\xff"),
    ],
    ids=[
        "another number",
        "cut",
        "longer",
        "empty",
        "short",
        "zeros",
        "long",
        "length 0",
        "over 64 MiB",
        "4 GiB",
    ],
)
def test_a_record_that_is_not_right_ends_the_stream(one: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Opener(CHANNEL).open(0, one)


def test_an_empty_record_and_the_largest_are_right() -> None:
    opener = Opener(CHANNEL)
    assert opener.open(0, record(0, b"")) == []
    whole = framed(bytes(MAX_RECORD - 4))
    assert opener.open(1, record(1, whole)) == [bytes(MAX_RECORD - 4)]
    assert opener.open(2, record(2, MAX_MESSAGE.to_bytes(4, "big"))) == []


def test_numbers_are_not_used_up_to_the_last_one() -> None:
    sealer, opener = Sealer(CHANNEL), Opener(CHANNEL)
    sealer._next = opener._next = records._LAST - 1
    assert opener.open(*sealer.seal(framed(b"last"))) == [b"last"]
    with pytest.raises(RemoteProtocolError):
        sealer.seal(b"x")
    with pytest.raises(RemoteProtocolError):
        opener.open(records._LAST, record(records._LAST, framed(b"x")))


def test_a_farewell_has_code_and_reason_behind_the_last_messages() -> None:
    opener = Opener(CHANNEL)
    assert opener.open(0, record(0, framed(b"last") + farewell(4002, "ü" * 100))) == [b"last"]
    assert opener.farewell == (4002, "ü" * 61)  # as much as a close frame may have


@pytest.mark.parametrize("body", [b"", b"\x03", b"\x03\xed", b"\x0f\xa2\xff", b"\x0f\xa2" + bytes(124)])
def test_a_length_of_zero_without_a_code_that_may_be_sent_ends_the_stream(body: bytes) -> None:
    opener = Opener(CHANNEL)
    with pytest.raises(RemoteProtocolError):
        opener.open(0, record(0, bytes(4) + body))
    assert opener.farewell is None


def test_what_waits_is_held_once_however_often_it_comes() -> None:
    opener, ahead = Opener(CHANNEL), record(1, framed(b"x"))
    for _ in range(3):
        assert opener.open(1, ahead) == []
        assert opener.held == len(ahead)


def test_records_that_wait_may_have_a_mebibyte_to_the_byte() -> None:
    opener = Opener(CHANNEL)
    for seq in range(1, 17):
        assert opener.open(seq, bytes(1 << 16)) == []
    assert opener.held == 1 << 20
    with pytest.raises(RemoteProtocolError, match="is missing"):
        opener.open(17, b"x")


def test_the_rest_of_a_message_is_not_taken_for_one() -> None:
    opener = Opener(CHANNEL)
    inside = framed(b"no message")
    whole = framed(b"head" + inside)
    assert opener.open(0, record(0, whole[: -len(inside)])) == []
    assert opener.open(1, record(1, inside)) == [b"head" + inside]
