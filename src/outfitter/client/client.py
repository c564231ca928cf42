"""The client: one session on one exec-server."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING

from ..errors import Disconnected, OutfitterError
from ..protocol import base64, uri
from ..protocol.environment import EnvPolicyParams, ExplainParams
from ..protocol.process import StartParams, TerminalSize
from ..protocol.session import InitializeParams
from ..record import Record
from .connection import ClientConnection
from .process import Event, Exited, Output, RemoteProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..protocol.jsontext import Json
    from ..transport.base import Transport

# Output received but not yet taken by the caller. Above this the connection is not read, so a caller
# that does not iterate slows the command down instead of filling memory.
_QUEUED_BYTES = 8 << 20

#: Which of the executor's variables a command inherits: inherit ("all", "core", "none"),
#: ignore_default_excludes, exclude patterns, (name, value) pairs to set, include-only patterns.
EnvPolicy = EnvPolicyParams

#: What a command inherits when the caller does not say: everything the executor has.
INHERIT_ALL = EnvPolicyParams("all", True, (), (), ())


class Completed(Record):
    """What `run` returns: the exit code and all output."""

    __slots__ = ("exit_code", "stderr", "stdout")

    def __init__(self, exit_code: int, stdout: bytes, stderr: bytes) -> None:
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class Client:
    """Runs commands on one exec-server. Made by `outfitter.local()`."""

    def __init__(self, transport: Transport) -> None:
        self.info: Json = {}
        self.session_id = ""
        self._connection = ClientConnection(transport, self._noticed, self._lost)
        self._processes: dict[str, RemoteProcess] = {}
        self._names = itertools.count(1)
        self._queued = 0
        self._held = False
        self._calls = 0

    async def initialize(self) -> None:
        """The handshake. Raises RequestFailed, Disconnected."""
        params = InitializeParams("outfitter").encode()
        result = await self._connection.call("initialize", params)
        self.session_id = result["sessionId"]
        self.info = result.get("environmentInfo", {})
        self._connection.notify("initialized", {})

    async def call(self, method: str, params: Json) -> Json:
        """Any request of the protocol. Raises RequestFailed, Disconnected."""
        # An answer may stand behind output that nobody takes: while one is waited for, all is read.
        self._calls += 1
        self.queued(0)
        try:
            return await self._connection.call(method, params)
        finally:
            self._calls -= 1
            self.queued(0)

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | None = INHERIT_ALL,
        tty: tuple[int, int] | None = None,
        stdin: bool = False,
    ) -> RemoteProcess:
        """Starts a command.

        `env` goes on top of what `policy` lets through; with `policy=None` it is the whole environment.
        `tty` gives it a terminal of that many rows and columns, `stdin` a writable input.
        """
        process = RemoteProcess(self, f"{os.getpid()}-{next(self._names)}")
        # Registered first: output may overtake the answer.
        self._processes[process.process_id] = process
        params = StartParams(
            process.process_id,
            list(argv),
            _here(cwd),
            dict(env or {}),
            tty is not None,
            policy,
            stdin,
            size=None if tty is None else TerminalSize(*tty),
        )
        try:
            await self.call("process/start", params.encode())
        except OutfitterError:
            self._processes.pop(process.process_id, None)
            raise
        except BaseException:
            # Given up while the answer was under way: it may have started.
            await asyncio.shield(self._abandon(process))
            raise
        return process

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | None = INHERIT_ALL,
        timeout: float | None = None,  # noqa: ASYNC109 - it also ends the command
    ) -> Completed:
        """Runs a command to its end and collects its output.

        A command that is not wanted any more (cancelled, `timeout` with TimeoutError) is terminated.
        """
        process = await self.start(argv, cwd=cwd, env=env, policy=policy)
        parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        try:
            async with asyncio.timeout(timeout):
                async for event in process:
                    if isinstance(event, Output):
                        parts[event.stream].append(event.data)
        except BaseException:
            await asyncio.shield(self._abandon(process))
            raise
        assert process.exit_code is not None
        return Completed(process.exit_code, b"".join(parts["stdout"]), b"".join(parts["stderr"]))

    async def _abandon(self, process: RemoteProcess) -> None:
        process.abandon()
        try:
            await process.terminate()
        except OutfitterError:
            pass  # the connection is gone, and with it the session

    async def explain(
        self,
        *,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | None = INHERIT_ALL,
        tty: bool = False,
    ) -> list[Json]:
        """Every variable a command would see or lose, with origin and rule; never a value."""
        params = ExplainParams(dict(env or {}), policy, tty).encode()
        result = await self.call("environment/explain", params)
        variables: list[Json] = result["variables"]
        return variables

    def close(self) -> None:
        self._connection.close()

    # Notices

    def _noticed(self, method: str, params: Json) -> None:
        process = self._processes.get(params.get("processId", "")) if isinstance(params, dict) else None
        if process is None:
            return
        event: Event | None = None
        if method == "process/output":
            event = Output(params["stream"], base64.decode(params["chunk"]))
        elif method == "process/exited":
            event = Exited(params["exitCode"])
        elif method != "process/closed":
            return
        process.receive(params["seq"], event)
        if process.closed:
            del self._processes[process.process_id]

    def _lost(self, error: Disconnected) -> None:
        for process in self._processes.values():
            process.fail(error)

    def queued(self, change: int) -> None:
        """Keeps count of output that waits for its reader; holds the connection back above the bound."""
        self._queued += change
        if self._held and (self._calls or self._queued <= _QUEUED_BYTES // 2):
            self._held = False
            self._connection.transport.resume_reading()
        elif not self._held and not self._calls and self._queued > _QUEUED_BYTES:
            self._held = True
            self._connection.transport.pause_reading()


def _here(path: str | None) -> uri.FileUri:
    return uri.parse(uri.from_path(os.path.abspath(path or ".")))
