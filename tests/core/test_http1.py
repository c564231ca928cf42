"""HTTP/1.1 as a client reads and writes it. The differential test of http/request has more cases."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.http1 import HEAD_BYTES, Chunked, Fixed, NotHttp, ToTheEnd, head_end, read_head, written

OK = b"HTTP/1.1 200 OK\r\n"


# Requests


def test_request_is_written_in_the_order_of_its_headers() -> None:
    headers = [(b"x-a", b"1"), (b"host", b"h"), (b"content-length", b"2")]
    assert written("POST", "/p", headers, b"ok") == (
        b"POST /p HTTP/1.1\r\nx-a: 1\r\nhost: h\r\ncontent-length: 2\r\n\r\nok"
    )


def test_body_in_chunks_has_no_length() -> None:
    headers = [(b"transfer-encoding", b"chunked"), (b"content-length", b"9")]
    assert written("POST", "/", headers, b"a" * 17) == (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n11\r\n" + b"a" * 17 + b"\r\n0\r\n\r\n"
    )
    assert written("POST", "/", headers, b"") == b"POST / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    "header",
    [
        (b"content-length", b"3"),
        (b"content-length", b"x"),
        (b"content-length", b"-2"),
        (b"transfer-encoding", b"gzip"),
    ],
)
def test_headers_that_say_something_else_of_the_body_are_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(NotHttp):
        written("POST", "/", [header], b"ok")


# Heads


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", -1),
        (b"HTT", -1),
        (OK, -1),
        (OK + b"\r\nbody", len(OK) + 2),
        (b"HTTP/1.1 200 OK\n\nbody\r\n\r\n", 17),
        (b"HTTP/1.1 200 OK\r\na: b\n\r\n", 24),
        (OK + b"\r\n\n\n", len(OK) + 2),
        (OK + b"\n\r\n", len(OK) + 1),
    ],
)
def test_head_ends_with_an_empty_line(data: bytes, end: int) -> None:
    assert head_end(data) == end


@pytest.mark.parametrize("data", [b"no HTTP", b"HTTP/2", b"X", OK + b"a: " + b"b" * HEAD_BYTES])
def test_what_cannot_become_an_answer_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(NotHttp):
        head_end(data)


@pytest.mark.parametrize(
    ("head", "method", "kind", "keeps"),
    [
        (OK + b"content-length: 2", "GET", Fixed, True),
        (OK + b"content-length: 2, 2", "GET", Fixed, True),
        (OK + b"content-length: 2", "HEAD", Fixed, True),
        (OK + b"content-length: 2\r\nconnection: close", "GET", Fixed, False),
        (OK + b"content-length: 2\r\nconnection: a, Close", "GET", Fixed, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2", "GET", Fixed, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: Keep-Alive", "GET", Fixed, True),
        (OK + b"transfer-encoding: Chunked", "GET", Chunked, True),
        (OK + b"transfer-encoding: gzip, chunked\r\ncontent-length: 3", "GET", Chunked, True),
        (OK + b"transfer-encoding: gzip", "GET", ToTheEnd, False),
        (OK + b"a: b", "GET", ToTheEnd, False),
        (b"HTTP/1.1 204 x\r\ncontent-length: 5", "GET", Fixed, True),
        (b"HTTP/1.1 304 x\r\ncontent-length: 5", "GET", Fixed, True),
        (b"HTTP/1.1 101 x\r\nupgrade: y", "GET", Fixed, False),
        (OK + b"content-length: 5", "CONNECT", Fixed, False),
    ],
)
def test_head_says_how_the_body_ends(head: bytes, method: str, kind: type, keeps: bool) -> None:
    found = read_head(method, head + b"\r\n\r\n")
    assert (type(found.body), found.keeps) == (kind, keeps)
    if kind is Fixed:
        has_body = found.status == 200 and method == "GET"
        assert found.body.is_whole() is not has_body


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\na",
        b"HTTP/1.1 200 OK\r\n: b",
        b"HTTP/1.1 200 OK\r\na b: c",
        b"HTTP/1.1 200 OK\r\na : c",
        b"HTTP/1.1 200 OK\r\na: b\r\n c",
        b"HTTP/1.1 200 OK\r\na: \0",
        b"HTTP/1.1 200 OK\r\na: b\rc",
        b"HTTP/1.2 200 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 099 OK",
        b"HTTP/1.1 200 OK\r\ncontent-length: x",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2",
        b"HTTP/1.1 200 OK\r\ncontent-length:",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999999999999",
        OK + b"\r\n".join([b"a: b"] * 101),
    ],
)
def test_head_that_is_none_is_refused(head: bytes) -> None:
    with pytest.raises(NotHttp):
        read_head("GET", head + b"\r\n\r\n")


def test_header_is_read_without_the_space_around_it() -> None:
    head = read_head("GET", b"HTTP/1.1 299\nX-A:  a b \t\nx-b:\n\n")
    assert (head.status, head.headers) == (299, [(b"x-a", b"a b"), (b"x-b", b"")])


# Bodies


def test_body_ends_where_its_length_says() -> None:
    body = Fixed(5)
    assert (body.feed(b"abc"), body.over, body.is_whole()) == (b"abc", False, False)
    assert (body.feed(b"defg"), body.over, body.surplus) == (b"de", True, b"fg")


@pytest.mark.parametrize(
    "text",
    [
        b"z\r\n",
        b"\r\n",
        b"-1\r\n",
        b"3\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabcx",
        b"1" * 16 + b"\r\n",
        b"1;" + b"x" * (17 << 10),
        b"0\r\nno header\r\n",
        b"0\r\n" + b"a: b\r\n" * 4000,
    ],
)
def test_chunks_that_are_none_are_refused(text: bytes) -> None:
    with pytest.raises(NotHttp):
        Chunked().feed(text)


@pytest.mark.parametrize("size", [b"3", b"03", b"%016x" % 3, b"0" * 60 + b"3", b"%016X ;e" % 3])
def test_size_of_a_chunk_may_have_zeros_before_it(size: bytes) -> None:
    body = Chunked()
    assert body.feed(size + b"\r\nabc\r\n" + b"0" * 16 + b"\r\n\r\n") == b"abc"
    assert body.over


@pytest.mark.parametrize("fault", [b"3\r\nghi??", b"z\r\n", b"3\r\nghi\r\n0\r\nno header\r\n"])
def test_what_came_before_chunks_that_are_none_is_not_lost(fault: bytes) -> None:
    with pytest.raises(NotHttp) as caught:
        Chunked().feed(b"3\r\nabc\r\n3\r\ndef\r\n" + fault)
    assert caught.value.before == b"abcdef" + (b"ghi" if b"ghi" in fault else b"")


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=5), st.lists(st.integers(0, 2000), max_size=8))
def test_chunks_are_read_the_same_however_they_come(pieces: list[bytes], cuts: list[int]) -> None:
    text = b"".join(b"%x;e=1 \r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\nt: x\r\n\r\n"
    body = Chunked()
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    found = b"".join([body.feed(text[begin:end]) for begin, end in pairwise(places)])
    assert (found, body.over, body.is_whole(), body.surplus) == (b"".join(pieces), True, True, b"")


def answered(data: bytes) -> tuple[int, bytes] | None:
    """The status and the body of an answer that ends with its connection; None for what is none."""
    try:
        end = head_end(data)
        if end < 0:
            return None
        head = read_head("GET", data[:end])
        found = head.body.feed(data[end:])
        return (head.status, found) if head.body.is_whole() and head.status >= 200 else None
    except NotHttp:
        return None


def by_h11(data: bytes) -> tuple[int, bytes] | None:
    state = h11.Connection(h11.CLIENT, HEAD_BYTES)
    state.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    state.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        state.receive_data(data)
        state.receive_data(b"")
        while not isinstance(event := state.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                return None
    except h11.RemoteProtocolError:
        return None
    return status, body


_PARTS = [
    *(
        b"\r\n",
        b"\n",
        b" ",
        b":",
        b";",
        b"0",
        b"2",
        b"ok",
        b"a: b\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xff",
        b"A" * 40,
    ),
    *(b"content-length: 2\r\n", b"content-length: ", b"transfer-encoding: chunked\r\n", b"2\r\nok\r\n"),
    *(b"0\r\n\r\n", OK, b"HTTP/1.0 404 \r\n", b"HTTP/1.1 204 x\r\n", b"connection: close\r\n"),
]
PARTS = st.sampled_from(_PARTS)


@given(st.lists(PARTS, max_size=14).map(b"".join), st.booleans())
def test_whatever_comes_is_read_as_others_read_it_or_refused(data: bytes, begun: bool) -> None:
    data = OK + data if begun else data
    ours, theirs = answered(data), by_h11(data)
    # Either may be the stricter one; what both take is the same.
    assert ours is None or theirs is None or ours == theirs
