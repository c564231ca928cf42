"""Frames: the same events however the stream is cut, and the same verdicts as an independent library."""

from __future__ import annotations

import random
import sys
import tomllib
import tracemalloc
from importlib.metadata import version
from pathlib import Path

import pytest
from fuzz import frames as fuzz
from fuzz.frames import frame
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, SERVER, Protocol

from outfitter.errors import RemoteProtocolError
from outfitter.protocol import websocket as ws
from outfitter.protocol.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    FrameReader,
    close_payload,
    header,
    mask,
    parse_close,
    pieces,
)

quick = settings(deadline=None, max_examples=80)

FIN = 0x80
LIMIT = 1000
Event = tuple[int, bytes | str]


@pytest.fixture(params=["with the extra", "without it"])
def masking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Masks large payloads with the function of the `speed` extra, or with ours where it is not installed."""
    monkeypatch.setattr(ws, "_large", None)
    if request.param == "without it":
        monkeypatch.setattr(sys, "path", [])
    return ws._load().__name__


def test_the_function_of_the_extra_is_found_where_it_is_installed(
    masking: str, request: pytest.FixtureRequest
) -> None:
    with_it = "with the extra" in request.node.callspec.id
    assert masking == ("apply_mask" if with_it else "_mask_large")


def test_the_versions_of_the_extra_are_those_that_are_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    [extra] = project["project"]["optional-dependencies"]["speed"]
    assert extra in project["dependency-groups"]["test"]
    name, _, above = extra.partition(",<")
    installed = int(version("websockets").split(".")[0])
    assert int(name.removeprefix("websockets>=")) <= installed < int(above)


def read(data: bytes, *, masked: bool = True, limit: int = LIMIT, step: int = 0) -> list[Event]:
    """The events of a whole stream, or of one that comes `step` bytes at a time."""
    reader = FrameReader(masked=masked, limit=limit)
    parts = [data[place : place + step] for place in range(0, len(data), step)] if step else [data]
    events = [event for part in parts for event in reader.feed(part)]
    if reader.fault is not None:
        raise reader.fault
    return events


def refusal(data: bytes, *, masked: bool = True, limit: int = LIMIT) -> tuple[str, int]:
    """Why a stream was refused and the close code that says so: at once and byte by byte alike."""
    found = []
    for step in (0, 1):
        with pytest.raises(RemoteProtocolError) as caught:
            read(data, masked=masked, limit=limit, step=step)
        found.append((caught.value.reason, caught.value.close_code))
    assert found[0] == found[1]
    return found[0]


# Messages


@pytest.mark.parametrize("size", [2, 3, 125, 126, 127, 1000])
def test_a_message_that_comes_alone_is_read_as_among_others(size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    reader = FrameReader(masked=True, limit=LIMIT)
    for _ in range(3):
        assert reader.only(frame(FIN | TEXT, text.encode(), masked=True)) == text
    assert read(frame(FIN | TEXT, text.encode(), masked=True)) == [(TEXT, text)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81",
        frame(FIN | TEXT, b"", masked=True),
        frame(TEXT, b"a part", masked=True),
        frame(FIN | CONTINUATION, b"a part", masked=True),
        frame(FIN | BINARY, b"bytes", masked=True),
        frame(FIN | PING, b"ping", masked=True),
        frame(FIN | TEXT, b"unmasked", masked=False),
        frame(FIN | TEXT, b"two", masked=True) + frame(FIN | TEXT, b"frames", masked=True),
        frame(FIN | TEXT, b"cut short", masked=True)[:-1],
        frame(FIN | TEXT, b"not utf-8 \xff", masked=True),
        frame(FIN | TEXT | 0x40, b"reserved", masked=True),
        frame(FIN | TEXT, b"x" * (LIMIT + 1), masked=True),
        frame(FIN | TEXT, b"x" * 127, wide=2, masked=True),
        b"\x81\xff" + b"x" * 131,
    ],
)
def test_what_is_not_one_short_message_alone_is_left_to_the_long_way(data: bytes) -> None:
    assert FrameReader(masked=True, limit=LIMIT).only(data) is None


@pytest.mark.parametrize(
    "before",
    [
        frame(TEXT, b"a part", masked=True),
        frame(TEXT, b"", masked=True),
        b"\x81",
        frame(FIN | TEXT, b"no utf-8 \xff", masked=True),
    ],
    ids=["a message under way", "one without a byte", "half a header", "a fault"],
)
def test_nothing_comes_alone_while_something_is_under_way(before: bytes) -> None:
    reader = FrameReader(masked=True, limit=LIMIT)
    reader.feed(before)
    assert reader.only(frame(FIN | TEXT, b"alone", masked=True)) is None


@quick
@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda raw: frame(FIN | TEXT, raw, masked=True)))
def test_alone_or_among_others_the_same_is_read(data: bytes) -> None:
    text = FrameReader(masked=True, limit=LIMIT).only(data)
    if text is not None:
        assert read(data) == [(TEXT, text)]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 70000])
@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.usefixtures("masking")
def test_a_message_of_any_size_is_read(size: int, masked: bool, step: int) -> None:
    payload = bytes(index % 251 for index in range(size))
    text = "é" * (size // 2)
    data = frame(FIN | BINARY, payload, masked=masked) + frame(FIN | TEXT, text.encode(), masked=masked)
    assert read(data, masked=masked, limit=70000, step=step) == [(BINARY, payload), (TEXT, text)]


@pytest.mark.parametrize("wide", [1, 2])
def test_a_length_in_a_wider_form_than_needed_is_read(wide: int) -> None:
    assert read(frame(FIN | TEXT, b"abc", masked=True, wide=wide)) == [(TEXT, "abc")]


def test_fragments_are_one_message() -> None:
    data = b"".join(
        (
            frame(TEXT, b"a\xc3", masked=True),  # a character cut in two
            frame(CONTINUATION, b"", masked=True),
            frame(CONTINUATION, b"\xa9", masked=True),
            frame(FIN | CONTINUATION, b"z", masked=True),
            frame(BINARY, b"", masked=True),
            frame(FIN | CONTINUATION, b"", masked=True),
        )
    )
    for step in (0, 1, 2, 3, 5):
        assert read(data, step=step) == [(TEXT, "aéz"), (BINARY, b"")]


def test_control_frames_come_between_fragments() -> None:
    data = b"".join(
        (
            frame(BINARY, b"a", masked=True),
            frame(FIN | PING, b"1", masked=True),
            frame(CONTINUATION, b"b", masked=True),
            frame(FIN | PONG, b"x" * 125, masked=True),
            frame(FIN | CLOSE, b"\x03\xe8bye", masked=True),
            frame(FIN | CONTINUATION, b"c", masked=True),
        )
    )
    for step in (0, 1, 4):
        assert read(data, step=step) == [
            (PING, b"1"),
            (PONG, b"x" * 125),
            (CLOSE, b"\x03\xe8bye"),
            (BINARY, b"abc"),
        ]


def test_what_is_held_is_what_is_not_complete() -> None:
    reader = FrameReader(masked=False, limit=LIMIT)
    held = []
    for part in (b"\x82", b"\x05ab", b"cde", b"\x02\x02ab", b"\x00\x03", b"c", b"de\x80", b"\x00"):
        reader.feed(part)
        held.append(reader.held)
    assert held == [1, 4, 0, 2, 4, 5, 6, 0]


# Refusals


@pytest.mark.parametrize("bit", [0x10, 0x20, 0x40])
@pytest.mark.parametrize("opcode", [TEXT, PING])
def test_reserved_bits_are_refused(bit: int, opcode: int) -> None:
    assert refusal(frame(FIN | bit | opcode, b"", masked=True)) == (
        "reserved bits are set and no extension was agreed on",
        1002,
    )


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_unknown_opcodes_are_refused(opcode: int) -> None:
    assert refusal(frame(FIN | opcode, b"", masked=True)) == (f"unknown opcode {opcode}", 1002)


@pytest.mark.parametrize("masked", [True, False])
def test_a_client_masks_and_a_server_does_not(masked: bool) -> None:
    assert refusal(frame(FIN | TEXT, b"a", masked=not masked), masked=masked) == (
        "client frames must be masked, server frames must not",
        1002,
    )


@pytest.mark.parametrize("opcode", [CLOSE, PING, PONG])
def test_control_frames_are_short_and_whole(opcode: int) -> None:
    expected = ("control frames must be short and whole", 1002)
    assert refusal(frame(FIN | opcode, b"x" * 126, masked=True)) == expected
    assert refusal(frame(opcode, b"", masked=True)) == expected


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_message_does_not_begin_inside_another(opcode: int) -> None:
    data = frame(TEXT, b"a", masked=True) + frame(FIN | opcode, b"b", masked=True)
    assert refusal(data) == ("a new message began before the last one ended", 1002)


@pytest.mark.parametrize("before", [b"", frame(FIN | TEXT, b"a", masked=True)])
def test_nothing_is_continued_that_did_not_begin(before: bytes) -> None:
    assert refusal(before + frame(FIN | CONTINUATION, b"b", masked=True)) == (
        "continuation without a message to continue",
        1002,
    )


@pytest.mark.parametrize("payload", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_text_is_utf_8(payload: bytes) -> None:
    whole = frame(FIN | TEXT, payload, masked=True)
    halves = frame(TEXT, payload[:1], masked=True) + frame(FIN | CONTINUATION, payload[1:], masked=True)
    for data in (whole, halves):
        assert refusal(data) == ("text message is not UTF-8", 1007)


# Limits

TOO_LARGE = ("message exceeds the limit of 1000 bytes", 1009)


def test_a_message_as_large_as_the_limit_is_read() -> None:
    assert read(frame(FIN | BINARY, bytes(1000), masked=True)) == [(BINARY, bytes(1000))]
    halves = frame(BINARY, bytes(999), masked=True) + frame(FIN | CONTINUATION, b"\0", masked=True)
    assert read(halves) == [(BINARY, bytes(1000))]


def test_a_larger_message_is_refused_with_1009() -> None:
    assert refusal(frame(FIN | BINARY, bytes(1001), masked=True)) == TOO_LARGE
    halves = frame(BINARY, bytes(999), masked=True) + frame(FIN | CONTINUATION, b"\0\0", masked=True)
    assert refusal(halves) == TOO_LARGE


@pytest.mark.parametrize("length", [1001, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_larger_message_is_refused_by_its_header_alone(length: int) -> None:
    assert refusal(bytes((FIN | TEXT, 0x80 | 127)) + length.to_bytes(8, "big")) == TOO_LARGE


def test_the_next_message_has_the_whole_limit_again() -> None:
    half = frame(TEXT, bytes(600), masked=True) + frame(FIN | CONTINUATION, bytes(400), masked=True)
    assert read(half * 3) == [(TEXT, "\0" * 1000)] * 3


def test_control_frames_do_not_count_against_the_message() -> None:
    data = (
        frame(BINARY, bytes(1000), masked=True)
        + frame(FIN | PING, bytes(125), masked=True)
        + frame(FIN | CONTINUATION, b"", masked=True)
    )
    assert read(data) == [(PING, bytes(125)), (BINARY, bytes(1000))]


def held_after(part: bytes, times: int) -> int:
    reader = FrameReader(masked=False, limit=100_000)
    reader.feed(frame(BINARY, b"", masked=False))
    tracemalloc.start()
    for _ in range(times):
        reader.feed(part)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def test_empty_fragments_cost_nothing() -> None:
    assert held_after(frame(CONTINUATION, b"", masked=False) * 1000, 20) < 10_000


def test_small_fragments_cost_little_more_than_their_bytes() -> None:
    assert held_after(frame(CONTINUATION, b"ab", masked=False) * 1000, 10) < 4 * 20_000


# Any stream, cut anywhere


@quick
@given(st.integers(0, 2**32), st.booleans())
def test_any_cut_of_any_stream_gives_the_same_events(seed: int, masked: bool) -> None:
    rng = random.Random(seed)
    fuzz.check(rng, fuzz.stream(rng, masked=masked), masked=masked)


# The library reads the same


def ours(data: bytes, *, masked: bool) -> tuple[list[Event], bool]:
    """Events up to the first close frame, and whether the stream was refused."""
    reader = FrameReader(masked=masked, limit=fuzz.LIMIT)
    events: list[Event] = []
    for opcode, payload in reader.feed(data):
        if opcode == CLOSE:
            assert isinstance(payload, bytes)
            try:
                parse_close(payload)
            except RemoteProtocolError:
                return events, True
            return [*events, (opcode, payload)], False
        events.append((opcode, payload))
    return events, reader.fault is not None


def theirs(data: bytes, *, masked: bool) -> tuple[list[Event], bool]:
    """The same from the library. Messages are put together, measured and decoded here: the library counts
    control frames against the limit of the message around them."""
    protocol = Protocol(SERVER if masked else CLIENT, state=OPEN, max_size=(None, fuzz.LIMIT))
    protocol.receive_data(data)
    events: list[Event] = []
    opcode, parts = 0, b""
    for found in protocol.events_received():
        assert isinstance(found, Frame)
        if found.opcode >= Opcode.CLOSE:
            events.append((int(found.opcode), bytes(found.data)))
            continue
        opcode = int(found.opcode) or opcode
        parts += bytes(found.data)
        if len(parts) > fuzz.LIMIT:
            return events, True
        if found.fin:
            try:
                events.append((opcode, parts.decode() if opcode == TEXT else parts))
            except UnicodeDecodeError:
                return events, True
            parts = b""
    if str(protocol.parser_exc) == "incomplete fragmented message":
        # A close frame inside a message: they count it as a fault, we as a close.
        assert protocol.close_rcvd is not None
        return [*events, (CLOSE, CLOSE_ONLY)], False
    return events, protocol.parser_exc is not None


CLOSE_ONLY = b"a close frame of some content"


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.booleans())
def test_the_library_reads_the_same(seed: int, masked: bool) -> None:
    data = fuzz.stream(random.Random(seed), masked=masked)
    events, refused = ours(data, masked=masked)
    expected, expected_refused = theirs(data, masked=masked)
    if refused is not expected_refused:
        # A bad frame at the very end is seen by one at its first bytes, by the other when it is whole.
        data += bytes(fuzz.LIMIT + 14)
        events, refused = ours(data, masked=masked)
        expected, expected_refused = theirs(data, masked=masked)
    if expected[-1:] == [(CLOSE, CLOSE_ONLY)]:
        assert events[-1][0] == CLOSE
        events, expected = events[:-1], expected[:-1]
    assert (events, refused) == (expected, expected_refused)


@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG]), st.text(max_size=40)
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_what_the_library_writes_is_read(messages: list[tuple[Opcode, str]], masked: bool) -> None:
    messages = [(opcode, text.encode("utf-8", "replace").decode()) for opcode, text in messages]
    data = b"".join(Frame(opcode, text.encode()[:125]).serialize(mask=masked) for opcode, text in messages)
    expected = []
    for opcode, text in messages:
        raw = text.encode()[:125]
        try:
            expected.append((int(opcode), raw.decode() if opcode is Opcode.TEXT else raw))
        except UnicodeDecodeError:
            return
    assert read(data, masked=masked) == expected


@quick
@given(st.sampled_from([TEXT, BINARY, PING, PONG, CONTINUATION]), st.booleans(), st.integers(0, 70_000))
@example(TEXT, True, 125)
@example(TEXT, True, 126)
@example(TEXT, True, 65535)
@example(TEXT, True, 65536)
def test_a_header_is_what_the_library_writes(opcode: int, final: bool, length: int) -> None:
    if opcode in (PING, PONG):
        final, length = True, length % 126
    whole = Frame(Opcode(opcode), bytes(length), fin=final).serialize(mask=False)
    assert header(length, opcode, final=final) + bytes(length) == whole


# Pieces


@pytest.mark.parametrize("size", [0, 5, 70_000])
def test_a_message_is_one_frame(size: int) -> None:
    message = b"x" * size
    assert pieces(message) == [header(size), message]
    assert read(b"".join(pieces(message)), masked=False, limit=size) == [(TEXT, "x" * size)]


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (8 << 20, [8 << 20]),
        ((8 << 20) + 1, [8 << 20, 1]),
        (16 << 20, [8 << 20, 8 << 20]),
        ((16 << 20) + 3, [8 << 20, 8 << 20, 3]),
    ],
)
def test_a_large_message_goes_in_frames_of_8_mebibytes(size: int, sizes: list[int]) -> None:
    out = pieces(bytes(size))
    heads = [
        header(length, CONTINUATION if place else TEXT, final=place == len(sizes) - 1)
        for place, length in enumerate(sizes)
    ]
    assert out[::2] == heads
    assert [len(part) for part in out[1::2]] == sizes
    if len(sizes) > 1:
        # The payloads are views: a large message is not copied to be cut.
        assert all(isinstance(part, memoryview) for part in out[1::2])


def test_a_large_message_is_read_back() -> None:
    message = bytes(range(32, 127)) * 90_000
    assert read(b"".join(pieces(message)), masked=False, limit=len(message)) == [(TEXT, message.decode())]


# Close


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1014, 3000, 4999])
def test_a_close_has_a_code_and_a_reason(code: int) -> None:
    assert parse_close(close_payload(code, "grüß")) == (code, "grüß")


def test_a_close_without_a_code_is_1005() -> None:
    assert parse_close(b"") == (1005, "")


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535])
def test_codes_that_may_not_be_sent_are_refused(code: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_close(code.to_bytes(2, "big"))
    assert (caught.value.reason, caught.value.close_code) == ("invalid close frame", 1002)


def test_a_close_of_one_byte_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="invalid close frame"):
        parse_close(b"\x03")


def test_a_close_reason_is_utf_8() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_close(b"\x03\xe8\xff")
    assert (caught.value.reason, caught.value.close_code) == ("close reason is not UTF-8", 1007)


@quick
@given(st.text(max_size=200))
def test_any_reason_fits_a_close_frame(reason: str) -> None:
    payload = close_payload(1008, reason)
    assert len(payload) <= 125
    code, kept = parse_close(payload)
    sendable = reason.encode("utf-8", "replace").decode()
    assert code == 1008
    assert sendable.startswith(kept)
    assert kept == sendable or len(kept.encode()) > 119  # cut between characters, no earlier than needed


# Masks


@quick
@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
@example(b"", b"abcd")
@example(bytes(4096), b"\0\0\0\1")
@example(bytes(4097), b"\xff\0\0\1")
@example(bytes(10_001), b"wxyz")
def test_a_mask_is_the_key_over_and_over(payload: bytes, key: bytes) -> None:
    expected = bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))
    assert mask(payload, key) == expected
    assert ws._mask_small(payload, key) == ws._mask_large(payload, key) == expected
    assert mask(mask(payload, key), key) == payload


def test_what_came_before_a_fault_in_the_same_read_counts() -> None:
    reader = FrameReader(masked=True, limit=LIMIT)
    good, bad = frame(FIN | TEXT, b"request", masked=True), frame(FIN | 0x3, b"", masked=True)
    assert reader.feed(good + bad + good) == [(TEXT, "request")]
    assert reader.fault is not None
    assert reader.feed(good) == []
