"""What one request may bring: names, patterns and variables have limits, told when they are passed."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest

from outfitter.core.launch import MAX_FOLDERS
from outfitter.env.pattern import MAX_PATTERNS, MAX_WILDCARD_CHARACTERS
from outfitter.protocol.environment import MAX_PROGRAMS
from outfitter.protocol.fields import MAX_IDENTIFIER, MAX_PATHS, MAX_SET_NAMES_BYTES, MAX_VARIABLES
from outfitter.protocol.process import MAX_ARGUMENTS
from outfitter.protocol.uri import MAX_URI
from outfitter.server.environment import MAX_ENTRIES
from tests.support.wire import Message, Wire, b64, start_params

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
        ("process/hold", {"processId": LONG, "held": True}, "processId"),
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


def test_the_id_of_a_request_that_waits_has_256_bytes_at_most(wire: Wire) -> None:
    wire.send({"id": LONG, "method": "environment/status"})  # answered at once, and forgotten
    assert wire.answer(LONG)["result"] == {"status": "ready"}
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    params = {"processId": "p", "waitMs": 60_000}
    wire.send({"id": LONG, "method": "process/read", "params": params})
    refused(wire.answer(LONG)["error"], "the id of a request that waits: 257 bytes")
    wire.send({"id": FITS, "method": "process/read", "params": params})
    assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
    assert "result" in wire.answer(FITS)


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
            {"set": {"A" * (MAX_SET_NAMES_BYTES + 1): ""}},
            "the names of envPolicy.set: 16385 bytes, at most 16384",
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
    hard = [f"*x{number}*y?z" for number in range(100)]
    told = {f"AX{number}-Y-Z": "kept" for number in range(1500)}
    found = wire.call("environment/resolve", asked(inherit="none", set=told, includeOnly=hard))
    # x1 is also in x10 to x19, x100 to x199, and so on.
    kept = [name for name in told if any(f"X{number}" in name for number in range(100))]
    assert sorted(found["variables"]) == sorted(kept)


def test_a_trace_that_is_too_long_is_not_kept_and_hinders_nothing(wire: Wire) -> None:
    wire.send(json.dumps({"id": 1000, "method": "environment/status", "trace": {"traceparent": "x" * 5000}}))
    assert wire.answer(1000)["result"] == {"status": "ready"}


def test_a_very_long_write_keeps_its_place(wire: Wire) -> None:
    data = b"0123456789abcdef" * (12 << 20 >> 4)
    wire.start("p", ["/bin/sh", "-c", "sha256sum"], pipeStdin=True)
    members = [("one", b"first\n"), ("two", data), ("three", data[:100]), ("four", b"last\n")]
    asked = [
        wire.request(
            "process/write",
            {"processId": "p", "writeId": name, "eof": name == "four", "chunk": b64(chunk)},
        )
        for name, chunk in members
    ]
    assert [wire.answer(one)["result"]["status"] for one in asked] == ["accepted"] * 4
    wire.closed("p")
    digest = hashlib.sha256(b"".join(chunk for _, chunk in members)).hexdigest()
    assert wire.output("p").split()[0].decode() == digest


def test_a_very_long_write_that_is_no_base64_is_refused(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    text = "QUJD" * (3 << 20) + "QU-D"
    error = wire.error("process/write", {"processId": "p", "writeId": "w", "chunk": text})
    assert (error["code"], error["message"]) == (-32602, f"Invalid symbol 45, offset {len(text) - 2}.")
    assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}


def test_a_block_that_is_far_too_long_is_refused(wire: Wire) -> None:
    error = wire.error("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": "QUJD" * (2 << 20)})
    assert error["message"] == "file write block length must be between 1 and 1048576"


def test_lists_of_arguments_paths_and_programs_are_bounded(wire: Wire) -> None:
    start = start_params("p", ["true", *["x"] * MAX_ARGUMENTS])
    refused(wire.error("process/start", start), "`argv`: 32769 arguments, at most 32768")
    paths = {"watchId": 1, "missing": ["file:///nowhere"] * (MAX_PATHS + 1)}
    refused(wire.error("fs/watchMissing", paths), "`missing`: 1025 paths, at most 1024")
    paths["missing"] = ["file:///" + "x" * (MAX_URI - 8)] * 9
    refused(wire.error("fs/watchMissing", paths), f"`missing`: {9 * MAX_URI} characters, at most 131072")
    long = "file:///" + "%41" * (MAX_URI // 3)
    refused(wire.error("fs/getMetadata", {"path": long}), f"a path: {len(long)} characters, at most 16384")
    assert wire.error("fs/getMetadata", {"path": long[:MAX_URI]})["data"]["errno"] == "ENAMETOOLONG"
    lists = {"PATH": "/bin" + ":/p" * MAX_ENTRIES, "MANPATH": "/m:/n"}
    start = start_params("p", ["true"], env=lists, contract={})
    refused(wire.error("process/start", start), "(PATH and others): 8193 entries, at most 8192")
    wire.start("p", ["true"], env=lists)  # taken as it is
    asked_for = {"env": {}, "envPolicy": None, "programs": ["sh"] * (MAX_PROGRAMS + 1)}
    refused(wire.error("environment/explain", asked_for), "`programs`: 65 programs, at most 64")


def test_a_text_that_no_kernel_takes_is_not_read(wire: Wire) -> None:
    text = "sh " * (32 * os.sysconf("SC_PAGE_SIZE") // 3 + 1)
    error = wire.error("process/start", start_params("p", ["/bin/sh", "-c", text]))
    assert (error["code"], error["data"]["errno"]) == (-32603, "E2BIG")
    assert "larger than the system allows" in error["data"]["reason"]
    wire.start("p", ["/bin/sh", "-c", f": {text[:100_000]}"])


def test_a_program_is_looked_for_in_so_many_folders(wire: Wire) -> None:
    path = "/nowhere:" * (MAX_FOLDERS - 1)
    wire.start("p", ["true"], env={"PATH": f"{path}/usr/bin:/bin"})
    error = wire.error("process/start", start_params("q", ["true"], env={"PATH": f"{path}/nowhere:/bin"}))
    assert error["data"]["errno"] == "ENOENT"
    assert error["data"]["reason"] == (
        "`true` was not found in the first 2048 folders of the command's PATH, and more are not looked at"
    )


@pytest.mark.parametrize("method", ["environment/resolve", "environment/explain"])
def test_a_large_environment_is_told_as_a_small_one_is(wire: Wire, method: str) -> None:
    def told(count: int) -> Message:
        env = {f"V{number}": f"value {number}" for number in range(count)}
        params = {"env": env, "envPolicy": None, "show": "values"}
        found: Message = wire.call(method, params)
        return found

    small, large = told(5), told(2000)
    assert len(large["variables"]) == 2000
    assert {name: large["variables"][name] for name in small["variables"]} == small["variables"]


def test_more_secrets_than_can_be_looked_for_are_refused(wire: Wire) -> None:
    env = {f"SECRET_{number}": f"hidden-{number}" * 10 for number in range(2000)}
    env |= {f"PLAIN_{number}": "x" * 100 for number in range(2000)}
    for method in ("environment/resolve", "environment/explain"):
        refused(
            wire.error(method, {"env": env, "envPolicy": None, "show": "values"}),
            "to be hidden in the values",
        )
        assert len(wire.call(method, {"env": env, "envPolicy": None})["variables"]) == 4000


def test_a_command_is_given_one_grace(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    wire.until(lambda message: message["method"] == "process/output")
    for grace in (2**63, 600_000, 50, 600_000):
        assert wire.call("process/terminate", {"processId": "p", "graceMs": grace}) == {"running": True}
    # The earliest end counts, whoever asked for it.
    assert wire.exit_code("p") == 137
