"""Where an HTTP request goes, and what is sent there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.forwarding import BadRequest, Forwarded, forwarded, returned
from outfitter.core.network import Destination


def test_a_request_goes_on_without_what_was_said_to_the_proxy() -> None:
    headers = [
        (b"host", b"Example.test:8080"),
        (b"proxy-authorization", b"Basic eDp5"),
        (b"proxy-connection", b"keep-alive"),
        (b"connection", b"keep-alive, X-Secret"),
        (b"x-secret", b"1"),
        (b"te", b"trailers"),
        (b"upgrade", b"websocket"),
        (b"accept", b"*/*"),
        (b"content-length", b"3"),
    ]
    assert forwarded(b"POST", b"http://example.test:8080/p?q=1#f", headers) == Forwarded(
        Destination("http", "example.test", 8080, "POST"),
        b"/p?q=1",
        (
            (b"host", b"Example.test:8080"),
            (b"accept", b"*/*"),
            (b"content-length", b"3"),
            (b"connection", b"close"),
        ),
    )


def test_a_length_cannot_be_taken_away_by_naming_it() -> None:
    headers = [
        (b"host", b"a"),
        (b"connection", b"content-length, transfer-encoding"),
        (b"content-length", b"3"),
    ]
    assert (b"content-length", b"3") in forwarded(b"POST", b"http://a/", headers).headers


@pytest.mark.parametrize(
    ("where", "target", "path"),
    [
        (b"http://a.test", ("a.test", 80), b"/"),
        (b"http://a.test?x=1", ("a.test", 80), b"/?x=1"),
        (b"HTTP://A.test./", ("a.test", 80), b"/"),
        (b"http://[::1]:81/x", ("::1", 81), b"/x"),
        (b"http://127.1/x", ("127.0.0.1", 80), b"/x"),
    ],
)
def test_absolute_targets(where: bytes, target: tuple[str, int], path: bytes) -> None:
    found = forwarded(b"GET", where, [])
    assert ((found.target.host, found.target.port), found.path) == (target, path)


def test_a_path_alone_means_the_host_of_the_header() -> None:
    found = forwarded(b"GET", b"/x", [(b"host", b"a.test:81")])
    assert (found.target, found.path) == (Destination("http", "a.test", 81, "GET"), b"/x")
    found = forwarded(b"OPTIONS", b"*", [(b"host", b"a.test")])
    assert (found.target, found.path) == (Destination("http", "a.test", 80, "OPTIONS"), b"*")


def test_a_tunnel_names_host_and_port() -> None:
    assert forwarded(b"CONNECT", b"a.test:443", [(b"host", b"other.test")]).target == Destination(
        "https_connect", "a.test", 443, "CONNECT"
    )
    assert forwarded(b"CONNECT", b"[fe80::1%25lo]:443", []).target.host == "fe80::1"


@pytest.mark.parametrize(
    ("where", "headers", "why"),
    [
        (b"http://a.test/", [(b"host", b"b.test")], "Host header does not match request target"),
        (b"http://a.test:81/", [(b"host", b"a.test")], "Host header does not match request target"),
        (b"http://a.test:81/", [(b"host", b"a.test:82")], "Host header does not match request target"),
        (b"http://127.0.0.1/", [(b"host", b"a.test")], "Host header does not match request target"),
        (b"/x", [], "missing host"),
        (b"https://a.test/", [], "CONNECT"),
        (b"ftp://a.test/", [], "CONNECT"),
        (b"http://user@a.test/", [], "invalid host"),
        (b"http://good.test\\@bad.test/", [], "invalid host"),
        (b"http://a.test:0/", [], "invalid port"),
        (b"http://a.test:65536/", [], "invalid port"),
        (b"http://a.test:+80/", [], "invalid port"),
        (b"http://::1/", [], "in brackets"),
        (b"http://[::1]x/", [], "invalid host"),
        (b"http://\xc3\xa9.test/", [], "invalid host"),
        (b"http:///x", [], "invalid host"),
    ],
)
def test_bad_targets(where: bytes, headers: list[tuple[bytes, bytes]], why: str) -> None:
    with pytest.raises(BadRequest, match=why) as caught:
        forwarded(b"GET", where, headers)
    assert caught.value.answer.status == 400


def test_a_request_has_one_length() -> None:
    both = [(b"host", b"a"), (b"content-length", b"3"), (b"transfer-encoding", b"chunked")]
    with pytest.raises(BadRequest, match="one length"):
        forwarded(b"POST", b"http://a/", both)
    with pytest.raises(BadRequest, match="one length"):
        forwarded(b"POST", b"http://a/", [both[0], both[2]], b"1.0")
    with pytest.raises(BadRequest, match="one length"):
        forwarded(b"CONNECT", b"a:443", both)
    for one in both[1:]:
        assert one in forwarded(b"POST", b"http://a/", [both[0], one]).headers


def test_a_tunnel_has_no_body() -> None:
    for header in ((b"content-length", b"3"), (b"content-length", b"00"), (b"transfer-encoding", b"chunked")):
        with pytest.raises(BadRequest, match="CONNECT has no body"):
            forwarded(b"CONNECT", b"a:443", [(b"host", b"a"), header])
    found = forwarded(b"CONNECT", b"a:443", [(b"host", b"a"), (b"content-length", b"0")])
    assert found.target == Destination("https_connect", "a", 443, "CONNECT")


@given(st.binary(max_size=40), st.one_of(st.none(), st.binary(max_size=20)))
def test_any_request_goes_where_it_says_or_nowhere(where: bytes, host: bytes | None) -> None:
    try:
        found = forwarded(b"GET", where, [] if host is None else [(b"host", host)])
    except BadRequest:
        return
    assert found.path.startswith(b"/") or found.path == b"*"
    assert found.headers[0][0] == b"host"
    again = forwarded(b"GET", found.path, found.headers)  # as the server at the other end reads it
    assert again.target == found.target


def test_a_response_ends_its_connection() -> None:
    headers = [
        (b"content-length", b"3"),
        (b"connection", b"keep-alive, x-a"),
        (b"x-a", b"1"),
        (b"keep-alive", b"5"),
    ]
    assert returned(headers) == [(b"content-length", b"3"), (b"connection", b"close")]
