"""The messages of tests/wire/messages: what the code reads, a real server answers and the docs show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outfitter.protocol.methods import CAPABILITIES, METHODS
from outfitter.protocol.network import DecisionNotice, PolicyAnswer, PolicyRequestParams
from tests.support.rawhttp import raw_origin
from tests.support.servers import serving
from tests.support.wire import Wire

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "wire" / "messages"
MESSAGES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))
}
REQUESTS = {message["method"]: message for message in MESSAGES.values() if "method" in message}
NOTICES = {message["notice"]: message for message in MESSAGES.values() if "notice" in message}
QUESTIONS = {message["question"]: message for message in MESSAGES.values() if "question" in message}

# In the order in which a client could send them; each is one of the examples. What is not named needs none.
ORDER = (
    "environment/info",
    "environment/status",
    "environment/resolve",
    "environment/explain",
    "environment/diff",
    "environment/base",
    "environment/overlay/put",
    "environment/overlay/list",
    "environment/overlay/event",
    "environment/overlay/drop",
    "process/start",
    "process/write",
    "process/read",
    "process/resize",
    "process/hold",
    "process/list",
    "process/attach",
    "server/sessions",
    "server/kill",
    "process/signal",
    "process/terminate",
    "fs/watchMissing",
    "fs/watch",
    "fs/rename",
    "fs/chmod",
    "fs/search",
    "fs/unwatch",
    "fs/createDirectory",
    "fs/writeFile",
    "fs/readFile",
    "fs/getMetadata",
    "fs/canonicalize",
    "fs/readDirectory",
    "fs/walk",
    "fs/copy",
    "fs/readBlock",
    "fs/open",
    "fs/writeBlock",
    "fs/close",
    "fs/remove",
    "http/request",
    "http/cancel",
    "http/hold",
)
STORY = (*ORDER, *sorted(set(METHODS) - {"initialize", *ORDER}))
# What these hold inside depends on the machine's variables: only their own members are compared.
LOOSE = ("environment/resolve", "environment/explain")
FIXED = (
    "environment/status",
    "environment/diff",
    "environment/overlay/put",
    "environment/overlay/list",
    "environment/overlay/event",
    "environment/overlay/drop",
    "process/start",
    "process/write",
    "process/resize",
    "process/hold",
    "process/signal",
    "process/terminate",
    "fs/watchMissing",
    "fs/watch",
    "fs/rename",
    "fs/chmod",
    "fs/search",
    "fs/unwatch",
    "fs/createDirectory",
    "fs/writeFile",
    "fs/readFile",
    "fs/canonicalize",
    "fs/walk",
    "fs/copy",
    "fs/readBlock",
    "fs/open",
    "fs/writeBlock",
    "fs/close",
    "fs/remove",
    "http/request",
    "http/cancel",
    "http/hold",
)
EXAMPLE = "file:///tmp/outfitter-example"  # where the files of the examples are said to be


def shape(value: Any, path: str = "") -> dict[str, set[str]]:
    """Where a value has which types: `chunks[].seq` → {int}. Two of the same shape have the same members."""
    found: dict[str, set[str]] = {path: {type(value).__name__}}
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = [(f"{path}.{name}", item) for name, item in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[]", item) for item in value]
    for place, item in items:
        for inner, types in shape(item, place).items():
            found.setdefault(inner, set()).update(types)
    return found


def shape_of(name: str, answer: Any) -> dict[str, set[str]]:
    found = shape(answer)
    return {
        path: kinds
        for path, kinds in found.items()
        # What is weaker where this is not Linux is not in the examples.
        if (name not in LOOSE or path.count(".") < 2) and ".weaker" not in path
    }


def test_every_method_has_a_message_and_every_message_a_method() -> None:
    assert set(REQUESTS) == set(METHODS)
    assert set(NOTICES) == {
        "initialized",
        "process/output",
        "process/exited",
        "process/closed",
        "fs/missingChanged",
        "fs/changed",
        "environment/waiting",
        "network/policyDecision",
        "http/request/bodyDelta",
    }
    assert set(QUESTIONS) == {"network/policyRequest"}


def test_questions_and_their_answers_are_read_and_written_back_the_same() -> None:
    message = QUESTIONS["network/policyRequest"]
    assert PolicyRequestParams.decode(message["params"]).encode() == message["params"]
    assert PolicyAnswer.decode(message["result"]).encode() == message["result"]
    told = NOTICES["network/policyDecision"]["params"]
    assert DecisionNotice.decode(told).encode() == told


def test_files_are_named_for_their_message() -> None:
    names = {name.replace("/", "-") for name in REQUESTS}
    names |= {"notice-" + name.replace("/", "-") for name in NOTICES}
    names |= {"question-" + name.replace("/", "-") for name in QUESTIONS}
    assert names == set(MESSAGES)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_member_is_described(name: str) -> None:
    message = MESSAGES[name]
    described, said = set(message["members"]), set(message["params"] or {})
    # What a server says may be described with more: members that are sent only sometimes.
    assert described >= said if name.startswith("notice-") else described == said
    assert set(message.get("answers", {})) >= set(message.get("result", {}))
    assert message.get("capability", "processList") in CAPABILITIES


@pytest.mark.parametrize("name", METHODS)
def test_params_are_read_and_written_back_the_same(name: str) -> None:
    decode = METHODS[name].decode
    params = decode(REQUESTS[name]["params"])
    encode = getattr(params, "encode", None)
    if encode is not None:
        assert decode(encode()) == params


def test_a_server_answers_as_the_messages_say(tmp_path: Path) -> None:
    answers = {}
    files = tmp_path / "example"
    files.mkdir()

    def placed(value: Any) -> Any:
        text = json.dumps(value).replace(EXAMPLE, files.as_uri())
        return json.loads(text.replace("http://127.0.0.1:8080", origin.url))

    def shown(value: Any) -> Any:
        return json.loads(json.dumps(value).replace(files.as_uri(), EXAMPLE))

    # LANG is what the example policy replaces, the other what it withholds.
    proxy = {"HTTPS_PROXY": "http://127.0.0.1:9"}
    with (
        raw_origin() as origin,
        serving("outfitter", tmp_path, env=proxy) as server,
        Wire(server.url) as wire,
    ):
        origin.answers["/hello"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"]
        answers["initialize"] = wire.call("initialize", REQUESTS["initialize"]["params"])
        wire.send({"method": "initialized", "params": NOTICES["initialized"]["params"]})
        for name in STORY:
            if name == "process/read":
                wire.until(lambda _: b"hello, world" in wire.output("greeter"))
            if name == "process/terminate":
                events = wire.closed("greeter")
            if name == "fs/rename":
                os.link(a_file(tmp_path, "hello, files\n"), files / "new.txt")
                events.append(wire.until(lambda m: m["method"] == "fs/changed"))
                (files / ".git").mkdir()
                events.append(wire.until(lambda m: m["method"] == "fs/missingChanged"))
            if name == "fs/readBlock":  # the one example of opening is for the other way
                read = {"handleId": "download", "path": f"{EXAMPLE}/notes/todo.txt", "mode": "read"}
                wire.call("fs/open", placed(read))
            if name == "http/cancel":
                events.append(wire.until(lambda m: m["method"] == "http/request/bodyDelta"))
                wire.until(lambda m: m["params"].get("done") is True)
            params = placed(REQUESTS[name]["params"])
            if name == "server/kill":
                params["pid"] = answers["process/attach"]["pid"]
            answers[name] = shown(wire.call(name, params))
    assert {name: shape_of(name, answer) for name, answer in answers.items()} == {
        name: shape_of(name, message["result"]) for name, message in REQUESTS.items()
    }
    assert {event["method"]: shape(event["params"]) for event in events} == {
        name: shape(message["params"])
        for name, message in NOTICES.items()
        # A slow provider (tests/server/test_asking.py) and a proxy (test_network.py) are what these need.
        if message["sender"] == "server" and name not in ("environment/waiting", "network/policyDecision")
    }
    # What does not depend on the machine is the example to the letter.
    assert {name: answers[name] for name in FIXED} == {name: REQUESTS[name]["result"] for name in FIXED}
    told = {event["method"]: shown(event["params"]) for event in events}
    assert told["process/exited"] | {"seq": 3} == NOTICES["process/exited"]["params"]
    assert told["fs/missingChanged"] == NOTICES["fs/missingChanged"]["params"]
    assert told["http/request/bodyDelta"] == NOTICES["http/request/bodyDelta"]["params"]
    assert told["fs/changed"] == NOTICES["fs/changed"]["params"]


def a_file(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text)
    return path


def test_the_protocol_page_is_up_to_date() -> None:
    script = ROOT / "scripts" / "protocol-page"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# A server writes these from what it has at hand, not from the type that a client reads.
WRITTEN_OTHERWISE = {"fs/readDirectory", "fs/walk", "fs/search"}


@pytest.mark.parametrize("name", METHODS)
def test_every_result_is_read_by_its_type_and_written_as_it_was(name: str) -> None:
    told = REQUESTS[name]["result"]
    result = METHODS[name].result.decode(told)
    if name in WRITTEN_OTHERWISE:
        return
    wire = result.wire()
    text = wire if isinstance(wire, str) else b"".join(wire).decode()
    assert json.loads(text) == told
