"""Claude Code, run once with a scratch home and a scripted model on loopback, offline.

The model answers every request that offers tools with the next call of its script, and with a closing message
when there is none left. A call of a subagent's model is a call like any other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .sse import Message, answering
from .tools import claude_binary

SECONDS = 100.0  # a run that takes longer has hung
TRIES = 300  # of a command that waits for something; half a minute
_USAGE = {"input_tokens": 1, "output_tokens": 1}
_ids = itertools.count(1)  # never the same again: a resumed session has seen the earlier ones


@dataclasses.dataclass(frozen=True)
class Use:
    """One use of a tool, as a model asks for it: again and again until its output is `until`."""

    name: str
    input: Message
    until: str | None = None


@dataclasses.dataclass(frozen=True)
class Say:
    """What a subagent's model says in the end."""

    text: str


Call = Use | Say


def bash(command: str, until: str | None = None) -> Use:
    """With `until` for what the agent does beside its commands, and they may overtake."""
    return Use("Bash", {"command": command, "description": "a step of the script"}, until)


def subagent(prompt: str) -> Use:
    """The calls behind it, up to a `Say`, are the subagent's."""
    return Use("Agent", {"description": "help", "prompt": prompt, "subagent_type": "general-purpose"})


class Model:
    """The model's state: `requests` holds every request body, `outputs` what each use came to in the end."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.url = ""
        self.requests: list[Message] = []
        self._calls = list(calls)
        self._asked: list[str] = []
        self._last: Use | None = None
        self._tries = 0
        self._told: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def outputs(self) -> list[str]:
        return [self._told[ident] for ident in self._asked]

    @property
    def told(self) -> str:
        """All that the model was told, tool descriptions left out."""
        return json.dumps([[one["messages"], one.get("system")] for one in self.requests])

    def respond(self, request: Message) -> list[Message]:
        """The events that answer one request."""
        with self._lock:
            self.requests.append(request)
            for message in request["messages"]:
                for part in message["content"] if isinstance(message["content"], list) else ():
                    if part["type"] == "tool_result":
                        self._told[part["tool_use_id"]] = _text(part["content"])
            if not request.get("tools"):
                return _events({"type": "text", "text": "a title"})
            call = self._next()
            if isinstance(call, Say):
                return _events({"type": "text", "text": call.text})
            self._asked.append(f"toolu_{next(_ids)}")
            return _events(
                {"type": "tool_use", "id": self._asked[-1], "name": call.name, "input": call.input}
            )

    def _next(self) -> Call:
        last = self._last
        waits = last is not None and last.until is not None and self._tries < TRIES
        if last is not None and waits and self._told.get(self._asked[-1]) != last.until:
            self._asked.pop()
            self._tries += 1
            return last
        call: Call = self._calls.pop(0) if self._calls else Say("done")
        self._last = call if isinstance(call, Use) else None
        self._tries = 1
        return call


def _events(block: Message) -> list[Message]:
    if block["type"] == "text":
        empty: Message = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    stop = {"stop_reason": "end_turn" if block["type"] == "text" else "tool_use", "stop_sequence": None}
    message: Message = {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": _USAGE},
        {"type": "message_stop"},
    ]


@contextlib.contextmanager
def modelling(calls: Sequence[Call]) -> Iterator[Model]:
    """A model that makes these calls, listening on loopback; `url` is the API's base URL."""
    model = Model(calls)
    with answering("/v1/messages", model.respond) as model.url:
        yield model


def _text(content: str | list[Message]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: what commands printed, what hooks did, and what the model was told."""

    exit_code: int
    events: list[Message]
    stderr: str
    outputs: list[str]
    told: str

    @property
    def session(self) -> str:
        return str(self.events[-1]["session_id"])

    @property
    def hooks(self) -> list[Message]:
        """What the hooks of the session's start came to."""
        return [event for event in self.events if event.get("subtype") == "hook_response"]


def run_claude(
    home: Path,
    cwd: Path,
    *calls: Call,
    settings: Message,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    which: str = "claude",
) -> Run:
    """Runs `claude -p` with a scratch home until its model has nothing more to say."""
    config = home / ".claude"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.json").write_text(json.dumps(settings))
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    with modelling(calls) as model:
        popen = subprocess.Popen(
            [
                *(str(claude_binary(which)), "-p", "follow the script", "--output-format", "stream-json"),
                *("--verbose", "--allowedTools", "Bash", "Agent", *args),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TMPDIR": str(temporary),
                "CLAUDE_CODE_TMPDIR": str(temporary),
                "CLAUDE_CONFIG_DIR": str(config),
                "LANG": "C.UTF-8",
                "SHELL": "/bin/bash",
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "none",
                # Each of these would go to the network.
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
                **(env or {}),
            },
        )
        try:
            stdout, stderr = popen.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as expired:
            popen.kill()
            stdout, stderr = popen.communicate()
            raise AssertionError(
                f"claude did not end in {SECONDS} s\n{stdout.decode()[-4000:]}\n{stderr.decode()[-4000:]}"
            ) from expired
    events = [json.loads(line) for line in stdout.decode().splitlines()]
    return Run(popen.returncode, events, stderr.decode(), model.outputs, model.told)
