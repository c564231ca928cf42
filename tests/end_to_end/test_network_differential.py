"""The managed network of our server beside the reference's: the same refusals, variables, answers, notices.

Where ours differs on purpose, the difference is named here. No packet leaves the machine: hosts are addresses
of loopback, or are refused before anybody looks them up.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.networks import PROXY, decisions, network
from tests.support.origin import origin
from tests.support.sandbox import finish, start
from tests.support.servers import serving
from tests.support.wire import Message, Wire, start_params

PYTHON = "/usr/bin/python3"
_ids = itertools.count(1)


class Both:
    """A session on each server."""

    def __init__(self, reference: Wire, ours: Wire) -> None:
        self.reference = reference
        self.ours = ours

    def __iter__(self) -> Iterator[Wire]:
        return iter((self.reference, self.ours))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    homes = [tmp_path_factory.mktemp(name) for name in ("reference", "ours")]
    with (
        serving("codex", homes[0]) as reference,
        serving("outfitter", homes[1]) as ours,
        Wire(reference.url) as one,
        Wire(ours.url) as other,
    ):
        one.handshake()
        other.handshake()
        yield Both(one, other)


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with origin() as port:
        yield port


# Refusals


def proxy(**rules: Any) -> Message:
    return {"networkProxy": {"proxy": {**PROXY, **rules}}}


def launch(**members: Any) -> Message:
    return {"networkProxy": {"proxy": PROXY, **members}}


_PATTERNS = """
* ** *** **.* *. **. *.* a*b ?.b a.*.b a.**.b **.a.** **a a** *a a* *a* ?* *? a,b a}b {a,b} a]b a[b]c [a-c].d
[a] [*] [*]:80 [**] [**.x] [::1] [::1 ::1] [::1]:80 [::1%lo] [1.2.3.4] ::1 a:80 *.b:443 *:80 a: a:b 1::2::3
A.B a.b. a..b .a *..a **.a. !a a_b a\\b 1.2.3.4/8 fe80::1%eth0 localhost **.com *.com http://a.b http: 0x7f.1
010.0.0.1
"""
PATTERNS = _PATTERNS.split()
CASES: dict[str, Message] = {
    **{f"allow {one}": proxy(domains={one: "allow"}) for one in PATTERNS},
    **{f"deny {one}": proxy(domains={one: "deny"}) for one in PATTERNS},
    "allow nothing": proxy(domains={"": "allow"}),
    "deny a space": proxy(domains={" ": "deny"}),
    "a pattern with a space": proxy(domains={"a b": "allow"}),
    "a pattern with spaces around it": proxy(domains={"  a ": "allow"}),
    "a denial before a mistake": proxy(domains={"": "allow", "*": "deny"}),
    "a pattern without effect": proxy(domains={"a": "none"}),
    "a pattern allowed and denied": proxy(domains={"a.b": "allow", "A.B": "deny"}),
    "an unknown permission": proxy(domains={"a": "maybe"}),
    "a number as a permission": proxy(domains={"a": 5}),
    "null as a permission": proxy(domains={"a": None}),
    "a list of domains": proxy(domains=["a"]),
    "a number of domains": proxy(domains=5),
    "a proxy that is off": proxy(enabled=False),
    "a proxy that is off, with a mistake": proxy(enabled=False, domains={"*": "deny"}),
    "an unknown mode": proxy(mode="half"),
    "no mode": proxy(mode=None),
    "a number as mode": proxy(mode=5),
    "a mode as an object": proxy(mode={"full": None}),
    "a number as a flag": proxy(enabled=5),
    "null as a flag": proxy(allowLocalBinding=None),
    "unknown members": proxy(httpPort=1, dangerouslyAllowNonLoopbackProxy=True),
    "a list of sockets": proxy(unixSockets=[]),
    "a number of sockets": proxy(unixSockets=5),
    "a socket": proxy(unixSockets={"/x": "allow"}),
    "a socket that is neither": proxy(unixSockets={"/x": "none"}),
    "a relative socket": proxy(unixSockets={"/a": "allow", "y": "allow"}),
    "a socket without a name": proxy(unixSockets={"": "allow"}),
    "relative sockets that are denied": proxy(unixSockets={"y": "deny"}),
    "no time for a question": launch(policyDecisionTimeoutMs=0),
    "no time, and a mistake": {
        "networkProxy": {"proxy": {**PROXY, "enabled": False}, "policyDecisionTimeoutMs": 0}
    },
    "less than no time": launch(policyDecisionTimeoutMs=-1),
    "half a time": launch(policyDecisionTimeoutMs=1.5),
    "a text as time": launch(policyDecisionTimeoutMs="x"),
    "a number as metadata": launch(auditMetadata=5),
    "null as metadata": launch(auditMetadata=None),
    "metadata": launch(auditMetadata={"conversationId": "x", "unknown": 5}),
    **{
        f"a number as {name}": launch(auditMetadata={name: 5})
        for name in ("conversationId", "appVersion", "userAccountId", "authMode", "model", "slug")
    },
    "a number as environment": launch(environmentId=5),
    "a number as execution": launch(executionId=5),
    "no proxy": {"networkProxy": {}},
    "an empty proxy": {"networkProxy": {"proxy": {}}},
    "a number as a proxy": {"networkProxy": {"proxy": 5}},
    "a number": {"networkProxy": 5},
    "a text": {"networkProxy": "x"},
    "null": {"networkProxy": None},
    **{
        f"without {name}": {"networkProxy": {"proxy": {key: PROXY[key] for key in PROXY if key != name}}}
        for name in PROXY
    },
    "a number to enforce": {"enforceManagedNetwork": 5},
    "null to enforce": {"enforceManagedNetwork": None},
    "managed by a number": {"managedNetwork": 5},
    "managed by a text": {"managedNetwork": "x"},
    "managed by nothing": {"managedNetwork": {}},
    "managed with ports": {"managedNetwork": {"loopbackPorts": [0, 5], "unknown": 5}},
    "managed with too large a port": {"managedNetwork": {"loopbackPorts": [70000]}},
    "managed with a text as a port": {"managedNetwork": {"loopbackPorts": ["x"]}},
    "managed with a number of ports": {"managedNetwork": {"loopbackPorts": 5}},
    "managed with null as ports": {"managedNetwork": {"loopbackPorts": None}},
    "managed with a number as a flag": {"managedNetwork": {"allowLocalBinding": 5}},
    "managed with null as a flag": {"managedNetwork": {"allowLocalBinding": None}},
    "managed with unix sockets": {"managedNetwork": {"dangerouslyAllowAllUnixSockets": 5}},
    "no arguments": {**launch(), "argv": []},
    "no arguments, and a mistake": {**proxy(enabled=False), "argv": []},
    "another system's directory, and a mistake": {**proxy(enabled=False), "cwd": "file:///C:/x"},
    "a mistake in the sandbox first": {
        **proxy(domains={"*": "deny"}),
        "sandbox": {"permissions": {"type": "x"}},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_is_refused_in_the_same_words(both: Both, case: str) -> None:
    said = []
    for wire in both:
        params = {**start_params(f"case-{next(_ids)}", ["/bin/true"]), **CASES[case]}
        answer = wire.answer(wire.request("process/start", params))
        error = answer.get("error")
        said.append(None if error is None else (error["code"], error["message"]))
    assert said[0] == said[1]


def test_to_enforce_without_a_proxy_is_refused_and_the_reference_runs_the_command(both: Both) -> None:
    params = start_params("unenforced", ["/bin/true"], enforceManagedNetwork=True)
    assert both.reference.call("process/start", params)["sandboxType"] == "none"
    assert both.ours.error("process/start", params)["data"] == {"error": "sandbox-unavailable"}


# Variables


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"allowLocalBinding": True},
        {"enableSocks5": False},
        {"enableSocks5Udp": True},
        {"mode": "limited"},
    ],
)
@pytest.mark.parametrize(
    "env", [{}, {"HTTP_PROXY": "http://x:1", "NO_PROXY": "a", "PIP_PROXY": "q", "OWN": "1"}]
)
def test_the_same_variables_lead_to_the_proxy(both: Both, rules: Message, env: dict[str, str]) -> None:
    seen = []
    for wire in both:
        members = {**network(**rules), "enforceManagedNetwork": False}
        ran = finish(wire, *start(wire, ["/usr/bin/env"], env=env, **members))
        lines = re.sub(r"127\.0\.0\.1:\d+$", "HERE", ran.stdout, flags=re.M).splitlines()
        seen.append(sorted(lines))
    assert seen[0] == seen[1]


# Answers

RAW = r"""
import os, re, socket, sys
kind, request = sys.argv[1], bytes.fromhex(sys.argv[2])
port = int(os.environ["HTTP_PROXY" if kind == "http" else "ALL_PROXY"].rpartition(":")[2])
data = b""
with socket.create_connection(("127.0.0.1", port), 30) as sock:
    sock.sendall(request)
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            break
        data += more
        length = re.search(rb"content-length: (\d+)", data.lower())
        head, end, body = data.partition(b"\r\n\r\n")
        if not more or (end and length and len(body) >= int(length[1])):
            break
        if kind != "http" and len(data) >= 12:
            break
