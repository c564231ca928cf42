"""One of each thing that a client can ask for: short scenes over a plain connection, for servers in need.

Each answer may be a refusal, and the connection may end. What a scene never accepts is silence.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .machine import SECOND
from .raw import Raw
from .servers import Server, environment
from .wire import b64, start_params

ANSWER_SECONDS = 6 * SECOND  # how long a server may take to answer, or to end the connection
LARGE = 3 << 20  # sent in pieces
MANY = 2500  # names, which a process of its own walks


class Gone(Exception):
    """The server has ended the connection."""


class Refusal(Exception):
    """The server has answered with an error."""


class Peer(Raw):
    """A client that waits for what it asks for, and keeps what else comes."""

    def __init__(self, server: Server, resume: str | None = None, *, seconds: float = ANSWER_SECONDS) -> None:
        super().__init__(server)
        self.socket.settimeout(seconds)
        self._answers: dict[int, Any] = {}
        self.notices: list[dict[str, Any]] = []
        try:
            self.upgrade()
            self.session: str = self.ask("initialize", clientName="peer", resumeSessionId=resume)["sessionId"]
            self.send({"method": "initialized"})
        except (AssertionError, ConnectionError) as error:
            self.close()
            raise Gone(str(error)) from None
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, **params: Any) -> Any:
        """The result. Raises Refusal, Gone; TimeoutError when there is silence."""
        return self.answer(self.begin(method, **params))

    def begin(self, method: str, **params: Any) -> int:
        try:
            return self.call_unread(method, params)
        except ConnectionError as error:
            raise Gone(str(error)) from None

    def answer(self, ident: int) -> Any:
        while ident not in self._answers:
            self._receive()
        answer = self._answers.pop(ident)
        if "error" in answer:
            raise Refusal(answer["error"]["message"])
        return answer["result"]

    def until(self, method: str, **params: Any) -> dict[str, Any]:
        """The first notice of this kind with these members, past or coming."""
        while True:
            for notice in self.notices:
                found = notice["params"]
                if notice["method"] == method and all(found.get(key) == params[key] for key in params):
                    return found  # type: ignore[no-any-return]
            self._receive()

    def start(self, process: str, argv: list[str], **params: Any) -> None:
        self.ask("process/start", **start_params(process, argv, **params))

    def closed(self, process: str) -> int:
        """The exit code of a process, when it has closed."""
        self.until("process/closed", processId=process)
        code: int = self.until("process/exited", processId=process)["exitCode"]
        return code

    def output(self, process: str) -> bytes:
        mine = [n["params"] for n in self.notices if n["method"] == "process/output"]
        return b"".join(base64.b64decode(one["chunk"]) for one in mine if one["processId"] == process)

    def _receive(self) -> None:
        try:
            whole, payload = b"", b""
            while True:
                first, payload = self.frame()
                if first & 0x0F in (0, 1):
                    whole += payload
                    if first & 0x80:
                        break
                elif first == 0x88:
                    raise Gone(payload[2:].decode())
        except (AssertionError, ConnectionError) as error:
            raise Gone(str(error)) from None
        message = json.loads(whole)
        if "method" in message:
            self.notices.append(message)
        else:
            self._answers[message["id"]] = message


class Scenes:
    """All of them, in a folder of their own. `names` lists them; `play` plays one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "scenes"
        self.project = self.folder / "project"
        for path in (self.folder / "tree/below", self.folder / "many", self.folder / "watched", self.project):
            path.mkdir(parents=True)
        for number in range(8):
            (self.folder / f"tree/below/{number}.txt").write_text(f"line {number}\nhello\n")
        for number in range(MANY):
            (self.folder / f"many/{number}").touch()
        (self.folder / "large").write_bytes(os.urandom(LARGE))
        (self.project / ".git").mkdir()
        (self.project / "outfitter.toml").write_text(
            '[providers]\nuse = ["command"]\ncommand = ["./tells"]\n[env]\nset = { OURS = "1" }\n'
        )
        (self.project / "tells").write_text(
            '#!/bin/sh\necho \'{"set": {"TOLD": "1"}, "watch": ["stamp"]}\'\n'
        )
        (self.project / "tells").chmod(0o755)
        (self.project / "stamp").write_text("0")
        self._number = 0

    @property
    def names(self) -> list[str]:
        return [name[len("_play_") :] for name in dir(self) if name.startswith("_play_")]

    def trust(self, home: Path) -> None:
        """Allows the project's provider, for servers of this home."""
        command = [sys.executable, "-m", "outfitter", "trust", "--yes", str(self.project)]
        subprocess.run(command, env=environment(home), check=True, capture_output=True, timeout=60 * SECOND)

    def play(self, name: str, server: Server) -> None:
        """Plays one to its end, or until the server refuses or ends it."""
        try:
            self.play_to_the_end(name, server)
        except (Refusal, Gone):
            pass

    def play_to_the_end(self, name: str, server: Server) -> None:
        """Raises Refusal, Gone."""
        self._number += 1
        play: Callable[[Server], None] = getattr(self, f"_play_{name}")
        play(server)

    def _uri(self, path: str) -> str:
        return f"file://{self.folder}/{path}"

    # Processes

    def _play_pipes(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
            peer.closed("p")

    def _play_stdin(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/cat"], pipeStdin=True)
            for number in range(2):
                peer.ask("process/write", processId="p", chunk=b64(b"x" * 100_000), writeId=f"w{number}")
            peer.ask("process/write", processId="p", chunk="", writeId="end", eof=True)
            peer.closed("p")

    def _play_terminal(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/sh", "-c", "read line; echo $line"], tty=True)
            peer.ask("process/resize", processId="p", size={"rows": 30, "cols": 100})
            peer.ask("process/write", processId="p", chunk=b64(b"word\n"), writeId="w")
            peer.closed("p")

    def _play_terminate(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/sh", "-c", "sleep 1000 & sleep 1000"])
            peer.ask("process/terminate", processId="p")
            peer.closed("p")

    def _play_left_running(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/sh", "-c", "sleep 1000"])
            peer.start("q", ["/bin/sh", "-c", "(sleep 1000 >/dev/null 2>&1 &)"])

    def _play_much_output(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/sh", "-c", "head -c 3000000 /dev/zero"])
            peer.closed("p")

    def _play_long_poll(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.start("p", ["/bin/cat"], pipeStdin=True)
            read = peer.begin("process/read", processId="p", waitMs=5000)
            peer.ask("process/write", processId="p", chunk=b64(b"x"), writeId="w", eof=True)
            peer.answer(read)
            peer.closed("p")

    def _play_resume(self, server: Server) -> None:
        with Peer(server) as peer:
            session = peer.session
            peer.start("p", ["/bin/sh", "-c", "read line; echo $line"], pipeStdin=True)
        with Peer(server, resume=session) as peer:
            # Asked before the command can end: without retention it is forgotten at once then.
            read = peer.begin("process/read", processId="p", waitMs=1000)
            peer.ask("process/write", processId="p", chunk=b64(b"word\n"), writeId="w")
            peer.answer(read)
            peer.closed("p")

    # Environments

    def _play_provider(self, server: Server) -> None:
        (self.project / "stamp").write_text(str(self._number))  # so that it is asked again
        with Peer(server) as peer:
            asked: dict[str, Any] = {"cwd": f"file://{self.project}", "env": {}, "contract": {}}
            peer.start("p", ["/bin/sh", "-c", "echo $TOLD"], **asked)
            peer.closed("p")
            peer.ask("environment/explain", **asked, tty=False)
            if peer.output("p") != b"1\n":
                raise Refusal("without its provider")

    def _play_shell(self, server: Server) -> None:
        with Peer(server) as peer:
            contract = {"startup": "report", "login": "allow"}
            peer.start("p", ["/bin/bash", "-lc", "echo hello"], contract=contract)
            peer.closed("p")

    # Files

    def _play_files(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.ask("fs/createDirectory", path=self._uri("made/below"), recursive=True)
            peer.ask("fs/writeFile", path=self._uri("made/file"), dataBase64=b64(b"content"))
            peer.ask("fs/writeFile", path=self._uri("made/file"), dataBase64=b64(b"other content"))
            peer.ask("fs/readFile", path=self._uri("made/file"))
            peer.ask("fs/getMetadata", path=self._uri("made/file"))
            peer.ask("fs/readDirectory", path=self._uri("made"))
            peer.ask(
                "fs/copy", sourcePath=self._uri("made"), destinationPath=self._uri("copied"), recursive=True
            )
            peer.ask("fs/remove", path=self._uri("copied"), recursive=True, force=True)
            peer.ask("fs/remove", path=self._uri("made"), recursive=True, force=True)

    def _play_large_file(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.ask("fs/readFile", path=self._uri("large"))

    def _play_blocks(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.ask("fs/open", handleId="w", path=self._uri("written"), mode="replace")
            for number in range(2):
                peer.ask("fs/writeBlock", handleId="w", offset=number * 1000, chunk=b64(b"x" * 1000))
            peer.ask("fs/close", handleId="w")
            peer.ask("fs/open", handleId="r", path=self._uri("written"), mode="read")
            peer.ask("fs/readBlock", handleId="r", offset=0, len=1000)
            peer.ask("fs/open", handleId="u", path=self._uri("written"), mode="update")
            peer.ask("fs/writeBlock", handleId="u", offset=10, chunk=b64(b"y"))
            peer.ask("fs/close", handleId="u")
            peer.ask("fs/open", handleId="left", path=self._uri("left"), mode="replace")

    def _play_walk(self, server: Server) -> None:
        options = {
            "maxDepth": 8,
            "maxDirectories": 100,
            "maxEntries": 10_000,
            "followDirectorySymlinks": False,
        }
        with Peer(server) as peer:
            peer.ask("fs/walk", path=self._uri("tree"), options=options)
            peer.ask("fs/walk", path=self._uri("many"), options=options)

    def _play_search(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.ask("fs/search", path=self._uri("tree"), pattern="hel+o")

    def _play_watch(self, server: Server) -> None:
        with Peer(server) as peer:
            peer.ask("fs/watch", watchId="w", path=self._uri("watched"), debounceMs=0)
            (self.folder / "watched/new").mkdir(exist_ok=True)
            (self.folder / f"watched/{self._number % 7}").write_text(str(self._number))
            peer.until("fs/changed", watchId="w")
            peer.ask("fs/unwatch", watchId="w")
