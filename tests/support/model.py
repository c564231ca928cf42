"""A scripted model: the Responses API over SSE on loopback, so that an agent runs without a network.

A script is a generator. It yields lists of tool calls, is sent their outputs in the same order, and
returns the final message, so a step can depend on any earlier output:

    def script():
        [out] = yield [exec_command("sleep 1; echo hi", yield_time_ms=250)]
        while out.session is not None:
            [out] = yield [write_stdin(out.session)]
        return "done"

What goes wrong in a script is raised where the model's block ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from .sse import Message, answering


@dataclasses.dataclass(frozen=True)
class Call:
    """One tool call, as a model asks for it."""

    name: str
    arguments: Message
    text: str | None = None  # instead of arguments, for a tool that takes plain text
    namespace: str | None = None  # of a tool that somebody else has

    def item(self, ident: str) -> Message:
        item: Message = {"id": f"item-{ident}", "call_id": ident, "name": self.name}
        if self.namespace is not None:
            item["namespace"] = self.namespace
        if self.text is not None:
            return {"type": "custom_tool_call", **item, "input": self.text}
        return {"type": "function_call", **item, "arguments": json.dumps(self.arguments)}


@dataclasses.dataclass(frozen=True)
class Output:
    """What the agent told the model about one call."""

    raw: str

    @property
    def text(self) -> str:
        """The command's own output, without the agent's header."""
        return self.raw.partition("Output:\n")[2]

    @property
    def exit_code(self) -> int | None:
        return self._number(r"^Process exited with code (-?\d+)$")

    @property
    def session(self) -> int | None:
        """The number to poll or write to; None once the command has ended."""
        return self._number(r"^Process running with session ID (\d+)$")

    @property
    def original_tokens(self) -> int | None:
        """The agent's estimate of the output before it was cut for the model: four bytes a token."""
        return self._number(r"^Original token count: (\d+)$")

    def _number(self, pattern: str) -> int | None:
        found = re.search(pattern, self.raw.partition("Output:\n")[0], re.MULTILINE)
        return int(found[1]) if found else None


Script = Generator[list[Call], list[Output], str]


def exec_command(cmd: str, **arguments: Any) -> Call:
    """Starts a command; by default the agent waits for its end for up to thirty seconds."""
    return Call("exec_command", {"cmd": cmd, "yield_time_ms": 30_000, **arguments})


def write_stdin(session: int, chars: str = "", **arguments: Any) -> Call:
    """Types into a running command, or only polls it when there is nothing to type."""
    return Call("write_stdin", {"session_id": session, "chars": chars, **arguments})


def apply_patch(*lines: str) -> Call:
    """Changes files by a patch, given without its first and last line."""
    return Call("apply_patch", {}, "\n".join(("*** Begin Patch", *lines, "*** End Patch")) + "\n")


def mcp_tool(server: str, tool: str, /, **arguments: Any) -> Call:
    """Calls a tool of an MCP server."""
    return Call(tool, arguments, namespace=f"mcp__{server}")


def view_image(path: str) -> Call:
    return Call("view_image", {"path": path})


class Model:
    """The model's state: `outputs` holds every tool output received, `requests` every request body."""

    def __init__(self, script: Callable[[], Script]) -> None:
        self.url = ""
        self.requests: list[Message] = []
        self.outputs: list[Output] = []
        self.finished = False
        self.failure: Exception | None = None
        self._script = script()
        self._asked: list[str] = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def respond(self, request: Message) -> list[Message]:
        """The events that answer one request."""
        with self._lock:
            self.requests.append(request)
            try:
                items = self._items(request)
            except Exception as error:
                self.failure = error
                raise
            ident = f"response-{len(self.requests)}"
        usage = {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
        return [
            {"type": "response.created", "response": {"id": ident}},
            *({"type": "response.output_item.done", "item": item} for item in items),
            {"type": "response.completed", "response": {"id": ident, "usage": usage}},
        ]

    def _items(self, request: Message) -> list[Message]:
        told = {
            item["call_id"]: Output(_text(item["output"]))
            for item in request["input"]
            if item["type"] in ("function_call_output", "custom_tool_call_output")
        }
        outputs = [told[ident] for ident in self._asked]
        self.outputs += outputs
        try:
            # A generator takes no value before its first yield.
            calls = self._script.send(outputs) if self._asked else next(self._script)
        except StopIteration as end:
            self.finished = True
            self._asked = []
            return [
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "message-1",
                    "content": [{"type": "output_text", "text": end.value}],
                }
            ]
        self._asked = [f"call-{next(self._ids)}" for _ in calls]
        return [call.item(ident) for ident, call in zip(self._asked, calls, strict=True)]


@contextlib.contextmanager
def modelling(script: Callable[[], Script]) -> Iterator[Model]:
    """A model that follows this script, listening on loopback; `url` is the provider's base URL."""
    model = Model(script)
    try:
        with answering("/v1/responses", model.respond) as url:
            model.url = f"{url}/v1"
            yield model
    finally:
        if model.failure is not None:
            raise model.failure


def _text(output: str | list[Message]) -> str:
    """A tool output is a string, or a list of content items."""
    if isinstance(output, str):
        return output
    return "".join(item.get("text", "") for item in output)