print(data.hex())
"""
RULES = {"127.0.0.1": "allow", "bad.test": "deny", "**.good.test": "allow"}


def http(line: str, host: str, *more: str) -> tuple[str, bytes]:
    return "http", "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", *more, "", ""]).encode()


def socks(request: bytes) -> tuple[str, bytes]:
    return "socks", b"\5\1\0" + request


def named(host: str) -> tuple[str, bytes]:
    return socks(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + b"\0\x50")


ANSWERS: dict[str, tuple[str, bytes]] = {
    "an unlisted host": http("GET http://nope.test/x", "nope.test"),
    "a denied host": http("GET http://bad.test/", "bad.test"),
    "a denied host in capitals": http("GET http://BAD.test./", "BAD.test."),
    "another loopback address": http("GET http://127.0.0.2:81/", "127.0.0.2:81"),
    "localhost": http("GET http://localhost:81/", "localhost:81"),
    "a private address": http("GET http://10.0.0.1/", "10.0.0.1"),
    "an address of tests": http("GET http://192.0.2.1/", "192.0.2.1"),
    "IPv6 loopback": http("GET http://[::1]:81/", "[::1]:81"),
    "a tunnel to an unlisted host": http("CONNECT nope.test:443", "nope.test:443"),
    "a tunnel to a denied host": http("CONNECT bad.test:443", "bad.test:443"),
    "a tunnel to a private address": http("CONNECT 10.0.0.1:443", "10.0.0.1:443"),
    "another host in the header": http("GET http://127.0.0.1:81/", "nope.test"),
    "another port in the header": http("GET http://127.0.0.1:81/", "127.0.0.1"),
    "a unix socket": http("GET http://127.0.0.1:81/", "127.0.0.1:81", "x-unix-socket: /x"),
    "nobody there": http("GET http://127.0.0.1:1/", "127.0.0.1:1"),
    "an unlisted host by its header": http("GET /x", "nope.test"),
    "SOCKS to an unlisted host": named("nope.test"),
    "SOCKS to a denied host": named("bad.test"),
    "SOCKS to another loopback address": socks(b"\5\1\0\1\x7f\0\0\2\0\x50"),
    "SOCKS to IPv6 loopback": socks(b"\5\1\0\4" + bytes(15) + b"\1\0\x50"),
    "SOCKS with nobody there": socks(b"\5\1\0\1\x7f\0\0\1\0\1"),
    "SOCKS that binds": socks(b"\5\2\0\1\x7f\0\0\1\0\x50"),
    "SOCKS for datagrams": socks(b"\5\3\0\1\x7f\0\0\1\0\x50"),
}
LIMITED: dict[str, tuple[str, bytes]] = {
    "a request that writes": http("POST http://127.0.0.1:81/", "127.0.0.1:81", "content-length: 0"),
    "a tunnel": http("CONNECT 127.0.0.1:81", "127.0.0.1:81"),
    "SOCKS": socks(b"\5\1\0\1\x7f\0\0\1\0\x51"),
    "a request that writes to an unlisted host": http(
        "POST http://nope.test/", "nope.test", "content-length: 0"
    ),
}


def compared(both: Both, words: tuple[str, bytes], **rules: Any) -> None:
    seen = []
    for wire in both:
        argv = [PYTHON, "-c", RAW, words[0], words[1].hex()]
        members = {**network(RULES, **rules), "enforceManagedNetwork": False}
        process_id, started = start(wire, argv, **members)
        ran = finish(wire, process_id, started)
        assert ran.code == 0, ran
        seen.append((_known(bytes.fromhex(ran.stdout)), decisions(wire, process_id)))
    assert seen[0] == seen[1]


def _known(answer: bytes) -> Any:
    """What both servers settle: not when, and not how long a connection lasts."""
    if not answer.startswith(b"HTTP/"):
        return answer.hex()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    kept = sorted(one for one in map(str.lower, headers) if not one.startswith(("date:", "connection:")))
    text = body.decode()
    return status, kept, json.loads(text) if text.startswith("{") else text


@pytest.mark.parametrize("case", ANSWERS)
def test_the_same_is_answered_and_told(both: Both, case: str) -> None:
    compared(both, ANSWERS[case])


@pytest.mark.parametrize("case", LIMITED)
def test_the_same_is_answered_and_told_in_limited_mode(both: Both, case: str) -> None:
    compared(both, LIMITED[case], mode="limited")


def test_what_is_allowed_is_told_the_same(both: Both, web: int) -> None:
    seen = []
    for wire in both:
        request = http(f"GET http://127.0.0.1:{web}/x", f"127.0.0.1:{web}")[1]
        members = {**network(RULES), "enforceManagedNetwork": False}
        process_id, started = start(wire, [PYTHON, "-c", RAW, "http", request.hex()], **members)
        body = bytes.fromhex(finish(wire, process_id, started).stdout).partition(b"\r\n\r\n")[2]
        seen.append((json.loads(body)["path"], decisions(wire, process_id)))
    assert seen[0] == seen[1]


# Questions


@pytest.mark.parametrize(
    "answer", [{"type": "deny", "reason": "because"}, {"type": "ask", "reason": "later"}]
)
@pytest.mark.parametrize(
    "case", ["an unlisted host", "a tunnel to an unlisted host", "SOCKS to an unlisted host"]
)
def test_the_same_is_asked(both: Both, case: str, answer: Message) -> None:
    seen = []
    for wire in both:
        kind, request = ANSWERS[case]
        members = {**network(RULES, timeout=60_000), "enforceManagedNetwork": False}
        process_id, started = start(wire, [PYTHON, "-c", RAW, kind, request.hex()], **members)
        asked = wire.until(
            lambda one, mine=process_id: (  # type: ignore[misc]
                one["method"] == "network/policyRequest" and one["params"]["processId"] == mine
            )
        )
        wire.send({"id": asked["id"], "result": {"decision": answer}})
        ran = finish(wire, process_id, started)
        told = _known(bytes.fromhex(ran.stdout))
        seen.append((asked["params"]["request"], told, decisions(wire, process_id)))
    assert seen[0] == seen[1]
