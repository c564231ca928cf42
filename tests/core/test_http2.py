"""Farewells of servers of HTTP/2: which of them end a request."""

from __future__ import annotations

import pytest

from outfitter.core.http2 import Farewells
from tests.support.http2 import goaway

DATA = b"\0\0\x05\0\0\0\0\0\x01hello"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"


def read(data: bytes, size: int, stream: int = 5) -> tuple[bytes, bool]:
    """What is read of something that comes in pieces of this size, and whether there was a farewell."""
    farewells = Farewells()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join([farewells.feed(piece, stream) for piece in pieces]), farewells.said


@pytest.mark.parametrize("size", [1, 2, 9, 17, 1000])
def test_farewell_that_lets_a_stream_end_is_taken_out(size: int) -> None:
    for one in (goaway(5), goaway(7, more=b"bye"), goaway(0x7FFFFFFF), goaway(5) + goaway(5)):
        assert read(SETTINGS + one + DATA + SETTINGS, size) == (SETTINGS + DATA + SETTINGS, True)


@pytest.mark.parametrize("size", [1, 2, 9, 17, 100_000])
def test_everything_else_is_read_as_it_came(size: int) -> None:
    for one in (goaway(3), goaway(0), goaway(5, 1), goaway(5, 1 << 24), goaway(5, more=bytes(16 << 10))):
        assert read(DATA + one + DATA, size) == (DATA + one + DATA, False)
    short = b"\0\0\x04\x07\0\0\0\0\0" + b"\0\0\0\x05"
    inside = b"\0\0\x11\0\0\0\0\0\x01" + goaway(5)
    text = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    for data in (short + DATA, inside + DATA, text, b"", DATA[:3]):
        assert read(data, size)[0] == (data if len(data) != 3 else b"")
