"""Replays a recorded conversation against a server and compares whole messages.

A recording is timing made durable, so the replay waits for what had happened: before a message is
sent, everything recorded before it, and what its answer shows to have happened, has arrived.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed

from . import differences, texts
from .rawhttp import RawOrigin
from .wire import SECONDS, Message, Wire

WORKSPACE, HOME, ORIGIN = "/workspace", "/home/user", "127.0.0.1:8080"
NO_SESSION = "00000000-0000-4000-8000-000000000001"
LONG_POLL_MS = int(SECONDS * 1000)
SHELLS = {"bash", "zsh", "sh"}


def load(path: Path) -> list[Message]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Story:
    """What is known of one process: its events by seq, from notifications and reads alike."""

    def __init__(self) -> None:
        self.events: dict[int, tuple[Any, ...]] = {}

    def notice(self, message: Message) -> None:
        params = message["params"]
        kind = message["method"].removeprefix("process/")
        if kind == "output":
            self._put(params["seq"], ("output", params["stream"], base64.b64decode(params["chunk"])))
        elif kind == "exited":
            self._put(params["seq"], ("exited", params["exitCode"], params["sandboxDenied"]))
        else:
            assert kind == "closed", message
            self._put(params["seq"], ("closed",))

    def chunks(self, chunks: list[Message]) -> None:
        for chunk in chunks:
            self._put(chunk["seq"], ("output", chunk["stream"], base64.b64decode(chunk["chunk"])))

    def _put(self, seq: int, event: tuple[Any, ...]) -> None:
        assert self.events.setdefault(seq, event) == event, f"seq {seq} names two events"

    def output(self) -> dict[str, str]:
        return joined((e[1], e[2]) for _, e in sorted(self.events.items()) if e[0] == "output")

    def of(self, kind: str) -> tuple[Any, ...] | None:
        return next((e for e in self.events.values() if e[0] == kind), None)

    def covers(self, other: Story) -> bool:
        """Whether all that happened in `other` has happened here."""
        output = self.output()
        return all(
            len(output.get(stream, "")) >= len(text) for stream, text in other.output().items()
        ) and all(self.of(kind) for kind in ("exited", "closed") if other.of(kind))

    def assert_well_formed(self) -> None:
        """seq is dense from 1; one exited; closed is last."""
        assert sorted(self.events) == list(range(1, len(self.events) + 1))
        kinds = [self.events[seq][0] for seq in sorted(self.events)]
        assert kinds.count("exited") == 1
        assert kinds.index("closed") == len(kinds) - 1


def joined(pieces: Any) -> dict[str, str]:
    output: dict[str, bytes] = defaultdict(bytes)
    for stream, data in pieces:
        output[stream] += data
    return {stream: data.decode() for stream, data in output.items()}


class Replay:
    """One transcript on one server. `run` raises AssertionError at the first message that differs."""

    def __init__(self, path: Path, kind: str, url: str, workspace: Path, origin: RawOrigin) -> None:
        self.name = path.stem
        self.ours = kind == "outfitter"
        self.url = url
        self.workspace = workspace
        self.home = workspace.parent
        self.origin = origin
        self.lines = load(path)
        self.wires: dict[str, Wire] = {}
        self.session = ""
        self.requests: dict[tuple[str, Any], Message] = {}  # what was sent and not skipped
        self.answers: dict[tuple[str, Any], list[Message]] = defaultdict(list)
        self.order: list[tuple[str, Any]] = []  # in which order the answers came
        self.read: dict[str, int] = defaultdict(int)  # how many notices of a wire are in stories
        self.stories: dict[str, Story] = defaultdict(Story)
        self.recorded: dict[str, Story] = defaultdict(Story)
        self.news: dict[str, list[Message]] = defaultdict(list)  # recorded notices about files and bodies
        self.unordered = {  # processes that list their environment, in no particular order
            line["msg"]["params"]["processId"]
            for line in self.lines
            if line.get("msg", {}).get("params", {}).get("argv") == ["/usr/bin/env"]
        }

    def run(self) -> None:
        try:
            for at, line in enumerate(self.lines):
                self.step(at, line)
            self.finish()
        finally:
            for wire in self.wires.values():
                wire.close()

    def step(self, at: int, line: Message) -> None:
        conn = line.get("conn", "")
        if line.get("event") == "open":
            self.wires[conn] = Wire(self.url)
        elif line.get("event") == "aborted-by-client":
            self.wires[conn].socket.socket.shutdown(socket.SHUT_RDWR)
        elif line.get("event") == "closed-by-server":
            self.check_end(self.wires[conn].ended())
        elif line.get("dir") == "c2s":
            self.send(at, conn, line)
        elif "client creates" in line.get("note", ""):
            for name in re.findall(WORKSPACE + r"/([\w/]+)", line["note"]):
                (self.workspace / name).touch()
        elif line.get("dir") == "s2c" and is_news(line["msg"]):
            self.origin.gate.set()
            self.news[conn].append(self.placed(line["msg"]))
            while len(told(self.news_told(conn))) < len(told(self.news[conn])):
                self.receive(conn)
        elif line.get("dir") == "s2c" and "method" in line["msg"]:
            self.recorded[line["msg"]["params"]["processId"]].notice(self.replaced(line["msg"]))
            self.catch_up(conn, line["msg"]["params"]["processId"])
        elif line.get("dir") == "s2c":
            self.check_answer(conn, line["msg"])

    # Sending

    def send(self, at: int, conn: str, line: Message) -> None:
        wire = self.wires[conn]
        if "msg" not in line:
            raw = line["text"] if "text" in line else line["binary"].encode()
            with contextlib.suppress(ValueError, TypeError, KeyError):
                self.requests[conn, json.loads(raw)["id"]] = json.loads(raw)
            wire.send(raw)
            return
        message = self.placed(line["msg"])
        if "id" in message:
            self.requests[conn, message["id"]] = message
            self.look_ahead(at, conn, message)
        wire.send(message)

    def look_ahead(self, at: int, conn: str, message: Message) -> None:
        """Waits for the notifications that came before the recorded answer to `message`.

        They are not its doing, unless it starts a process or waits itself.
        """
        if message["method"] not in ("process/read", "process/write", "process/signal", "process/terminate"):
            return
        if message["params"].get("waitMs"):
            return
        for line in self.lines[at + 1 :]:
            if line.get("dir") == "c2s":
                return  # a pipelined request: nothing is known about when it was handled
            if line.get("conn") != conn or line.get("dir") != "s2c":
                continue
            if line["msg"].get("id") == message["id"]:
                self.await_output(conn, message, line["msg"])
                return
            if "method" in line["msg"]:
                process = line["msg"]["params"]["processId"]
                self.recorded[process].notice(self.replaced(line["msg"]))
                self.catch_up(conn, process)

    def await_output(self, conn: str, message: Message, answer: Message) -> None:
        """Long-polls until the server has collected what the recorded read returned."""
        if message["method"] != "process/read" or not answer.get("result", {}).get("chunks"):
            return
        wanted = len(joined_chunks(answer["result"]["chunks"]))
        process, cursor, have = message["params"]["processId"], message["params"].get("afterSeq", 0), 0
        while have < wanted:
            poll = {"processId": process, "afterSeq": cursor, "waitMs": LONG_POLL_MS}
            result = self.aside(conn, "process/read", poll)["result"]
            self.stories[process].chunks(result["chunks"])
            have += len(joined_chunks(result["chunks"]))
            cursor = result["nextSeq"] - 1
            assert have >= wanted or not result["closed"], f"{process} closed early: {result}"

    def aside(self, conn: str, method: str, params: Any = None) -> Message:
        """The answer to a request that is not in the recording."""
        message = {"id": "aside", "method": method, "params": params}
        self.requests[conn, "aside"] = message
        self.wires[conn].send(message)
        return self.answer(conn, "aside")

    # Receiving

    def catch_up(self, conn: str, process: str) -> None:
        """Receives until the process got as far as the recording."""
        self.digest(conn)
        while not self.stories[process].covers(self.recorded[process]):
            self.receive(conn)

    def receive(self, conn: str) -> None:
        message = self.wires[conn].receive()
        if "method" not in message:
            key = (conn, message["id"])
            assert key in self.requests or message["id"] == -1, f"an answer nobody asked for: {message}"
            self.answers[key].append(message)
            self.order.append(key)
        self.digest(conn)

    def digest(self, conn: str) -> None:
        notices = self.wires[conn].notices
        for message in notices[self.read[conn] :]:
            if not is_news(message):
                self.stories[message["params"]["processId"]].notice(message)
        self.read[conn] = len(notices)

    def news_told(self, conn: str) -> list[Message]:
        return [message for message in self.wires[conn].notices if is_news(message)]

    def answer(self, conn: str, ident: Any) -> Message:
        while not self.answers[conn, ident]:
            self.receive(conn)
        return self.answers[conn, ident].pop(0)

    # Comparing

    def check_answer(self, conn: str, recorded: Message) -> None:
        ident = recorded["id"]
        request = self.requests.get((conn, ident), {})
        actual = self.answer(conn, ident)
        if request.get("method") == "initialize":
            actual = self.attached(conn, request, recorded, actual)
        if request.get("method") == "process/read":
            process = request["params"].get("processId")
            self.stories[process].chunks(actual.get("result", {}).get("chunks", []))
            self.recorded[process].chunks(recorded.get("result", {}).get("chunks", []))
        where = f"answer {conn} {ident}"
        difference = differences.in_transcript(self.name, where) if self.ours else None
        expected = self.shape(request, self.placed(recorded), None)
        if difference:
            expected = {"id": ident, "result": difference.ours}
        got = self.shape(request, actual, expected)
        allowed = [expected] if self.ours else [expected, *RACES.get((self.name, where), [])]
        assert any(matches(one, got) for one in allowed), (
            f"{self.name}: {where}\n  sent     {request}\n  recorded {allowed}\n  received {got}\n"
            f"  whole    {actual}"
        )

    def attached(self, conn: str, request: Message, recorded: Message, actual: Message) -> Message:
        """Repeats an initialize that came before the server noticed the end of the other connection."""
        deadline = time.monotonic() + SECONDS
        while "result" in recorded and actual.get("error", {}).get("code") == -32010:
            assert time.monotonic() < deadline, "the session stays attached to a dead connection"
            self.wires[conn].send(request)
            actual = self.answer(conn, request["id"])
        if "result" in actual:
            self.session = actual["result"]["sessionId"]
        return actual

    def check_end(self, ended: ConnectionClosed) -> None:
        if self.ours:  # differences.CLOSE_SOURCE
            assert ended.rcvd is not None, "the connection ended without a Close frame"
            assert ended.rcvd.code == differences.CLOSE_CODE_OURS
            assert ended.rcvd.reason
        else:
            assert ended.rcvd is None

    def finish(self) -> None:
        """Every process that was recorded to its end has the same whole story."""
        for process, recorded in self.recorded.items():
            if recorded.of("closed") is None:
                continue
            story = self.stories[process]
            story.assert_well_formed()
            assert self.told(process, story) == self.told(process, recorded), f"{self.name}: {process}"
        for conn, wire in self.wires.items():
            if wire.socket.protocol.state.name == "OPEN":
                assert self.aside(conn, "environment/status")["result"] == {"status": "ready"}
            assert told(self.news_told(conn)) == told(self.news[conn]), f"{self.name}: news"
        left = {key: messages for key, messages in self.answers.items() if messages}
        assert not left, f"{self.name}: answers nobody recorded: {left}"

    def told(self, process: str, story: Story) -> dict[str, Any]:
        output = story.output()
        if process in self.unordered:
            output = {stream: "".join(sorted(text.splitlines(True))) for stream, text in output.items()}
        difference = differences.in_transcript(self.name, f"output {process}") if self.ours else None
        if difference and story is self.recorded[process]:
            output = {"stdout": difference.ours}
        return {"output": output, "exited": story.of("exited")}

    # Normal forms

    def placed(self, message: Message) -> Message:
        """The recorded message with this run's directories and session."""
        text = json.dumps(message)
        text = text.replace("file://" + WORKSPACE, self.workspace.as_uri())
        text = text.replace("`" + WORKSPACE, "`" + str(self.workspace))
        text = text.replace(HOME, str(self.home)).replace(ORIGIN, f"127.0.0.1:{self.origin.port}")
        placed: Message = json.loads(text.replace(NO_SESSION, self.session or NO_SESSION))
        return placed

    def replaced(self, notice: Message) -> Message:
        """The recorded notification, or what a deliberate difference makes of it."""
        params = notice["params"]
        kind = notice["method"].removeprefix("process/")
        difference = (
            differences.in_transcript(self.name, f"{kind} {params['processId']}") if self.ours else None
        )
        if difference is None:
            return notice
        if kind == "exited":
            return {**notice, "params": {**params, "exitCode": difference.ours}}
        text = base64.b64decode(params["chunk"]).decode()
        kept = text if text in difference.ours else ""
        return {**notice, "params": {**params, "chunk": base64.b64encode(kept.encode()).decode()}}

    def shape(self, request: Message, message: Message, expected: Message | None) -> Message:
        """A message without what differs from run to run. `expected` is None for the recorded one."""
        if "error" in message:
            return {
                "id": message["id"],
                "error": self.error_shape(request, message["error"], expected is None),
            }
        result = message["result"]
        method = request.get("method")
        if method == "initialize":
            result = {"sessionId": "<id>", "environmentInfo": info_shape(result["environmentInfo"])}
        elif method == "environment/info":
            result = info_shape(result)
        elif method == "fs/getMetadata":
            result = {name: value for name, value in result.items() if name not in differences.METADATA_OURS}
            result |= {"size": 0, "modifiedAtMs": 0}
        elif method == "environmentConfig/read":
            result = {**result, "hostname": differences.ANY_VALUE}
        elif method == "fs/readDirectory":
            result = {"entries": sorted(result["entries"], key=lambda entry: str(entry["fileName"]))}
        elif method == "process/read" and request["params"].get("maxBytes") is None:
            result = read_shape(request["params"], result, (expected or {}).get("result"))
        return {"id": message["id"], "result": result}

    def error_shape(self, request: Message, error: Message, recorded: bool) -> Message:
        """Codes, and texts: all of the reference's, of ours those that are part of the protocol."""
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", error["message"])
        if self.ours:
            error = differences.without_error_data(error)
            prefix = differences.PARSE_ERROR_REFERENCE if recorded else differences.PARSE_ERROR_OURS
            if text.startswith(prefix):
                text = "<parse error>"  # differences.PARSE_ERROR_SOURCE
            elif not texts.is_domain(text, request.get("method", "")):
                text = "<decoder wording>"
        return {**error, "message": text}


