"""The stock Codex client as an application drives it: `codex app-server`, where a person can be asked."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .codex import CONFIG, ENVIRONMENTS, MODEL, SECONDS
from .servers import end
from .tools import codex_binary

TOKENS_IN_FILE = 'mcp_oauth_credentials_store = "file"\n'  # a test has no keyring
Message = dict[str, Any]  # test data is whatever JSON holds


def run_turn(
    home: Path,
    *,
    model: str,
    server: str,
    cwd: Path,
    sandbox: str,
    approval: object,
    decide: Callable[[str, Message], Message],
) -> list[Message]:
    """One turn of a thread, to its end. `decide` answers each request of the client: its method, its params.

    Returns the notices that came meanwhile.
    """
    with thread(
        home, model=model, server=server, cwd=cwd, sandbox=sandbox, approval=approval, decide=decide
    ) as (
        client,
        id,
    ):
        client.begin(id)
        client.until("turn/completed")
    return client.notices


@contextlib.contextmanager
def thread(
    home: Path,
    *,
    model: str,
    server: str,
    cwd: Path,
    sandbox: str = "danger-full-access",
    approval: object = "never",
    decide: Callable[[str, Message], Message] = lambda *_: {},
) -> Iterator[tuple[Client, str]]:
    """A thread that does nothing yet: the client, and the thread's id."""
    codex_home = home / ".codex"
    codex_home.mkdir(parents=True, exist_ok=True)
    (codex_home / "config.toml").write_text(CONFIG.format(model=MODEL, url=model))
    (codex_home / "environments.toml").write_text(ENVIRONMENTS.format(url=server))
    client = Client(home, codex_home, decide)
    try:
        client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}, "capabilities": None})
        client.send({"method": "initialized"})
        made = client.ask(
            "thread/start",
            {"cwd": str(cwd), "sandbox": sandbox, "approvalPolicy": approval, "ephemeral": True},
        )
        yield client, made["thread"]["id"]
    finally:
        client.close()


def log_in(home: Path, *, server: str, name: str, tables: str, visit: Callable[[str], None]) -> Message:
    """Logs in to an MCP server; `visit` does what a person's browser would. Returns what came of it."""
    codex_home = home / ".codex"
    codex_home.mkdir(parents=True, exist_ok=True)
    (codex_home / "config.toml").write_text(
        TOKENS_IN_FILE + CONFIG.format(model=MODEL, url="http://127.0.0.1:9") + tables
    )
    (codex_home / "environments.toml").write_text(ENVIRONMENTS.format(url=server))
    client = Client(home, codex_home, lambda *_: {})
    try:
        client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}, "capabilities": None})
        client.send({"method": "initialized"})
        visit(client.ask("mcpServer/oauth/login", {"name": name})["authorizationUrl"])
        client.until("mcpServer/oauthLogin/completed")
    finally:
        client.close()
    return next(one for one in client.notices if one["method"] == "mcpServer/oauthLogin/completed")["params"]


class Client:
    """`codex app-server`, and what it has told so far."""

    def __init__(self, home: Path, codex_home: Path, decide: Callable[[str, Message], Message]) -> None:
        self.notices: list[Message] = []
        self._decide = decide
        self._ids = 0
        self._answers: dict[int, Message] = {}
        self._lines: queue.Queue[bytes] = queue.Queue()
        env: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(codex_home),
            "LANG": "C.UTF-8",
            "SCRIPTED_MODEL_KEY": "none",
        }
        with (home / "app-server.stderr").open("ab") as stderr:
            self._popen = subprocess.Popen(
                [str(codex_binary()), "app-server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                cwd=home,
            )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def close(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._popen.terminate()
        self._popen.wait()
        self._reading.join()
        end(self._popen)

    def send(self, message: Message) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(message).encode() + b"\n")
        self._popen.stdin.flush()

    def begin(self, thread: str) -> str:
        """Begins a turn of the thread; its id."""
        text = {"type": "text", "text": "follow the script", "text_elements": []}
        begun = self.ask("turn/start", {"threadId": thread, "input": [text]})
        id: str = begun["turn"]["id"]
        return id

    def ask(self, method: str, params: Message) -> Message:
        answer = self.answer(method, params)
        assert "result" in answer, (method, answer)
        result: Message = answer["result"]
        return result

    def answer(self, method: str, params: Message) -> Message:
        """Whatever comes of a request."""
        self._ids += 1
        number = self._ids
        self.send({"id": number, "method": method, "params": params})
        while number not in self._answers:
            self._take()
        return self._answers.pop(number)

    def until(self, method: str) -> None:
        while not any(notice["method"] == method for notice in self.notices):
            self._take()

    def _take(self) -> None:
        line = self._lines.get(timeout=SECONDS)
        assert line, f"codex app-server has ended: {self.notices[-3:]}"
        message: Message = json.loads(line)
        if "method" not in message:
            self._answers[message["id"]] = message
        elif "id" in message:
            self.send({"id": message["id"], "result": self._decide(message["method"], message["params"])})
        else:
            self.notices.append(message)
