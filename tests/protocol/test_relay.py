"""Relay frames: what the reference wrote, every field, and anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.protocol import relay

STREAM = "00000000-0000-4000-8000-000000000001"
HEAD = bytes.fromhex("08011224") + STREAM.encode()


def test_frames_are_written_as_the_reference_writes_them() -> None:
    assert relay.resume(STREAM) == HEAD + bytes.fromhex("3a00")
    ending = bytes.fromhex("421c0a1a") + b"noise_relay_protocol_error"
    assert relay.reset(STREAM) == HEAD + ending
    assert relay.handshake(STREAM, b"hi") == HEAD + bytes.fromhex("52040a026869")
    writer = relay.DataWriter(STREAM)
    assert writer.head(0, 2) + b"hi" == HEAD + bytes.fromhex("2a06180122026869")
    assert writer.head(300, 2) + b"hi" == HEAD + bytes.fromhex("2a0908ac02180122026869")


names = st.text(min_size=1, max_size=60).filter(lambda text: not text.isspace() and _is_utf8(text))


def _is_utf8(text: str) -> bool:
    return not any(0xD800 <= ord(mark) < 0xE000 for mark in text)


@given(names, st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=300))
def test_what_is_written_is_read(stream: str, seq: int, payload: bytes) -> None:
    data = relay.DataWriter(stream).head(seq, len(payload)) + payload
    assert relay.decode(data) == relay.Data(stream, seq, payload)
    assert relay.decode(relay.handshake(stream, payload)) == relay.Handshake(stream, payload)
    assert relay.decode(relay.reset(stream, "why")) == relay.Reset(stream, "why")
    assert relay.decode(relay.resume(stream)) == relay.Idle(stream)
    for frame in (data, relay.handshake(stream, payload), relay.reset(stream), relay.resume(stream)):
        assert relay.stream_of(frame) == stream


@given(st.binary(max_size=40), st.binary(max_size=12))
def test_the_short_way_reads_what_the_long_one_does(payload: bytes, noise: bytes) -> None:
    whole = relay.DataWriter("s").head(3, len(payload)) + payload + noise
    for data in (whole, whole[: len(whole) - len(noise) - 1], relay.resume("s")[:-2] + noise):
        usual = relay._usual(data)
        assert usual is None or usual == relay._decode(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_said_to_be_none(data: bytes) -> None:
    frame = relay.decode(data)
    assert isinstance(frame, relay.Data | relay.Handshake | relay.Reset | relay.Idle | relay.NoFrame)


@given(names, st.binary(max_size=60))
def test_any_body_is_a_frame_or_said_to_be_none(stream: str, body: bytes) -> None:
    head = relay.resume(stream)[:-2]
    assert relay.decode(head + body).stream in (stream, "") or b"\x12" in body


def frame(text: str) -> bytes:
    return HEAD + bytes.fromhex(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "version 0 of relay frames is not known"),
        (bytes.fromhex("0802") + HEAD[2:] + b"\x3a\x00", "version 2 of relay frames is not known"),
        (bytes.fromhex("0801120120") + b"\x3a\x00", "the frame names no stream"),
        (bytes.fromhex("08013a00"), "the frame names no stream"),
        (HEAD, "the frame has no body"),
        (frame("5200"), "a handshake is empty"),
        (frame("52020a00"), "a handshake is empty"),
        (frame("4200"), "a reset has no reason"),
        (frame("2a00"), "segment 0 of 0: a record has exactly one"),
        (frame("2a02 1801"), "a record is empty"),
        (frame("2a05 1802 220161"), "segment 0 of 2: a record has exactly one"),
        (frame("2a07 1001 1801 220161"), "segment 1 of 1: a record has exactly one"),
        (frame("2a05 18012201"), "the frame cannot be read: a field is cut off"),
        (frame("ff"), "the frame cannot be read: a number is cut off"),
        (frame("80808080808080808080 01"), "the frame cannot be read: a number is cut off"),
        (frame("0b"), "the frame cannot be read: wire type 3"),
        (frame("02 00"), "the frame cannot be read: a field has no number"),
        (frame("2801"), "the frame cannot be read: bytes are written as a number"),
        (frame("0a00"), "the frame cannot be read: a number is written as bytes"),
        (frame("4203 0a01ff"), "the frame cannot be read: a text is not UTF-8"),
        (frame("3a01 08"), "the frame cannot be read: a number is cut off"),
    ],
)
def test_what_is_no_frame_is_said_to_be_none(data: bytes, why: str) -> None:
    found = relay.decode(data)
    assert isinstance(found, relay.NoFrame)
    assert found.why == why


def test_unknown_fields_are_skipped_and_traces_read() -> None:
    more = bytes.fromhex("5a0161 620162 6a0163 7001 79" + "00" * 8 + "7d" + "00" * 4)
    assert relay.decode(frame("3a00") + more) == relay.Idle(STREAM)
    assert relay.decode(frame("1801 2001 3200") + more) == relay.Idle(STREAM)
    assert relay.decode(frame("4a00")) == relay.Idle(STREAM)


def test_numbers_have_32_bits() -> None:
    assert relay.decode(frame("2a0b 088180808010 1801 220161")) == relay.Data(STREAM, 1, b"a")


def test_whoever_routes_reads_names_that_are_written_otherwise() -> None:
    long = "x" * 200
    assert relay.stream_of(relay.resume(long)) == long
    assert relay.stream_of(b"\x12\x01a\x08\x01\x3a\x00") == "a"
    for data in (b"", b"\x08\x01\x12\x05ab", b"\x08\x01\x12\x01\xff\x3a\x00", b"\x08\x01\x12\x01 \x3a\x00"):
        assert relay.stream_of(data) is None
