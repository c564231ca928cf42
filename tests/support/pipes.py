"""An exec-server on stdin and stdout, as a launcher would start it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .machine import SECOND
from .servers import command, end, environment
from .wire import Message, start_params


class Pipes:
    """One connection over a server's standard streams."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.notices: list[Message] = []
        self._next = 1

    def send(self, message: Message | bytes) -> None:
        assert self.popen.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.popen.stdin.write(line)
        self.popen.stdin.flush()

    def receive(self) -> Message:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line, "the server ended its output"
        message: Message = json.loads(line)
        return message

    def request(self, method: str, params: Any = None) -> int:
        ident = self._next
        self._next += 1
        self.send({"id": ident, "method": method, "params": params})
        return ident

    def answer(self, ident: int) -> Message:
        while (message := self.receive()).get("id") != ident:
            self.notices.append(message)
        return message

    def call(self, method: str, params: Any = None) -> Any:
        message = self.answer(self.request(method, params))
        assert "result" in message, message
        return message["result"]

    def handshake(self) -> Message:
        result: Message = self.call("initialize", {"clientName": "test"})
        self.send({"method": "initialized"})
        return result

    def start(self, process: str, argv: list[str], **params: Any) -> Message:
        result: Message = self.call("process/start", start_params(process, argv, **params))
        return result

    def next_notice(self) -> Message:
        return self.notices.pop(0) if self.notices else self.receive()

    def end_input(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def exit_code(self, seconds: float = 10 * SECOND) -> int:
        return self.popen.wait(seconds)


@contextlib.contextmanager
def piping(home: Path, *args: str, listen: str = "stdio") -> Iterator[Pipes]:
    """A server on pipes, ended by pid when the block ends."""
    with (home / "stdio.stderr").open("ab") as stderr:
        popen = subprocess.Popen(
            command("outfitter", "--listen", listen, *args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(home),
            cwd=home,
        )
    try:
        yield Pipes(popen)
    finally:
        with contextlib.suppress(BrokenPipeError):
            end(popen)