def is_news(message: Message) -> bool:
    """Whether it is a notice about files or the body of an HTTP answer."""
    return bool(message.get("method", "").startswith(("fs/", "http/")))


def told(news: list[Message]) -> list[Any]:
    """News, with the pieces of a body joined: where they are cut is the network's doing."""
    found: list[Any] = []
    bodies: dict[str, bytes] = defaultdict(bytes)
    for message in news:
        params = message["params"]
        if message["method"] != "http/request/bodyDelta":
            found.append(message)
            continue
        bodies[params["requestId"]] += base64.b64decode(params["deltaBase64"])
        if params["done"]:
            found.append((params["requestId"], bodies[params["requestId"]], params["error"]))
    return found


def joined_chunks(chunks: list[Message]) -> bytes:
    return b"".join(base64.b64decode(chunk["chunk"]) for chunk in chunks)


def info_shape(info: Message) -> Message:
    """Environment info with machine-dependent values checked for their form and taken out."""
    assert info["shell"].keys() == {"name", "path"}
    assert info["shell"]["name"] in SHELLS
    assert info["shell"]["path"].startswith("/")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", info["executorVersion"])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", info["providerId"])
    for name in ("cwd", "userHomeDir", "tempDir"):
        assert info[name].startswith("file:///"), info
    for name in ("prependPathDirs", "temporaryDirectories"):
        assert all(uri.startswith("file:///") for uri in info[name]), info
    assert all(isinstance(flag, bool) for flag in info["capabilities"].values())
    return {"platformOs": info["platformOs"], "members": sorted(info.keys() - differences.INFO_OURS)}


