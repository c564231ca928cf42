from __future__ import annotations

import pytest

from outfitter.core.collecting import Collected, Kept


@pytest.mark.parametrize(
    ("limit", "overflow", "kept", "dropped"),
    [
        (5, "raise", b"abcde", 4),
        (5, "head", b"abcde", 4),
        (5, "tail", b"efghi", 4),
        (5, "ends", b"abchi", 4),
        (9, "head", b"abcdefghi", 0),
        (9, "tail", b"abcdefghi", 0),
        (9, "ends", b"abcdefghi", 0),
        (0, "tail", b"", 9),
        (1, "ends", b"a", 8),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_a_part_is_kept_to_the_byte(limit: int, overflow: str, kept: bytes, dropped: int, size: int) -> None:
    found, data = Kept(limit, overflow), b"abcdefghi"
    for place in range(0, len(data), size):
        found.add(data[place : place + size])
    assert (found.bytes(), found.dropped) == (kept, dropped)


def test_streams_are_bounded_apart_or_together() -> None:
    apart, together = Collected(3, "head"), Collected(3, "head", merged=True)
    for kept in (apart, together):
        kept.add("stdout", b"ab")
        kept.add("stderr", b"cdef")
    assert (apart.stdout, apart.stderr, apart.dropped) == (b"ab", b"cde", 1)
    assert (together.stdout, together.stderr, together.dropped) == (b"abc", b"", 3)
