"""URLs of http and https. The differential test of http/request has more, beside the reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.url import OtherScheme, Url, UrlInvalid, parse


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("http://a", "http://a/"),
        ("HTTP://A:80/B", "http://a/B"),
        ("https://a:443/", "https://a/"),
        ("https://a:80/", "https://a:80/"),
        ("http:a/b", "http://a/b"),
        ("http:\\\\a\\b", "http://a/b"),
        ("  http://a/\tb\n ", "http://a/b"),
        ("http://a/b/../../c/./d/..", "http://a/c/"),
        ("http://a/%2e%2E/b", "http://a/b"),
        ("http://a?b#c", "http://a/?b#c"),
        ("http://a/ \u00e9?\u00e9'#\u00e9 ", "http://a/%20%C3%A9?%C3%A9%27#%C3%A9"),
        ("http://u:p@a/", "http://a/"),
        ("http://u@v@a/", "http://a/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://017700000001./", "http://127.0.0.1/"),
        ("http://[::0001]:1/", "http://[::1]:1/"),
        ("http://b\u00fccher/", "http://xn--bcher-kva/"),
        ("http://%61/", "http://a/"),
    ],
)
def test_read_as_browsers_do(text: str, read: str) -> None:
    assert parse(text).text == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "relative URL without a base"),
        ("/x", "relative URL without a base"),
        ("1http://a", "relative URL without a base"),
        ("http://", "empty host"),
        ("http://u@/", "empty host"),
        ("http://:80/", "empty host"),
        ("http://a:65536/", "invalid port number"),
        ("http://a:1x/", "invalid port number"),
        ("http://[1]/", "invalid IPv6 address"),
        ("http://[::1/", "invalid IPv6 address"),
        ("http://[::1]x/", "invalid IPv6 address"),
        ("http://1.2.3.4.5/", "invalid IPv4 address"),
        ("http://256.1/", "invalid IPv4 address"),
        ("http://4294967296/", "invalid IPv4 address"),
        ("http://a.09/", "invalid IPv4 address"),
        ("http://a b/", "invalid international domain name"),
        ("http://a%00/", "invalid international domain name"),
    ],
)
def test_refused_with_the_references_words(text: str, why: str) -> None:
    with pytest.raises(UrlInvalid, match=f"^{why}$"):
        parse(text)


def test_other_scheme_is_named() -> None:
    with pytest.raises(OtherScheme, match=r"^ftp$"):
        parse("FTP://a/")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", "http://u/a/b?q"),
        ("#f", "http://u/a/b?q#f"),
        ("?x", "http://u/a/b?x"),
        ("c", "http://u/a/c"),
        ("../c", "http://u/c"),
        ("/c", "http://u/c"),
        ("//v/c", "http://v/c"),
        ("\\c", "http://u/c"),
        ("http:c", "http://u/a/c"),
        ("https:c", "https://c/"),
        ("https://v", "https://v/"),
    ],
)
def test_relative_ones_are_joined(text: str, read: str) -> None:
    assert parse(text, parse("http://u/a/b?q#old")).text == read


@given(st.text())
def test_what_was_read_is_read_again_as_itself(text: str) -> None:
    for start in ("http://", "http://a/", "http://a/?", "http://a/#"):
        try:
            url = parse(start + text)
        except UrlInvalid:
            continue
        again = parse(url.text)
        assert (again.text, again.target) == (url.text, url.target)
        assert isinstance(again, Url) and url.target.isascii()
