"""Which proxy a request goes through: what the reference does with the same variables, as data."""

from __future__ import annotations

import pytest

from outfitter.core.proxies import Proxies
from outfitter.core.url import parse

PROXY = "http://p:1"


def through(variables: dict[str, str], url: str) -> str | None:
    proxy = Proxies(variables).of(parse(url))
    return None if proxy is None else proxy.url.origin


@pytest.mark.parametrize(
    ("variables", "plain", "secure"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": PROXY}, PROXY, None),
        ({"http_proxy": PROXY}, PROXY, None),
        ({"HTTPS_PROXY": PROXY}, None, PROXY),
        ({"https_proxy": PROXY}, None, PROXY),
        ({"ALL_PROXY": PROXY}, PROXY, PROXY),
        ({"all_proxy": PROXY, "HTTP_PROXY": "http://q"}, "http://q", PROXY),
        ({"HTTP_PROXY": "http://q", "http_proxy": PROXY}, "http://q", None),
        ({"HTTP_PROXY": "", "http_proxy": PROXY}, None, None),
        ({"HTTP_PROXY": "", "ALL_PROXY": PROXY}, PROXY, PROXY),
        ({"HTTP_PROXY": "p:1"}, PROXY, None),
        ({"HTTP_PROXY": "socks5://p:1"}, PROXY, None),
        ({"HTTP_PROXY": "https://p:1"}, "https://p:1", None),
        ({"HTTP_PROXY": "ftp://p:1"}, None, None),
        ({"HTTP_PROXY": "::bad::"}, None, None),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None, None),
    ],
)
def test_proxy_is_that_of_the_scheme(
    variables: dict[str, str], plain: str | None, secure: str | None
) -> None:
    assert (through(variables, "http://x/"), through(variables, "https://x/")) == (plain, secure)
    assert bool(Proxies(variables)) == bool(plain or secure)


@pytest.mark.parametrize(
    ("exempt", "direct"),
    [
        ("", []),
        ("127.0.0.1", ["127.0.0.1"]),
        ("127.0.0.0/8", ["127.0.0.1"]),
        ("::1", ["[::1]"]),
        ("localhost", ["localhost"]),
        ("*", ["localhost", "a.test", "www.a.test"]),
        ("a.test", ["a.test", "www.a.test"]),
        (".a.test", ["a.test", "www.a.test"]),
        ("A.TEST", ["a.test", "www.a.test"]),
        ("test", ["a.test", "www.a.test"]),
        (".test", ["a.test", "www.a.test"]),
        ("*.test", []),
        ("st", []),
        ("a.test:80", []),
        ("  a.test , 127.0.0.1 ,", ["127.0.0.1", "a.test", "www.a.test"]),
    ],
)
def test_exempt_hosts_are_asked_directly(exempt: str, direct: list[str]) -> None:
    hosts = ["127.0.0.1", "[::1]", "localhost", "a.test", "www.a.test"]
    found = [
        host for host in hosts if through({"ALL_PROXY": PROXY, "NO_PROXY": exempt}, f"http://{host}/") is None
    ]
    assert found == direct


def test_first_of_two_lists_counts() -> None:
    lists = {"no_proxy": "a", "NO_PROXY": "b", "ALL_PROXY": PROXY}
    assert (through(lists, "http://a/"), through(lists, "http://b/")) == (PROXY, None)


def test_user_of_a_proxy_is_told_to_it_and_to_nobody_else() -> None:
    proxy = Proxies({"HTTP_PROXY": "http://me:se%20cret@p:1"}).of(parse("http://x/"))
    assert proxy is not None
    assert proxy.authorization == b"Basic bWU6c2UgY3JldA=="
    assert "secret" not in repr(proxy) and "se%20cret" not in repr(proxy)
