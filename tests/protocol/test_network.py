"""The managed network on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.errors import InvalidParams, LimitExceeded
from outfitter.protocol.fields import Fields
from outfitter.protocol.network import (
    MAX_DOMAINS,
    DecisionNotice,
    NetworkParams,
    NetworkProxy,
    PolicyAnswer,
    ProxyRules,
    check,
)

PROXY: dict[str, Any] = {
    "enabled": True,
    "enableSocks5": True,
    "enableSocks5Udp": False,
    "allowUpstreamProxy": False,
    "dangerouslyAllowAllUnixSockets": False,
    "mode": "limited",
    "domains": {"*.a.test": "allow", "b.test": "deny", "c.test": "none"},
    "unixSockets": {"/run/x": "deny"},
    "allowLocalBinding": True,
}


def decoded(**members: Any) -> NetworkParams | None:
    return NetworkParams.decode(Fields(members, "ExecParams"))


def test_a_proxy_is_read_and_written_back_the_same() -> None:
    params = decoded(
        enforceManagedNetwork=True,
        networkProxy={
            "proxy": PROXY,
            "auditMetadata": {"conversationId": "c", "unknown": 5},
            "environmentId": None,
            "executionId": "e",
            "policyDecisionTimeoutMs": 500,
        },
    )
    rules = ProxyRules(
        True,
        "limited",
        (("*.a.test", "allow"), ("b.test", "deny"), ("c.test", "none")),
        True,
        (("/run/x", "deny"),),
    )
    assert params == NetworkParams(NetworkProxy(rules, 500), True)
    assert params is not None
    assert params.proxy is not None
    assert NetworkProxy.decode(params.proxy.encode()) == params.proxy


def test_only_the_proxy_is_needed() -> None:
    small = {name: value for name, value in PROXY.items() if name not in ("domains", "unixSockets")}
    rules = ProxyRules(True, "limited", (), True)
    assert decoded(networkProxy={"proxy": small}) == NetworkParams(NetworkProxy(rules))
    assert decoded(enforceManagedNetwork=True) == NetworkParams(None, True)
    assert decoded(managedNetwork={"loopbackPorts": [0, 65535], "allowLocalBinding": True}) is None


@pytest.mark.parametrize("name", [name for name in PROXY if name not in ("domains", "unixSockets")])
def test_every_other_member_is_required(name: str) -> None:
    without = {key: value for key, value in PROXY.items() if key != name}
    with pytest.raises(InvalidParams, match=f"^missing field `{name}`$"):
        ProxyRules.decode(without)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"networkProxy": 5}, "invalid type: number, expected struct RemoteNetworkProxyLaunchConfig"),
        ({"networkProxy": {}}, "missing field `proxy`"),
        ({"networkProxy": {"proxy": 5}}, "invalid type: number, expected struct RemoteNetworkProxyConfig"),
        (
            {"networkProxy": {"proxy": PROXY, "auditMetadata": None}},
            "invalid type: null, expected struct NetworkProxyAuditMetadata",
        ),
        (
            {"networkProxy": {"proxy": PROXY, "auditMetadata": {"model": 5}}},
            "invalid type: number, expected a string",
        ),
        ({"networkProxy": {"proxy": PROXY, "executionId": 5}}, "invalid type: number, expected a string"),
        ({"networkProxy": {"proxy": PROXY, "policyDecisionTimeoutMs": -1}}, "invalid number"),
        ({"enforceManagedNetwork": None}, "invalid type: null, expected a boolean"),
        ({"managedNetwork": {"loopbackPorts": 5}}, "invalid type: number, expected a sequence"),
        ({"managedNetwork": {"loopbackPorts": ["x"]}}, 'invalid type: string "x", expected u16'),
        ({"managedNetwork": {"loopbackPorts": [65536]}}, "invalid number"),
        ({"managedNetwork": {"allowLocalBinding": 5}}, "invalid type: number, expected a boolean"),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_reference(members: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        decoded(**members)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"mode": "half"}, "unknown variant `half`, expected `limited` or `full`"),
        ({"mode": None}, "invalid type: null, expected string or map"),
        ({"domains": {"a": "x"}}, "unknown variant `x`, expected one of `none`, `allow`, `deny`"),
        ({"domains": []}, "invalid type: sequence, expected a map"),
        ({"unixSockets": {"/a": "none"}}, "unknown variant `none`, expected `allow` or `deny`"),
        ({"unixSockets": []}, "invalid type: sequence, expected struct NetworkUnixSocketPermissions"),
    ],
)
def test_mistakes_in_rules(rules: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        ProxyRules.decode({**PROXY, **rules})
    assert str(caught.value) == text


def test_a_variant_may_stand_as_an_object() -> None:
    assert ProxyRules.decode({**PROXY, "mode": {"full": None}}).mode == "full"


def test_patterns_are_bounded() -> None:
    many = {f"{number}.test": "allow" for number in range(MAX_DOMAINS)}
    assert len(ProxyRules.decode({**PROXY, "domains": many}).domains) == MAX_DOMAINS
    with pytest.raises(LimitExceeded, match="patterns"):
        ProxyRules.decode({**PROXY, "domains": {**many, "one.more": "deny"}})


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (
            NetworkProxy(ProxyRules(enabled=False), 0),
            "network policy decision callback timeout must be nonzero",
        ),
        (
            NetworkProxy(ProxyRules(enabled=False)),
            "invalid network proxy config: executor-local network proxy launch requires an enabled proxy",
        ),
        (
            NetworkProxy(ProxyRules(unix_sockets=(("x", "deny"), ("/a", "allow"), ("y", "allow")))),
            "invalid network proxy config: invalid network.allow_unix_sockets[1]: "
            'expected a NUL-free absolute path for Linux, got "y"',
        ),
    ],
)
def test_what_no_proxy_can_be_started_with(network: NetworkProxy, text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        check(network)
    assert str(caught.value) == text


def test_a_proxy_that_can_be_started() -> None:
    check(NetworkProxy(ProxyRules(), 1))


def test_answers_of_clients() -> None:
    assert PolicyAnswer.decode({"decision": {"type": "allow"}}) == PolicyAnswer("allow")
    assert PolicyAnswer.decode({"decision": {"type": "ask", "reason": "r" * 600}}) == PolicyAnswer(
        "ask", "r" * 512
    )
    assert PolicyAnswer("allow").encode() == {"decision": {"type": "allow"}}
    for wrong in (None, {}, {"decision": {}}, {"decision": {"type": "maybe"}}):
        with pytest.raises(InvalidParams):
            PolicyAnswer.decode(wrong)


def test_a_notice_about_socks_has_no_method() -> None:
    told = DecisionNotice("p", "t", "domain", "deny", "decider", "r", "socks5_tcp", "h", 1, None, "c", True)
    assert "method" not in told.encode()
    assert DecisionNotice.decode(told.encode()) == told
