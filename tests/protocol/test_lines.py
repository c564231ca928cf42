"""Lines are the same however the stream was cut, and none may be longer than the limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.errors import RemoteProtocolError
from outfitter.protocol.lines import LineReader

quick = settings(deadline=None, max_examples=100)


def read(pieces: list[bytes], limit: int = 1000) -> list[bytes]:
    reader = LineReader(limit)
    return [line for piece in pieces for line in reader.feed(piece)] + reader.end()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


streams = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"{}", b"\0", b"\xff"]), max_size=20
).map(b"".join)


@given(streams | st.binary(max_size=40), st.lists(st.integers(0, 1000), max_size=8))
@example(b"a\r\n\r\nb", [2, 3, 4])
@quick
def test_any_cut_of_a_stream_gives_the_same_lines(data: bytes, places: list[int]) -> None:
    # Split at newlines, one carriage return dropped, blank lines skipped.
    expected = [line for raw in data.split(b"\n") if (line := raw.removesuffix(b"\r"))]
    assert read(cut(data, places)) == expected
    assert read([data]) == expected
    assert read([bytes((byte,)) for byte in data]) == expected


def test_an_unfinished_line_counts_at_the_end_only() -> None:
    reader = LineReader(100)
    assert [reader.feed(b"a\nb"), reader.feed(b"c"), reader.end(), reader.end()] == [[b"a"], [], [b"bc"], []]


def test_only_one_carriage_return_is_dropped() -> None:
    assert read([b"a\r\r\n\r\r\nb\r"]) == [b"a\r", b"\r", b"b"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""])
def test_a_line_as_long_as_the_limit_is_read(end: bytes) -> None:
    line = b"x" * 10
    assert read([line + end], limit=10) == [line]
    assert read([bytes((byte,)) for byte in line + end], limit=10) == [line]


def refuses(pieces: list[bytes], limit: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read(pieces, limit)
    assert (caught.value.reason, caught.value.close_code) == ("message exceeds the limit of 10 bytes", 1009)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("before", [b"", b"a\n", b"a\nb\n"])
def test_a_longer_line_is_refused_wherever_it_stands(before: bytes, end: bytes) -> None:
    data = before + b"x" * 12 + end
    refuses([data], 10)
    refuses([bytes((byte,)) for byte in data], 10)
    refuses([data[:5], data[5:]], 10)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_one_byte_above_the_limit_is_refused(end: bytes) -> None:
    refuses([b"x" * 11 + end], 10)


def test_a_line_without_end_is_refused_before_it_is_held() -> None:
    reader = LineReader(10)
    assert reader.feed(b"x" * 10) == []
    with pytest.raises(RemoteProtocolError):
        reader.feed(b"x" * 1000)
