"""Every way to an exec-server: ours and the reference, in memory, on pipes, on a socket, with TLS on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import outfitter
from outfitter.client.client import Client
from outfitter.client.connect import open_program
from tests.support.certificates import authority, server_pair
from tests.support.servers import Server, command, environment, serving

NAMES = ("memory", "stdio", "websocket", "tls", "codex-websocket", "codex-stdio")


class Way:
    """How clients of one test reach their server.

    Over a socket all clients share one server, which is `server`; otherwise each has its own.
    """

    def __init__(self, name: str, home: Path, server: Server | None = None) -> None:
        self.name = name
        self.home = home
        self.server = server

    @property
    def ours(self) -> bool:
        """Whether the server is ours, and has what the reference has not."""
        return not self.name.startswith("codex")

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def directory(self) -> Path:
        """Where the executor is: in memory that is here."""
        return Path.cwd() if self.name == "memory" else self.home

    @contextlib.asynccontextmanager
    async def connect(self, **settings: Any) -> AsyncIterator[Client]:
        """A client; `settings` are those of `outfitter.connect`, for the ways that have a socket."""
        if self.server is not None:
            if self.name == "tls":
                settings = {"ca": authority().file, **settings}
            async with outfitter.connect(self.url, **settings) as client:
                yield client
        elif self.name == "memory":
            async with outfitter.local(environment=environment(self.home)) as client:
                yield client
        else:
            argv = command("outfitter" if self.ours else "codex", "--listen", "stdio")
            client = await open_program(argv, env=environment(self.home), cwd=str(self.home), **settings)
            try:
                yield client
            finally:
                await client.aclose()


@contextlib.contextmanager
def opened(name: str, home: Path) -> Iterator[Way]:
    """The way of this name, with its server where it has one for all."""
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    if name.endswith("websocket"):
        with serving("codex" if name.startswith("codex") else "outfitter", home) as server:
            yield Way(name, home, server)
    elif name == "tls":
        with serving("outfitter", home, *server_pair().flags, listen="wss://127.0.0.1:0") as server:
            yield Way(name, home, server)
    else:
        if name == "memory":  # the executor is here, where the project's own .venv is
            configuration = home / ".config" / "outfitter" / "config.toml"
            configuration.parent.mkdir(parents=True, exist_ok=True)
            configuration.write_text("[providers]\nuse = []\n")
        yield Way(name, home)
