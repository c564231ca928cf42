"""A running command as its caller holds it: ordered events, input, signals, the end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ..errors import ConnectionLost, OutfitterError
from ..protocol.process import ResizeParams, SignalParams, TerminalSize, TerminateParams, WriteParams
from ..record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client import Client

# Events that came before an earlier one: the reference's client holds as many.
_EARLY_EVENTS = 256


class Output(Record):
    """A piece of output; `stream` is "stdout", "stderr" or "pty"."""

    __slots__ = ("data", "stream")

    def __init__(self, stream: str, data: bytes) -> None:
        self.stream = stream
        self.data = data


class Exited(Record):
    """The command ended. Output of its descendants may still follow."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


Event = Output | Exited


class RemoteProcess:
    """A started command. Iterate over it for its events, in order, up to its close."""

    def __init__(self, client: Client, process_id: str) -> None:
        self.process_id = process_id
        self.exit_code: int | None = None
        self._client = client
        self._events: deque[Event] = deque()
        self._queued = 0
        self._early: dict[int, Event | None] = {}
        self._next_seq = 1
        self._next_write = 1
        self._closed = False
        self._failure: OutfitterError | None = None
        self._news = asyncio.Event()
        self._abandoned = False

    @property
    def closed(self) -> bool:
        """Whether every event has come."""
        return self._closed

    # Events

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, Output):
                    self._taken(len(event.data))
                yield event
            if self._failure is not None:
                raise self._failure
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    async def wait(self) -> int:
        """Reads to the end, discarding what is left of the output; returns the exit code."""
        async for _ in self:
            pass
        assert self.exit_code is not None
        return self.exit_code

    def _taken(self, size: int) -> None:
        self._queued -= size
        self._client.queued(-size)

    def receive(self, seq: int, event: Event | None) -> None:
        """An event with its number; None is the close. Delivers in order, each once."""
        if seq < self._next_seq or seq in self._early:
            return
        self._early[seq] = event
        if len(self._early) > _EARLY_EVENTS:
            self.fail(ConnectionLost("events are missing that should have come before those received"))
            return
        while self._next_seq in self._early:
            ready = self._early.pop(self._next_seq)
            self._next_seq += 1
            if ready is None:
                self._closed = True
            else:
                if isinstance(ready, Exited):
                    self.exit_code = ready.code
                elif self._abandoned:
                    continue
                else:
                    self._queued += len(ready.data)
                    self._client.queued(len(ready.data))
                self._events.append(ready)
        self._news.set()

    def abandon(self) -> None:
        """Nobody will read this output: what is queued goes, and what comes is not kept."""
        self._abandoned = True
        self._events.clear()
        self._client.queued(-self._queued)
        self._queued = 0

    def fail(self, error: OutfitterError) -> None:
        """No more events will come."""
        if not self._closed and self._failure is None:
            self._failure = error
            self._news.set()

    # Control

    async def write(self, data: bytes) -> str:
        """Sends input; returns the server's status ("accepted", "stdinClosed", ...)."""
        return await self._write(data, eof=False)

    async def close_stdin(self) -> str:
        """Ends the input."""
        return await self._write(b"", eof=True)

    async def _write(self, data: bytes, *, eof: bool) -> str:
        write_id = str(self._next_write)
        self._next_write += 1
        params = WriteParams(self.process_id, data, write_id, eof).encode()
        result = await self._client.call("process/write", params)
        return str(result["status"])

    async def interrupt(self) -> None:
        """SIGINT, as Ctrl-C gives it."""
        await self._client.call("process/signal", SignalParams(self.process_id).encode())

    async def terminate(self, grace: float = 0.0) -> bool:
        """Ends the command and everything it started; True if it was still running."""
        params = TerminateParams(self.process_id, int(grace * 1000)).encode()
        result = await self._client.call("process/terminate", params)
        return bool(result.get("running"))

    async def resize(self, rows: int, cols: int) -> None:
        params = ResizeParams(self.process_id, TerminalSize(rows, cols)).encode()
        await self._client.call("process/resize", params)
