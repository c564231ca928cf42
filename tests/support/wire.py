"""A plain JSON-RPC client for tests: sends what it is told, keeps every message in order.

It is built on an independent websocket library, so that our own framing is never tested by itself.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Callable
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from outfitter.system import LINUX

from .portable import unmarked

Message = dict[str, Any]  # test data is whatever JSON holds
SECONDS = 20.0  # how long a test waits for a message that must come
OVERTAKEN_SECONDS = 0.3  # and for one that a later one has overtaken


class Wire:
    """One connection. `call` waits for the answer; notifications collect in `notices`."""

    def __init__(self, url: str, *, headers: dict[str, str] | None = None) -> None:
        self._context = connect(
            url, compression=None, ping_interval=None, max_size=None, additional_headers=headers
        )
        self.socket: ClientConnection = self._context.__enter__()
        self.notices: list[Message] = []
        self._answers: dict[Any, Message] = {}
        self._ids = itertools.count(1)

    # Messages

    def send(self, message: Message | str | bytes) -> None:
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def request(self, method: str, params: Any = None, **members: Any) -> int:
        """Sends a request and returns its id, without waiting."""
        ident = next(self._ids)
        self.send({"id": ident, "method": method, "params": params, **members})
        return ident

    def receive(self, seconds: float = SECONDS) -> Message:
        """The next message, kept in `notices` or among the answers as well."""
        message: Message = json.loads(self.socket.recv(timeout=seconds))
        if "method" in message:
            self.notices.append(message)
        else:
            self._answers[message["id"]] = message
        return message

    def answer(self, ident: Any, seconds: float = SECONDS) -> Message:
        """The whole answer to request `ident`."""
        deadline = time.monotonic() + seconds
        while ident not in self._answers:
            self.receive(max(0.0, deadline - time.monotonic()))
        return self._answers.pop(ident)

    def call(self, method: str, params: Any = None, seconds: float = SECONDS) -> Any:
        """The result of a request; an error answer raises AssertionError with its text."""
        message = self.answer(self.request(method, params), seconds)
        assert "result" in message, message
        return message["result"]

    def error(self, method: str, params: Any = None, seconds: float = SECONDS) -> Message:
        """The error object of a request that must fail."""
        message = self.answer(self.request(method, params), seconds)
        assert "error" in message, message
        error: Message = message["error"]
        return error

    def until(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """The first notification, past or coming, for which `wanted` holds."""
        for message in self.notices:
            if wanted(message):
                return message
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self.receive(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(f"not within {seconds:g} s; what came last: {self.notices[-6:]}") from None
            if "method" in message and wanted(message):
                return message

    # Handshake and processes

    def handshake(self, resume: str | None = None) -> Message:
        result: Message = self.call("initialize", {"clientName": "test", "resumeSessionId": resume})
        self.send({"method": "initialized", "params": {}})
        return result

    def start(self, process: str, argv: list[str], **params: Any) -> Message:
        """process/start with the usual defaults: cwd /tmp, a small PATH, pipes."""
        result: Message = self.call("process/start", start_params(process, argv, **params))
        return result

    def closed(self, process: str, seconds: float = SECONDS) -> list[Message]:
        """Waits for process/closed; returns this process's notifications sorted by seq."""
        last = self.until(
            lambda m: m["method"] == "process/closed" and m["params"]["processId"] == process, seconds
        )["params"]["seq"]
        mine = self._events(process)
        while len(mine) < last:
            # Some may never come here (they came on another connection); but the reference now and then
            # sends `closed` before what comes before it.
            try:
                self.receive(OVERTAKEN_SECONDS)
            except TimeoutError:
                break
            mine = self._events(process)
        return [mine[seq] for seq in sorted(mine)]

    def _events(self, process: str) -> dict[int, Message]:
        mine = [m for m in self.notices if m["params"].get("processId") == process]
        return {m["params"]["seq"]: m for m in mine if "seq" in m["params"]}  # not what its proxy says

    def output(self, process: str, stream: str | None = None) -> bytes:
        """The output received so far, in order of seq, without a mark of ours."""
        mine = [
            m["params"]
            for m in self.notices
            if m["method"] == "process/output" and m["params"]["processId"] == process
        ]
        mine.sort(key=lambda p: p["seq"])
        return unmarked(b"".join(base64.b64decode(p["chunk"]) for p in mine if stream in (None, p["stream"])))

    def exit_code(self, process: str, seconds: float = SECONDS) -> int:
        code: int = self.until(
            lambda m: m["method"] == "process/exited" and m["params"]["processId"] == process, seconds
        )["params"]["exitCode"]
        return code

    # End of the connection

    def ended(self, seconds: float = SECONDS) -> ConnectionClosed:
        """Waits until the server ends the connection; returns how it ended."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.receive(max(0.0, deadline - time.monotonic()))
            except ConnectionClosed as closed:
                return closed

    def abort(self) -> None:
        """Drops the TCP connection without a close frame, as the stock client does."""
        if not LINUX:
            # The library's thread waits in poll(2), which keeps a socket that is closed meanwhile.
            with contextlib.suppress(OSError):  # closed or reset already
                self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket.socket.close()

    def close(self) -> None:
        self._context.__exit__(None, None, None)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_params(process: str, argv: list[str], **params: Any) -> Message:
    return {
        "processId": process,
        "argv": argv,
        "cwd": "file:///tmp",
        "env": {"PATH": "/usr/bin:/bin"},
        "tty": False,
        **params,
    }


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
