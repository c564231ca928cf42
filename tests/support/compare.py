"""The same message to two servers: the reference, and the one under test; answers compared.

The subject may be a second reference server, which proves that the comparison itself is sound.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed

from . import differences, texts
from .wire import Message, Wire

SECONDS = 30.0  # a confined request of the reference starts a program, on a machine that may be busy
BRIEF = 0.01
BARRIER = "barrier"
DEPTH = 127
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
OWN_INFO = ("executorVersion", "providerId", "prependPathDirs", "capabilities")


@dataclass
class Outcome:
    """What came of a message: the answers, and how the connection ended if it did."""

    answers: list[Message] = field(default_factory=list)
    ended: ConnectionClosed | None = None

    def take(self, message: Message) -> bool:
        """Keeps an answer; true if it is the barrier's."""
        if message.get("id") == BARRIER:
            return True
        if "method" not in message:
            self.answers.append(message)
        return False

    def __str__(self) -> str:
        end = "" if self.ended is None else f", then ended: {self.ended}"
        return f"{self.answers}{end}"


class Peer:
    """A server and a connection to it, opened anew after it ended.

    `stage` is how far the handshake goes: "open", "initialized" or between, "initialize".
    """

    def __init__(self, url: str, stage: str = "initialized") -> None:
        self.url = url
        self.stage = stage
        self.calls = 0
        self.wire = self._connect()

    def _connect(self) -> Wire:
        wire = Wire(self.url)
        if self.stage != "open":
            wire.call("initialize", {"clientName": "test"})
        if self.stage == "initialized":
            wire.send({"method": "initialized", "params": {}})
        return wire

    def renew(self) -> None:
        self.wire.close()
        self.wire = self._connect()

    def close(self) -> None:
        self.wire.close()

    def answer(self, method: str, params: Message) -> Message:
        """The whole answer to a request, under an id that no test text has."""
        self.calls += 1
        ident = f"call {self.calls}"
        self.wire.send({"id": ident, "method": method, "params": params})
        return self.wire.answer(ident, SECONDS)

    def exchange(self, raw: str | bytes, *, text: bool | None = None, least: int = 0) -> Outcome:
        """Sends `raw` and a barrier request; returns what is answered up to the barrier's answer.

        A server may answer the barrier early, so `least` other answers are waited for.
        """
        outcome = Outcome()
        passed = False
        try:
            self.wire.socket.send(raw, text=text)
            # Most messages are answered at once. Asking for the next answer before this one was
            # acknowledged would cost a delayed acknowledgement, 40 ms, with a server that uses Nagle.
            with contextlib.suppress(TimeoutError):
                outcome.take(self.wire.receive(BRIEF))
            self.wire.send({"id": BARRIER, "method": "environment/status"})
            while not passed or len(outcome.answers) < least:
                passed = outcome.take(self.wire.receive(SECONDS)) or passed
        except ConnectionClosed:
            outcome.ended = self.wire.ended(SECONDS)
            self.renew()
        return outcome


