"""What a request becomes. The differential test has most cases; here is what needs another host or https."""

from __future__ import annotations

import pytest

from outfitter.core.addresses import METADATA, AddressRules
from outfitter.core.http import Affinity, HttpRequest, prepare
from outfitter.core.url import parse
from outfitter.errors import AddressRefused, InvalidParams, SettingInvalid

SECRET = [("Authorization", "Bearer ", "TOKEN"), ("x-a", "1", None), ("Cookie", "a=b", None)]


def request(url: str = "https://a.test/x?y", method: str = "GET") -> HttpRequest:
    return prepare(method, url, SECRET, b"body" if method == "POST" else b"", {"TOKEN": "s3cret"})


@pytest.mark.parametrize(
    ("location", "names", "referer"),
    [
        ("/y", {b"authorization", b"x-a", b"cookie", b"referer"}, b"https://a.test/x?y"),
        ("https://a.test:8443/", {b"x-a", b"referer"}, b"https://a.test/"),
        ("https://b.test/", {b"x-a", b"referer"}, b"https://a.test/"),
        ("http://a.test/", {b"x-a"}, None),
    ],
)
def test_another_host_does_not_get_what_is_secret(
    location: str, names: set[bytes], referer: bytes | None
) -> None:
    following = request().redirected(302, location)
    assert following is not None
    assert {name for name, _ in following.headers} == names
    assert dict(following.headers).get(b"referer") == referer


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "PUT", "PUT"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (308, "POST", "POST"),
    ],
)
def test_method_after_a_redirect(status: int, method: str, then: str) -> None:
    following = request(method=method).redirected(status, "/y")
    assert following is not None
    assert following.method == then
    assert bool(following.body) == (method == then == "POST")


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(request())


def test_more_headers_than_anybody_takes_are_refused() -> None:
    with pytest.raises(InvalidParams, match="at most 256 headers"):
        prepare("GET", "http://a/", [("a", "b", None)] * 257, b"", {})


# Cookies


def test_marks_of_a_load_balancer_are_shared_and_nothing_else_is() -> None:
    cookies = Affinity()
    chat = parse("https://ab.chatgpt.com/")
    told = [("set-cookie", "__cflb=1; Path=/"), ("set-cookie", "session=2"), ("x", "__cflb=3")]
    cookies.keep(chat, told)
    assert cookies.header(chat) == b"__cflb=1"
    for other in ("http://ab.chatgpt.com/", "https://chatgpt.com/", "https://a.test/"):
        assert cookies.header(parse(other)) is None
    cookies.keep(chat, [("set-cookie", "__cflb=4")])
    assert cookies.header(chat) == b"__cflb=4"
    for stranger in ("https://notchatgpt.com/", "http://chatgpt.com/"):
        cookies.keep(parse(stranger), told)
        assert cookies.header(parse(stranger)) is None


def test_operator_adds_a_cookie() -> None:
    cookies = Affinity((("a.test", "route"),))
    cookies.keep(parse("https://x.a.test/"), [("set-cookie", "route=1"), ("set-cookie", "__cflb=2")])
    assert cookies.header(parse("https://x.a.test/")) == b"route=1"
    wire = prepare("GET", "https://x.a.test/", [("cookie", "own", None)], b"", {}).wire_headers(b"route=1")
    assert [value for name, value in wire if name == b"cookie"] == [b"own"]


# Addresses


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"],
)
def test_metadata_is_refused_in_every_spelling(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressRules(METADATA).check(address)
    AddressRules().check(address)


def test_ranges_can_be_exempt() -> None:
    rules = AddressRules(("10.0.0.0/8",), ("10.0.0.7/32",))
    rules.check("10.0.0.7")
    rules.check("11.0.0.1")
    with pytest.raises(AddressRefused, match=r"does not connect to 10\.0\.0\.8, which is in 10\.0\.0\.0/8"):
        rules.check("10.0.0.8")
    with pytest.raises(SettingInvalid, match="`x` is no range"):
        AddressRules(("x",))


def test_server_for_others_does_not_reach_metadata_unless_it_is_told_to() -> None:
    from outfitter.cli.serve import _http

    flags = {"http_deny": ("10.0.0.0/8",), "http_allow": (), "http_cookie": ("A.test:Route",)}
    assert _http(flags, private=True) == (("10.0.0.0/8",), (), (("a.test", "Route"),))
    assert _http(flags, private=False)[0] == ("10.0.0.0/8", *METADATA)
    with pytest.raises(SettingInvalid, match=r"example\.com:route"):
        _http({**flags, "http_cookie": ("a.test",)}, private=True)
