"""What one request may bring: names, patterns and variables have limits, told when they are passed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outfitter.env.pattern import MAX_PATTERNS, MAX_WILDCARD_CHARACTERS
from outfitter.protocol.fields import MAX_IDENTIFIER, MAX_NAMES_BYTES, MAX_VARIABLES
from tests.support.wire import Message, Wire, start_params

LONG = "é" * (MAX_IDENTIFIER // 2) + "x"
FITS = "é" * (MAX_IDENTIFIER // 2)
POLICY = {"inherit": "all", "ignoreDefaultExcludes": False, "exclude": [], "set": {}, "includeOnly": []}


def refused(error: Message, words: str) -> None:
    assert error["code"] == -32602
    assert error["data"] == {"error": "limit-exceeded"}
    assert words in error["message"]


@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("process/start", start_params(LONG, ["true"]), "processId"),
        ("process/read", {"processId": LONG}, "processId"),
        ("process/write", {"processId": LONG, "chunk": "", "writeId": "w"}, "processId"),
        ("process/write", {"processId": "p", "chunk": "", "writeId": LONG}, "writeId"),
        ("process/signal", {"processId": LONG, "signal": "interrupt"}, "processId"),
        ("process/terminate", {"processId": LONG}, "processId"),
        ("process/resize", {"processId": LONG, "size": {"rows": 1, "cols": 1}}, "processId"),
        ("process/attach", {"processId": LONG}, "processId"),
        ("fs/readBlock", {"handleId": LONG, "offset": 0, "len": 1}, "handleId"),
        ("fs/writeBlock", {"handleId": LONG, "offset": 0, "chunk": "YQ=="}, "handleId"),
        ("fs/close", {"handleId": LONG}, "handleId"),
        ("fs/unwatch", {"watchId": LONG}, "watchId"),
        ("environment/overlay/put", {"scope": LONG, "producer": "user"}, "scope"),
        ("environment/overlay/list", {"scope": LONG}, "scope"),
        ("environment/overlay/drop", {"scope": LONG}, "scope"),
        ("environment/overlay/event", {"scope": LONG, "event": "new"}, "scope"),
        ("environment/overlay/event", {"scope": "s", "event": "fork", "to": LONG}, "to"),
        ("environment/explain", {"env": {}, "envPolicy": None, "contract": {"scope": LONG}}, "scope"),
        ("initialize", {"clientName": LONG}, "clientName"),
        ("initialize", {"clientName": "c", "resumeSessionId": LONG}, "resumeSessionId"),
    ],
)
def test_an_identifier_has_256_bytes_at_most(wire: Wire, method: str, params: Message, member: str) -> None:
    message = f"`{member}`: 257 bytes, at most 256 are allowed; use a shorter one, a UUID say"
    refused(wire.error(method, params), message)


def test_the_longest_identifier_works(wire: Wire) -> None:
    wire.start(FITS, ["/bin/cat"], pipeStdin=True)
    written = wire.call("process/write", {"processId": FITS, "chunk": "YQ==", "writeId": FITS})
    assert written == {"status": "accepted"}
    assert wire.call("process/terminate", {"processId": FITS}) == {"running": True}


def test_the_id_of_a_request_has_256_bytes_at_most(wire: Wire) -> None:
    wire.send({"id": LONG, "method": "environment/status"})
    refused(wire.answer(LONG)["error"], "the request's id: 257 bytes")
    wire.send({"id": FITS, "method": "environment/status"})
    assert wire.answer(FITS)["result"] == {"status": "ready"}


def asked(**members: Any) -> Message:
    return {"env": {}, "envPolicy": {**POLICY, **members}}


@pytest.mark.parametrize(
    "method", ["process/start", "environment/resolve", "environment/explain", "environment/diff"]
)
@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"exclude": ["A"] * (MAX_PATTERNS + 1)}, "envPolicy.exclude: 513 patterns, at most 512"),
        ({"includeOnly": ["A" * 257]}, "a pattern of envPolicy.includeOnly: 257 bytes, at most 256"),
        (
            {"exclude": ["*a*b" * 64] * 9},
            f"wildcards of envPolicy.exclude: 2304 characters, at most {MAX_WILDCARD_CHARACTERS}",
        ),
        (
            {"set": {f"A{n}": "" for n in range(MAX_VARIABLES + 1)}},
            "envPolicy.set: 4097 variables, at most 4096",
        ),
        (
            {"set": {"A" * (MAX_NAMES_BYTES + 1): ""}},
            "the names of envPolicy.set: 65537 bytes, at most 65536",
        ),
    ],
)
def test_a_policy_has_limits(wire: Wire, method: str, members: Message, words: str) -> None:
    params = asked(**members)
    if method == "process/start":
        params = {**start_params("p", ["true"]), **params}
    elif method == "environment/diff":
        params = {"a": asked(), "b": params}
    refused(wire.error(method, params), words)
    assert wire.call("process/list") == {"processes": []}


def test_a_request_has_a_limit_of_variables(wire: Wire) -> None:
    many = {f"V{number}": "x" for number in range(MAX_VARIABLES)}
    assert (
        len(wire.call("environment/resolve", {"env": many, "envPolicy": None})["variables"]) == MAX_VARIABLES
    )
    many["ONE_MORE"] = "x"
    for method, params in (
        ("process/start", start_params("p", ["true"], env=many)),
        ("environment/resolve", {"env": many, "envPolicy": None}),
        ("environment/base", {"rule": "client", "pid": 1, "env": many}),
        ("environment/base", {"rule": "daemon", "pid": 1, "digestKey": "", "digests": many}),
    ):
        refused(wire.error(method, params), "4097 variables, at most 4096 are allowed")


def test_a_policy_of_hard_patterns_is_applied(wire: Wire) -> None:
    hard = [f"*x{number}*y?z" for number in range(150)]
    told = {f"AX{number}-Y-Z": "kept" for number in range(2000)}
    found = wire.call("environment/resolve", asked(inherit="none", set=told, includeOnly=hard))
    # x1 is also in x10 to x19, x100 to x199, and so on.
    kept = [name for name in told if any(f"X{number}" in name for number in range(150))]
    assert sorted(found["variables"]) == sorted(kept)


def test_a_trace_that_is_too_long_is_not_kept_and_hinders_nothing(wire: Wire) -> None:
    wire.send(json.dumps({"id": 1000, "method": "environment/status", "trace": {"traceparent": "x" * 5000}}))
    assert wire.answer(1000)["result"] == {"status": "ready"}