class Pair:
    """The reference and the server under test, `subject`, at the same stage of the handshake."""

    def __init__(self, reference: Peer, subject: Peer, kind: str) -> None:
        self.reference = reference
        self.subject = subject
        self.ours = kind == "outfitter"

    def close(self) -> None:
        self.reference.close()
        self.subject.close()

    def renew(self) -> None:
        self.reference.renew()
        self.subject.renew()

    def compare(self, raw: str | bytes, *, text: bool | None = None, case: str = "") -> Outcome:
        """Sends `raw` to both; asserts that they agree, but for what is in `differences`."""
        theirs = self.reference.exchange(raw, text=text)
        outcome = self.subject.exchange(raw, text=text, least=len(theirs.answers))
        shown = raw if len(raw) < 300 else raw[:300]
        problem = self.disagreement(raw, theirs, outcome, case)
        assert problem is None, (
            f"{problem}\n  sent      {shown!r}\n  reference {theirs}\n  subject   {outcome}"
        )
        return theirs

    def disagreement(self, raw: str | bytes, theirs: Outcome, outcome: Outcome, case: str) -> str | None:
        known = differences.in_case(case) if self.ours else None
        if known is not None:
            if known.reference not in (brief(theirs), differences.ANY_VALUE):
                return f"{known.source}: the reference no longer does {known.reference}: {brief(theirs)}"
            return None if known.ours == brief(outcome) else f"{known.source}: ours should do {known.ours}"
        if (theirs.ended is None) != (outcome.ended is None):
            return "one of them ended the connection"
        if theirs.ended is not None and outcome.ended is not None:
            problem = self.end_problem(theirs.ended, outcome.ended)
            if problem:
                return problem
        if len(theirs.answers) != len(outcome.answers):
            return "different number of answers"
        for reference, answer in zip(theirs.answers, outcome.answers, strict=True):
            problem = self.answer_problem(raw, reference, answer)
            if problem:
                return problem
        return None

    def end_problem(self, theirs: ConnectionClosed, outcome: ConnectionClosed) -> str | None:
        if theirs.rcvd is not None:
            return "the reference sent a Close frame"
        if not self.ours:
            return None if outcome.rcvd is None else "one of them sent a Close frame"
        # differences.CLOSE_SOURCE
        if outcome.rcvd is None:
            return "no Close frame"
        if outcome.rcvd.code not in differences.CLOSE_CODES_OURS or not outcome.rcvd.reason:
            return "Close frame without the right code and a reason"
        return None

    def answer_problem(self, raw: str | bytes, theirs: Message, answer: Message) -> str | None:
        if self.ours and is_parse_error(theirs, differences.PARSE_ERROR_REFERENCE):
            # differences.PARSE_ERROR_SOURCE
            if not is_parse_error(answer, differences.PARSE_ERROR_OURS):
                return "not our parse error"
            return None if answer["id"] in shown_ids(raw) else f"its id should be in {shown_ids(raw)}"
        if self.ours and "error" in answer:
            answer = {**answer, "error": differences.without_error_data(answer["error"])}
        exact = "error" in theirs and texts.is_domain(theirs["error"]["message"])
        if shape(theirs, exact) != shape(answer, exact):
            return "different answers"
        return None


def is_parse_error(message: Message, prefix: str) -> bool:
    error = message.get("error", {})
    return error.get("code") == -32600 and error["message"].startswith(prefix)


def brief(outcome: Outcome) -> Any:
    """An outcome as differences write it: "ended", an error code, a result, or a list of these."""
    if outcome.ended is not None:
        return "ended"
    answers = [m["error"]["code"] if "error" in m else shape(m, False)["result"] for m in outcome.answers]
    return answers[0] if len(answers) == 1 else answers


def shape(message: Message, exact: bool) -> Message:
    """An answer without what differs between servers; `exact` keeps the text of an error."""
    if "error" in message:
        error = dict(message["error"])
        if not exact:
            assert error["message"], "an error without a text"
            error["message"] = "<decoder wording>"
        return {"id": message["id"], "error": error}
    result = message["result"]
    if isinstance(result, dict):
        result = dict(result)
        if "sessionId" in result:
            assert UUID.fullmatch(result["sessionId"])
            result["sessionId"] = "<id>"
            result["environmentInfo"] = info_shape(result["environmentInfo"])
        elif "shell" in result:
            result = info_shape(result)
    return {"id": message["id"], "result": result}


def info_shape(info: Message) -> Message:
    assert all(isinstance(flag, bool) for flag in info["capabilities"].values())
    info = {name: value for name, value in info.items() if name not in differences.INFO_OURS}
    return {**info, **dict.fromkeys(OWN_INFO, "<own>")}


# Which id a malformed message shows


class Unclear(ValueError):
    """JSON that Python reads but a strict parser need not."""


def shown_ids(raw: str | bytes) -> set[Any]:
    """The ids with which a malformed message may be answered: its own if it is a sound JSON object."""
    if isinstance(raw, bytes):
        try:
            raw = raw.decode()
        except UnicodeDecodeError:
            return {-1}
    try:
        value = json.loads(raw, object_pairs_hook=unique, parse_constant=refuse)
        sound = depth(value) <= DEPTH and not has_lone_surrogate(raw) and count(value) <= 262_144
    except (ValueError, RecursionError):
        value, sound = None, False
    ids = {value["id"]} if isinstance(value, dict) and is_id(value.get("id")) else set()
    if sound:
        return ids or {-1}
    found = re.findall(r'"id"\s*:\s*(-?\d+|"(?:[^"\\]|\\.)*")', raw)
    return {-1, *ids, *(one for one in map(loose, found) if is_id(one))}


def loose(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_id(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Unclear("duplicate key")
    return dict(pairs)


def refuse(constant: str) -> None:
    raise Unclear(constant)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    return 1


def has_lone_surrogate(raw: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in json.dumps(json.loads(raw), ensure_ascii=False))
