"""The keys that leave a command running, among all that is typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.cli.detachkeys import DEFAULT, DetachKeys, parse
from outfitter.errors import SettingInvalid


def typed(keys: str, *pieces: bytes) -> tuple[bytes, bool]:
    """What is passed on of these pieces, up to the keys or to the end."""
    watch = DetachKeys(parse(keys))
    passed = b""
    for piece in pieces:
        more, detached = watch.feed(piece)
        passed += more
        if detached:
            return passed, True
    return passed + watch.rest(), False


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("~,d", b"~d"),
        ("ctrl-p,ctrl-q", b"\x10\x11"),
        ("ctrl-],q", b"\x1dq"),
        ("ctrl-@", b"\0"),
        ("none", b""),
    ],
)
def test_keys_are_named_as_docker_names_them(text: str, keys: bytes) -> None:
    assert parse(text) == keys


@pytest.mark.parametrize(
    "text", ["", "ctrl-", "ctrl-pp", "~d", "a,,b", "ü", " ", "ctrl-1", ",".join("a" * 9)]
)
def test_what_names_no_keys_is_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="names no keys: write them as `~,d`"):
        parse(text)


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        ((b"~d",), (b"", True)),
        ((b"ls\r~d", b"never"), (b"ls\r", True)),
        ((b"ls\r", b"~", b"d"), (b"ls\r", True)),
        ((b"ls\n~d",), (b"ls\n", True)),
        ((b"ls ~d\r",), (b"ls ~d\r", False)),  # within a line
        ((b"~/bin/x\r",), (b"~/bin/x\r", False)),
        ((b"~~d\r",), (b"~d\r", False)),  # twice stands for itself
        ((b"~~~d",), (b"~~d", False)),
        ((b"~\r~d",), (b"~\r", True)),
        ((b"~",), (b"~", False)),
        ((b"x~d\r~",), (b"x~d\r~", False)),
    ],
)
def test_printable_keys_count_at_the_beginning_of_a_line(
    pieces: tuple[bytes, ...], outcome: tuple[bytes, bool]
) -> None:
    assert typed(DEFAULT, *pieces) == outcome


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        ((b"ls\x10\x11",), (b"ls", True)),
        ((b"ls\x10", b"\x11"), (b"ls", True)),
        ((b"\x10\x10\x11",), (b"\x10", True)),
        ((b"\x10x\x11",), (b"\x10x\x11", False)),
        ((b"x\x10",), (b"x\x10", False)),
    ],
)
def test_control_keys_count_everywhere(pieces: tuple[bytes, ...], outcome: tuple[bytes, bool]) -> None:
    assert typed("ctrl-p,ctrl-q", *pieces) == outcome


@given(st.lists(st.text("~d\rx").map(str.encode)))
def test_without_keys_everything_goes_through(pieces: list[bytes]) -> None:
    assert typed("none", *pieces) == (b"".join(pieces), False)


@given(st.text("~d\rx").map(str.encode), st.integers(1, 5))
def test_it_makes_no_difference_how_keys_arrive(data: bytes, size: int) -> None:
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    assert typed(DEFAULT, *pieces) == typed(DEFAULT, data)
