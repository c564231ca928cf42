"""Commands with a proxy, on a real server: notices, questions, and the end."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.machine import wait_until
from tests.support.networks import decisions, network
from tests.support.origin import origin
from tests.support.sandbox import READ_ONLY, finish, need_sandbox, run, sandbox, start
from tests.support.servers import Server
from tests.support.wire import Message, Wire, start_params

# Says to its proxy what its arguments say, and prints the status of each answer.
ASK = """
import http.client, os, sys
port = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
for where in sys.argv[1:]:
    proxy = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    proxy.request("GET", where)
    answer = proxy.getresponse()
    print(answer.status, answer.read().decode()[:300])
"""
PYTHON = "/usr/bin/python3"
LOCAL = {"127.0.0.1": "allow"}


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with origin() as port:
        yield port


def asking(*where: str) -> list[str]:
    return [PYTHON, "-c", ASK, *where]


def questions(wire: Wire) -> list[Message]:
    return [one for one in wire.notices if one["method"] == "network/policyRequest"]


def question(wire: Wire) -> Message:
    """The next one."""
    known = len(questions(wire))
    while len(questions(wire)) == known:
        wire.receive()
    return questions(wire)[-1]


# Without a sandbox


def test_a_command_is_led_to_its_proxy(wire: Wire) -> None:
    ran = run(
        wire, ["/usr/bin/env"], **network(LOCAL), env={"HTTP_PROXY": "http://elsewhere:1", "NO_PROXY": "*"}
    )
    variables = dict(line.split("=", 1) for line in ran.stdout.splitlines())
    named = [
        name for name in variables if name.lower().endswith("_proxy") and name != "ELECTRON_GET_USE_PROXY"
    ]
    ports = {re.sub(r"\d+$", "", variables[name]) for name in named}
    assert ports == {"http://127.0.0.1:", "socks5h://127.0.0.1:", ""}
    assert (variables["NO_PROXY"], variables["CODEX_NETWORK_PROXY_ACTIVE"]) == ("", "1")
    assert ran.kind == "none"


def test_what_a_proxy_decides_is_told(wire: Wire, web: int) -> None:
    process_id, started = start(
        wire, asking(f"http://127.0.0.1:{web}/x", "http://nope.test/"), **network(LOCAL)
    )
    ran = finish(wire, process_id, started)
    assert [line[:3] for line in ran.stdout.splitlines()] == ["200", "403"]
    common = {"scope": "domain", "source": "baseline_policy", "protocol": "http", "method": "GET"}
    common |= {"policyOverride": False}
    assert decisions(wire, process_id) == [
        {**common, "decision": "allow", "reason": "allow", "host": "127.0.0.1", "port": web},
        {**common, "decision": "deny", "reason": "not_allowed", "host": "nope.test", "port": 80},
    ]
    told = next(one["params"] for one in wire.notices if one["method"] == "network/policyDecision")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["timestamp"])
    assert re.fullmatch(r"127\.0\.0\.1:\d+", told["client"])


def test_no_proxy_leads_to_the_server_itself(server: Server, wire: Wire, web: int) -> None:
    places = (f"http://127.0.0.1:{port}/readyz" for port in (server.port, web))
    ran = run(wire, asking(*places), **network(LOCAL))
    assert [line[:3] for line in ran.stdout.splitlines()] == ["403", "200"]


def test_the_listening_sockets_end_with_the_command(wire: Wire) -> None:
    process_id, started = start(
        wire, ["/bin/sh", "-c", "echo $HTTP_PROXY; read line"], pipeStdin=True, **network()
    )
    said = wire.until(
        lambda one: one["method"] == "process/output" and one["params"]["processId"] == process_id
    )
    assert said
    port = int(wire.output(process_id).decode().rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), 20).close()
    wire.call("process/terminate", {"processId": process_id})
    finish(wire, process_id, started)

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 20).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused, "nobody listens any more")


def test_where_the_variables_come_from_can_be_explained(wire: Wire) -> None:
    asked = {
        "env": {"HTTP_PROXY": "http://elsewhere:1"},
        "envPolicy": None,
        "contract": {"author": "user"},
        "cwd": "file:///tmp",
        "show": "values",
        "networkProxy": network(LOCAL)["networkProxy"],
    }
    told = wire.call("environment/explain", asked)
    found = told["variables"]["HTTP_PROXY"]
    assert found["value"] == "http://127.0.0.1:3128"
    assert [step["layer"] for step in found["history"]] == ["L7", "L8"]
    layer = next(one for one in told["layers"] if one["id"] == "network")
    assert (layer["layer"], layer["state"]) == ("L8", "applied")
    assert wire.call("environment/explain", {**asked, "networkProxy": None}) != told


# Questions. With local addresses allowed in principle, 127.0.0.1 is a host that no rule names.


def asks(timeout: int = 60_000) -> Message:
    return network(timeout=timeout, allowLocalBinding=True)


@pytest.mark.parametrize(
    ("answer", "status", "decision"),
    [
        (
            {"result": {"decision": {"type": "deny", "reason": "because"}}},
            "403",
            ("deny", "decider", "because"),
        ),
        ({"result": {"decision": {"type": "ask", "reason": "later"}}}, "403", ("ask", "decider", "later")),
        ({"result": {"decision": {"type": "allow"}}}, "200", ("allow", "decider", "allow")),
        ({"result": {"decision": "nonsense"}}, "403", ("deny", "decider", "not_allowed")),
        ({"result": None}, "403", ("deny", "decider", "not_allowed")),
        ({"error": {"code": -32601, "message": "no"}}, "403", ("deny", "decider", "not_allowed")),
    ],
)
def test_the_client_is_asked(
    wire: Wire, web: int, answer: Message, status: str, decision: tuple[str, str, str]
) -> None:
    process_id, started = start(wire, asking(f"http://127.0.0.1:{web}/"), **asks())
    asked = question(wire)
    assert asked["params"] == {
        "processId": process_id,
        "request": {"protocol": "http", "host": "127.0.0.1", "port": web},
    }
    wire.send({"id": asked["id"], **answer})
    ran = finish(wire, process_id, started)
    assert ran.stdout[:3] == status
    [told] = decisions(wire, process_id)
    assert (told["decision"], told["source"], told["reason"]) == decision
    assert told["policyOverride"] == (decision[0] == "allow")


def test_nobody_is_asked_about_what_is_denied_or_local(wire: Wire) -> None:
    rules = network({"bad.test": "deny"}, timeout=60_000)
    ran = run(wire, asking("http://bad.test/", "http://10.0.0.1/", "http://localhost/"), **rules)
    assert [line[:3] for line in ran.stdout.splitlines()] == ["403"] * 3
    assert questions(wire) == []


def test_who_does_not_answer_in_time_has_refused(wire: Wire) -> None:
    process_id, started = start(wire, asking("http://127.0.0.1:81/"), **asks(1))
    asked = question(wire)
    assert finish(wire, process_id, started).stdout.startswith("403")
    # Too late, and no harm done.
    wire.send({"id": asked["id"], "result": {"decision": {"type": "allow"}}})
    wire.send({"id": asked["id"], "result": {"decision": {"type": "allow"}}})
    assert wire.call("environment/status") == {"status": "ready"}


def test_an_answer_to_what_was_never_asked_ends_the_connection(server: Server) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        process_id, started = start(wire, asking("http://127.0.0.1:81/"), **asks())
        asked = question(wire)
        wire.send({"id": asked["id"] + 1, "result": {"decision": {"type": "allow"}}})
        assert wire.ended().rcvd is not None
    assert started["processId"] == process_id


def test_a_question_is_asked_once_for_all_who_wait(wire: Wire) -> None:
    many = """
