"""SOCKS5 as a server reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import socks
from outfitter.core.network import Destination


def wanted(kind: int, host: bytes, port: int = 443, command: int = 1) -> bytes:
    size = bytes([len(host)]) if kind == 3 else b""
    return bytes([5, command, 0, kind]) + size + host + port.to_bytes(2, "big")


def test_a_greeting_is_awaited_as_a_whole() -> None:
    said = b"\x05\x02\x02\x00rest"
    assert [socks.greeting(said[:size]) for size in range(5)] == [0, 0, 0, 0, 4]
    assert socks.greeting(said) == 4


def test_who_needs_a_password_or_speaks_something_else_is_refused() -> None:
    for data, reply in ((b"\x05\x01\x02", socks.NO_METHOD), (b"\x04\x01", b""), (b"GET / HTTP/1.1", b"")):
        with pytest.raises(socks.Invalid) as caught:
            socks.greeting(data)
        assert caught.value.reply == reply


@pytest.mark.parametrize(
    ("kind", "host", "name"),
    [
        (1, b"\x7f\0\0\x01", "127.0.0.1"),
        (4, b"\0" * 15 + b"\x01", "::1"),
        (4, b"\0" * 10 + b"\xff\xff\x7f\0\0\x01", "127.0.0.1"),
        (3, b"Example.test.", "example.test"),
        (3, b"127.0.0.1", "127.0.0.1"),
        (3, b"2130706433", "127.0.0.1"),
        (3, b"::1", "::1"),
        (3, b"[::1]", "::1"),
        (3, b"fe80::1%lo", "fe80::1"),
    ],
)
def test_every_way_to_say_a_host(kind: int, host: bytes, name: str) -> None:
    data = wanted(kind, host)
    assert all(socks.request(data[:size]) is None for size in range(len(data)))
    assert socks.request(data + b"more") == (Destination("socks5_tcp", name, 443), len(data))


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (wanted(1, b"\x7f\0\0\x01", command=2), socks.UNSUPPORTED),
        (wanted(1, b"\x7f\0\0\x01", command=3), socks.UNSUPPORTED),
        (wanted(9, b"\x7f\0\0\x01"), socks.BAD_ADDRESS),
        (wanted(3, b""), socks.REFUSED),
        (wanted(3, b"a b"), socks.REFUSED),
        (wanted(3, b"\xff"), socks.REFUSED),
        (wanted(3, b"a.test", 0), socks.REFUSED),
        (b"\x04" + wanted(1, b"\x7f\0\0\x01")[1:], b""),
    ],
)
def test_what_is_refused(data: bytes, reply: bytes) -> None:
    with pytest.raises(socks.Invalid) as caught:
        socks.request(data)
    assert caught.value.reply == reply


@given(st.binary(max_size=300))
def test_anything_is_awaited_read_or_refused(data: bytes) -> None:
    for read in (socks.greeting, socks.request):
        try:
            read(data)
        except socks.Invalid:
            pass
