"""The order of a policy, and what a proxy answers."""

from __future__ import annotations

import json
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import network
from outfitter.core.hosts import address_of, is_local
from outfitter.core.network import (
    ALLOWED,
    DENIED,
    LOCAL,
    OPAQUE,
    UNIX_SOCKET,
    UNLISTED,
    UNSAFE,
    Destination,
    NetworkPolicy,
    NetworkVerdict,
    ProxyAnswer,
    decided,
    refusal,
)
from outfitter.errors import InvalidParams
from outfitter.protocol.network import CONNECT, HTTP, SOCKS, ProxyRules


def policy(domains: dict[str, str], *, mode: str = "full", local: bool = False) -> NetworkPolicy:
    return NetworkPolicy(ProxyRules(mode=mode, domains=tuple(domains.items()), local=local))


def judged(rules: NetworkPolicy, host: str, protocol: str = HTTP) -> NetworkVerdict:
    return rules.judge(Destination(protocol, host, 80, "GET"))


def test_the_order_of_the_rules() -> None:
    rules = policy(
        {"*": "allow", "bad.test": "deny", "10.0.0.9": "allow", "10.0.0.8": "deny", "off.test": "none"}
    )
    assert judged(rules, "good.test") == ALLOWED
    assert judged(rules, "bad.test") == DENIED
    assert judged(rules, "10.0.0.8") == DENIED
    assert judged(rules, "10.0.0.9") == ALLOWED  # by its own name
    assert judged(rules, "10.0.0.7") == LOCAL  # `*` does not cover it
    assert judged(rules, "localhost") == LOCAL
    assert judged(rules, "a.localhost") == LOCAL
    assert judged(policy({"off.test": "none"}), "off.test") == UNLISTED
    assert judged(policy({}), "good.test") == UNLISTED
    assert judged(policy({"localhost": "allow"}), "localhost") == ALLOWED


def test_a_denied_host_is_denied_although_it_is_allowed_as_well() -> None:
    rules = policy({"**.test": "allow", "*.bad.test": "deny"})
    assert (judged(rules, "bad.test"), judged(rules, "a.bad.test")) == (ALLOWED, DENIED)


def test_an_address_is_denied_in_every_disguise() -> None:
    rules = policy({"*": "allow", "8.8.8.8": "deny"})
    assert judged(rules, "64:ff9b::808:808") == DENIED
    assert judged(rules, "2002:808:808::") == DENIED


def test_local_binding_lets_local_hosts_be_allowed_and_no_more() -> None:
    rules = policy({"127.0.0.1": "allow"}, local=True)
    assert (judged(rules, "127.0.0.1"), judged(rules, "127.0.0.2")) == (ALLOWED, UNLISTED)
    assert judged(policy({"*": "allow"}, local=True), "127.0.0.2") == ALLOWED


def test_what_a_name_stands_for_is_judged_as_well() -> None:
    rules = policy(
        {"a.test": "allow", "127.0.0.9": "allow", "localhost": "allow", "*": "allow", "1.1.1.1": "deny"}
    )
    named = Destination(HTTP, "a.test", 80)
    public, local, denied = ip_address("8.8.8.8"), ip_address("127.0.0.1"), ip_address("1.1.1.1")
    assert rules.judge_addresses(named, [public]) is None
    assert rules.judge_addresses(named, [public, local]) == LOCAL  # one is enough
    assert rules.judge_addresses(named, [ip_address("127.0.0.9")]) is None  # allowed by itself
    assert rules.judge_addresses(named, [public, denied]) == DENIED
    assert rules.judge_addresses(Destination(HTTP, "localhost", 80), [local]) is None
    assert rules.judge_addresses(Destination(HTTP, "b.localhost", 80), [local]) == LOCAL
    assert rules.judge_addresses(named, []) is None
    assert policy({"a.test": "allow"}, local=True).judge_addresses(named, [local]) is None


def test_limited_mode_lets_only_through_what_changes_nothing() -> None:
    rules = policy({"a.test": "allow"}, mode="limited")
    guards = {
        method: rules.guard(Destination(HTTP, "a.test", 80, method))
        for method in ("GET", "HEAD", "OPTIONS", "POST")
    }
    assert guards == {"GET": None, "HEAD": None, "OPTIONS": None, "POST": UNSAFE}
    assert rules.guard(Destination(CONNECT, "a.test", 443, "CONNECT")) == OPAQUE
    assert (judged(rules, "a.test"), judged(rules, "a.test", SOCKS)) == (ALLOWED, UNSAFE)
    assert judged(policy({"a.test": "allow"}), "a.test", SOCKS) == ALLOWED
    assert policy({}).guard(Destination(CONNECT, "a.test", 443, "CONNECT")) is None


@given(st.ip_addresses(), st.booleans())
def test_no_wildcard_leads_to_a_local_address(address: object, apex: bool) -> None:
    rules = policy({"*": "allow", "**.1": "allow"} if apex else {"*": "allow"})
    literal = address_of(str(address))
    assert literal is not None
    expected = LOCAL if is_local(literal) else ALLOWED
    assert judged(rules, str(literal)) == expected
    assert (rules.judge_addresses(Destination(HTTP, "a.test", 80), [literal]) or ALLOWED) == expected


def test_mistakes_in_denials_are_told_first() -> None:
    with pytest.raises(InvalidParams, match="denied_domains"):
        policy({"": "allow", "*": "deny"})
    with pytest.raises(InvalidParams, match="domain pattern is empty"):
        policy({"": "allow"})
    policy({"": "none"})


def test_what_a_client_says_becomes_a_verdict() -> None:
    assert decided("allow", "x") == NetworkVerdict("allow", "decider", "allow", override=True)
    assert decided("deny", "because") == NetworkVerdict("deny", "decider", "because")
    assert decided("ask", "") == NetworkVerdict("ask", "decider", "not_allowed")
    assert [decided(word, "").allows for word in ("allow", "deny", "ask")] == [True, False, False]
    assert [one.allows for one in (ALLOWED, DENIED, LOCAL, OPAQUE, UNLISTED, UNSAFE)] == [True, *[False] * 5]
    assert not ALLOWED.override


# Answers


def test_a_refused_request_gets_json_and_a_refused_tunnel_text() -> None:
    answer = refusal(Destination(HTTP, "a.test", 8080, "GET"), UNLISTED)
    assert (answer.status, answer.kind, answer.error) == (403, "application/json", "blocked-by-allowlist")
    assert json.loads(answer.body) == {
        "status": "blocked",
        "host": "a.test",
        "reason": "not_allowed",
        "decision": "deny",
        "source": "baseline_policy",
        "protocol": "http",
        "port": 8080,
        "message": "Domain not in allowlist.",
    }
    tunnel = Destination(CONNECT, "a.test", 443, "CONNECT")
    assert refusal(tunnel, DENIED) == ProxyAnswer(
        403, "text/plain", b"Domain denied by the sandbox policy.", "blocked-by-denylist"
    )
    assert refusal(tunnel, OPAQUE).error == "blocked-by-mitm-required"
    assert refusal(tunnel, decided("deny", "because")) == ProxyAnswer(
        403, "text/plain", b"Request blocked by network policy.", "blocked-by-policy"
    )
    assert refusal(Destination(HTTP, "a", 1), UNSAFE).error == "blocked-by-method-policy"
    assert refusal(Destination(HTTP, "a", 1), UNIX_SOCKET) == ProxyAnswer(
        501, "text/plain", b"unix sockets unsupported"
    )
    assert network.unresolved(tunnel).status == 502