def read_shape(params: Message, result: Message, expected: Message | None) -> Message:
    """A read answer with output joined, and `nextSeq` as distance from what has happened.

    A process still running may have written more since; that is cut. An exit wakes a waiting read
    whether or not the streams have ended by then.
    """
    chunks = result["chunks"]
    output = joined((chunk["stream"], base64.b64decode(chunk["chunk"])) for chunk in chunks)
    happened = params.get("afterSeq", 0) + len(chunks) + result["exited"] + result["closed"]
    shape = {
        **{name: value for name, value in result.items() if name not in ("chunks", "nextSeq")},
        "output": output,
        "beyond": result["nextSeq"] - 1 - happened,
    }
    if expected and not expected["exited"]:
        shape["output"] = {
            stream: text[: len(expected["output"].get(stream, ""))] for stream, text in output.items()
        }
    if params.get("waitMs") and result["exited"]:
        shape["closed"] = differences.ANY_VALUE
    return shape


def matches(expected: Any, got: Any) -> bool:
    """Equality, where `<any>` in the expectation stands for any value."""
    if expected == differences.ANY_VALUE:
        return True
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(matches(expected[k], got[k]) for k in expected)
    return bool(expected == got)


def fresh_read(**members: Any) -> Message:
    return {
        "output": {},
        "beyond": 0,
        "exited": False,
        "exitCode": None,
        "closed": False,
        "failure": None,
        "sandboxDenied": False,
        **members,
    }


def refused(ident: str, text: str) -> Message:
    return {"id": ident, "error": {"code": -32600, "message": text}}


# Concurrent requests have no order (section 4.2): what else the reference may answer.
RACES: dict[tuple[str, str], list[Message]] = {
    ("18-concurrent-2", "answer A process/start"): [
        {"id": "process/start", "result": {"processId": "st", "sandboxType": "none"}}
    ],
    ("18-concurrent-2", "answer A process/write"): [
        {"id": "process/write", "result": {"status": status}} for status in ("starting", "accepted")
    ]
    + [
        {
            "id": "process/write",
            "error": {"code": -32603, "message": "failed to write to process stdin"},
        }
    ],
    ("18-concurrent-2", "answer A process/read"): [
        refused("process/read", "process id st is starting"),
        {
            "id": "process/read",
            "result": fresh_read(
                exited=differences.ANY_VALUE, exitCode=differences.ANY_VALUE, closed=differences.ANY_VALUE
            ),
        },
    ],
    ("18-concurrent-2", "answer A process/terminate"): [
        {"id": "process/terminate", "result": {"running": False}}
    ],
}