import http.client, os, threading
port = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
def ask():
    proxy = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    proxy.request("GET", "http://127.0.0.1:81/")
    print(proxy.getresponse().status, flush=True)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    process_id, started = start(wire, [PYTHON, "-c", many], **asks())
    asked = question(wire)
    wire.send({"id": asked["id"], "result": {"decision": {"type": "deny", "reason": "no"}}})
    while not any(one["method"] == "process/closed" for one in wire.notices):
        # Whoever came later is asked about again.
        message = wire.receive()
        if message.get("method") == "network/policyRequest":
            wire.send({"id": message["id"], "result": {"decision": {"type": "deny", "reason": "no"}}})
    assert finish(wire, process_id, started).stdout.split() == ["403"] * 8
    assert len(decisions(wire, process_id)) == 8


def test_who_is_gone_cannot_be_asked(server: Server) -> None:
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        process_id, started = start(wire, asking("http://127.0.0.1:81/"), **asks())
        question(wire)
    with Wire(server.url) as wire:
        wire.handshake(resume=session)
        wire.call("process/attach", {"processId": process_id, "afterSeq": 0})
        wire.notices.clear()  # what came before this answer comes again
        assert finish(wire, process_id, started).stdout.startswith("403")


# In a sandbox


@pytest.fixture
def inside(wire: Wire) -> Wire:
    need_sandbox()
    return wire


PROFILES: dict[str, Any] = {
    "read-only": READ_ONLY,
    "disabled": {"type": "disabled"},
    "external": {"type": "external", "network": "enabled"},
    "network enabled": {**READ_ONLY, "network": "enabled"},
}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_proxy_is_the_only_way_out(inside: Wire, web: int, profile: str) -> None:
    script = f"""
echo $HTTP_PROXY $ALL_PROXY
curl -sS http://127.0.0.1:{web}/a
curl -sS -x "$ALL_PROXY" http://127.0.0.1:{web}/b
curl -sS -x 'http://[::1]:3128' http://127.0.0.1:{web}/c
curl -sS --noproxy '*' http://127.0.0.1:{web}/d
"""
    ran = run(inside, ["/bin/sh", "-c", script], sandbox=sandbox(PROFILES[profile]), **network(LOCAL))
    where, *answers = re.sub(r"\}\{", "}\n{", ran.stdout).splitlines()
    assert where == "http://127.0.0.1:3128 socks5h://127.0.0.1:1080"
    assert [json.loads(one)["path"] for one in answers] == ["/a", "/b", "/c"]
    assert (ran.code, ran.kind) == (7, "linuxSeccomp")  # nobody is at the host's own loopback


def test_without_a_proxy_nothing_is_started(inside: Wire) -> None:
    error = inside.error(
        "process/start",
        start_params("p", ["true"], sandbox=sandbox(READ_ONLY), enforceManagedNetwork=True),
    )
    assert (error["code"], error["data"]) == (-32602, {"error": "sandbox-unavailable"})
    assert error["message"].startswith("sandbox intent cannot be enforced on this executor: ")
    assert inside.call("process/list")["processes"] == []


def test_a_sandbox_that_is_not_to_be_enforced_reaches_nobody(inside: Wire, web: int) -> None:
    members = {**network(LOCAL), "enforceManagedNetwork": False}
    script = f"curl -sS http://127.0.0.1:{web}/"
    ran = run(inside, ["/bin/sh", "-c", script], sandbox=sandbox(READ_ONLY), **members)
    assert (ran.code != 0, ran.stdout) == (True, "")
