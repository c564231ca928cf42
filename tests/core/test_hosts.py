"""One spelling for each host, patterns, and which addresses are not public."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.hosts import (
    HostPatterns,
    address_of,
    canonical,
    check_denied,
    embedded,
    is_local,
    names_this_host,
)
from outfitter.errors import InvalidParams, LimitExceeded


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("example.com..", "example.com"),
        ("example.com:443", "example.com"),
        (" example.com ", "example.com"),
        ("localhost.", "localhost"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1%eth0", "fe80::1"),
        ("[fe80::1%25lo]", "fe80::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("010.0.0.1", "8.0.0.1"),
        ("0", "0.0.0.0"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("256.1.1.1", "256.1.1.1"),
        ("08.1.1.1", "08.1.1.1"),
        ("1_0.0.0.1", "1_0.0.0.1"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_every_spelling_of_a_host_is_the_same(spelling: str, host: str) -> None:
    assert canonical(spelling) == host


@pytest.mark.parametrize(
    "spelling", ["", ".", "[]", "a b", "a@b", "a/b", "a\0b", "a\\b", "x" * 256, "1::2::3", "%"]
)
def test_what_cannot_be_a_host_is_refused(spelling: str) -> None:
    with pytest.raises(ValueError, match="invalid host"):
        canonical(spelling)


@given(st.text("0123456789.xXabcdef", max_size=20))
def test_addresses_are_read_as_the_c_library_reads_them(text: str) -> None:
    try:
        packed = socket.inet_aton(text)
    except OSError:
        # glibc took `0x` for a zero until 2.43, and a command may have an older one.
        digits = ["0" if part == "0x" else part for part in text.lower().split(".")]
        if "0x" in text.lower().split("."):
            assert address_of(text.lower()) == address_of(".".join(digits))
        else:
            assert address_of(text.lower()) is None
    else:
        assert address_of(text.lower()) == ipaddress.IPv4Address(packed)


@given(st.ip_addresses())
def test_an_address_is_its_own_canonical_form(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    once = canonical(str(address))
    assert canonical(once) == once
    assert canonical(f"[{address}]" if address.version == 6 else f"{address}:80") == once


# Which addresses are not public


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.0.1", "169.254.169.254"),
        *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1"),
        *("198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *(
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
        ),
        *("64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "::7f00:1"),
        *("::ffff:10.0.0.1", "3fff::1", "5f00::1"),
    ],
)
def test_what_is_not_public_is_local(address: str) -> None:
    assert is_local(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1"),
        *(
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ),
    ],
)
def test_what_is_public_is_not(address: str) -> None:
    assert not is_local(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_as_local_as_by_itself(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:", "64:ff9b::"):
        outer = ipaddress.IPv6Address(f"{prefix}{address}")
        assert embedded(outer) == address
        assert is_local(outer) == is_local(address)


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_private_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if embedded(address) is None and (address.is_private or address.is_multicast or address.is_reserved):
        assert is_local(address)


# HostPatterns


def matches(pattern: str, host: str) -> bool:
    patterns = HostPatterns()
    patterns.add(pattern)
    return patterns.match(canonical(host))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("example.com", ["example.com", "EXAMPLE.com."], ["a.example.com", "example.org", "xexample.com"]),
        ("*.example.com", ["a.example.com", "a.b.example.com"], ["example.com", "aexample.com"]),
        ("**.example.com", ["example.com", "a.b.example.com"], ["aexample.com", "example.com.evil"]),
        ("*", ["example.com", "10.0.0.1", "::1"], []),
        ("[*]", ["example.com"], []),
        ("*:80", ["example.com"], []),
        ("a*c.test", ["ac.test", "abc.test", "ab.c.test"], ["a.test", "xac.test"]),
        ("?.test", ["a.test"], ["ab.test", ".test"]),
        ("a.*.test", ["a.b.test", "a.b.c.test"], ["a.test"]),
        ("**.a*.test", ["a.test", "ab.test", "x.ab.test"], ["b.test", "xa.test"]),
        ("*.*", ["a.b", "a.b.c"], ["a"]),
        ("example.com:443", ["example.com"], []),
        ("Example.COM.", ["example.com"], []),
        ("127.0.0.1", ["127.0.0.1", "2130706433", "::ffff:127.0.0.1"], ["127.0.0.2"]),
        ("0x7f.1", ["127.0.0.1"], []),
        ("[::1]", ["::1", "0::1"], ["::2"]),
        ("::1", ["::1"], []),
        ("a+b.test", [], ["aab.test"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [host for host in yes if not matches(pattern, host)] == []
    assert [host for host in no if host != ".test" and matches(pattern, host)] == []


names = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4).map(".".join)


@given(names, names)
def test_what_is_below_a_domain_matches_and_nothing_else(domain: str, other: str) -> None:
    below = other.endswith(f".{domain}")
    assert matches(f"*.{domain}", other) == below
    assert matches(f"**.{domain}", other) == (below or other == domain)
    assert matches(domain, other) == (other == domain)


@given(st.text(max_size=12))
def test_a_pattern_is_compiled_or_refused(text: str) -> None:
    patterns = HostPatterns()
    try:
        check_denied(text)
        patterns.add(text)
    except InvalidParams as error:
        assert str(error).startswith("invalid network proxy config: ")
    else:
        assert patterns.match("x.test") in (True, False)


def test_wildcards_inside_of_names_are_bounded_and_others_are_not() -> None:
    patterns = HostPatterns()
    for number in range(5000):
        patterns.add(f"*.{number}.test")
    assert patterns.match("a.4999.test")
    with pytest.raises(LimitExceeded, match="wildcards inside"):
        for number in range(500):
            patterns.add(f"a*{number}")


def test_no_pattern_takes_long() -> None:
    patterns = HostPatterns()
    patterns.add("*a" * 100 + "b")  # with which some would try for years
    assert not patterns.match("a" * 255)


@pytest.mark.parametrize("pattern", ["*", " * ", "**.*", "[*]", "*:80", "[*]:80"])
def test_nobody_denies_everything(pattern: str) -> None:
    with pytest.raises(InvalidParams, match=r"invalid value for network\.denied_domains"):
        check_denied(pattern)


@pytest.mark.parametrize("pattern", ["*.com", "**.com", "*.*", "?*", "a*", "***"])
def test_patterns_that_deny_something_are_let_through(pattern: str) -> None:
    check_denied(pattern)


@pytest.mark.parametrize("text", ["1.2.3.256", "1.2.65536", "1.16777216", "4294967296", "256.1", "1.2.256.4"])
def test_a_number_that_is_too_large_is_no_part_of_an_address(text: str) -> None:
    assert address_of(text) is None


def test_the_old_form_of_an_address_inside_another_is_that_address() -> None:
    assert str(embedded(ipaddress.IPv6Address("::10.0.0.1"))) == "10.0.0.1"
    assert [embedded(ipaddress.IPv6Address(text)) for text in ("::", "::1", "2606::1")] == [None] * 3


def test_which_names_mean_this_host() -> None:
    names = ("localhost", "a.localhost", "localhost.test", "alocalhost", "localhos")
    assert [names_this_host(name) for name in names] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "domain pattern is empty"),
        ("*.", "domain pattern is empty"),
        ("**.", "domain pattern is empty"),
        ("a**.test", "unsupported repeated wildcard: a**.test"),
        ("a[b].test", "brackets are only supported for IPv6 literals or [*]: a[b].test"),
        ("a].test", "brackets are only supported for IPv6 literals or [*]: a].test"),
        ("[127.0.0.1]", "brackets are only supported for IPv6 literals or [*]: [127.0.0.1]"),
        ("[a:b]", "brackets are only supported for IPv6 literals or [*]: [a:b]"),
        ("a.test/x", "unsupported domain pattern syntax: a.test/x"),
        ("{a,b}.test", "unsupported domain pattern syntax: {a,b}.test"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        HostPatterns().add(pattern)
    assert str(refused.value) == f"invalid network proxy config: {why}"
