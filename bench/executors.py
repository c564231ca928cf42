"""Many executors in one process, which run real commands: `python -m bench.executors URL FILE`.

The file has a name and a token on each line. Each executor has keys, a socket and streams of its own; they
share a server, and so one processor. Prints a line when all are connected.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from outfitter.loop import EpollLoop
from outfitter.relay.credentials import bearer
from outfitter.relay.executor import RemoteExecutor
from outfitter.relay.registry import Registry
from outfitter.server.dialled import serve_remote
from outfitter.server.settings import ServerSettings

SESSIONS = 4096  # more than all of them have streams


class _Many:
    """Dials out for all of them."""

    def __init__(self, executors: list[RemoteExecutor]) -> None:
        self._executors = executors
        self._missing = len(executors)

    def begin(self) -> None:
        for one in self._executors:
            one.on_ready = self._ready
            one.begin()

    @property
    def heard(self) -> float:
        return max(one.heard for one in self._executors)

    def stop(self, reason: str) -> None:
        for one in self._executors:
            one.stop(reason)

    def _ready(self) -> None:
        self._missing -= 1
        if not self._missing:
            print(f"pid://executors:{os.getpid()}", flush=True)  # in the form of an address


def main(url: str, path: str) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with open(path) as file:
        named = [line.split() for line in file]

    def dial_out(loop: EpollLoop, connected: Callable[[Any], None], gave_up: Callable[[str], None]) -> _Many:
        return _Many([_executor(loop, url, name, token, connected, gave_up) for name, token in named])

    return serve_remote(ServerSettings(max_sessions=SESSIONS, max_connections=SESSIONS), dial_out)


def _executor(
    loop: EpollLoop,
    url: str,
    name: str,
    token: str,
    connected: Callable[[Any], None],
    gave_up: Callable[[str], None],
) -> RemoteExecutor:
    return RemoteExecutor(loop, Registry(url, name, lambda: bearer(token)), connected, gave_up)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
