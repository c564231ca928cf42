from __future__ import annotations

import pytest

from outfitter.core.lines import Lines


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_come_whole_whatever_the_pieces(size: int) -> None:
    data, lines = b"one\n\ntwo\r\nthree", Lines()
    found = [line for place in range(0, len(data), size) for line in lines.add(data[place : place + size])]
    assert (found, lines.rest(), lines.rest()) == ([b"one", b"", b"two"], [b"three"], [])


def test_a_long_line_comes_in_pieces() -> None:
    lines = Lines(longest=4)
    assert lines.add(b"abcdefghij") == [b"abcd", b"efgh"]
    assert lines.add(b"k\n") == [b"ijk"]
    assert lines.add(b"abcd") == []
