"""A handle of a running command: ordered events, input, signals and the end.

The handle outlives connections: after a lost connection, its events continue where they stopped.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING

from ..core.events import CLOSED, Closed, EventOrder, Exited, Missed, Output
from ..errors import InvalidParams, Malformed, OutfitterError, OutputLost, RequestFailed
from ..protocol import process as wire
from ..protocol.environment import WaitingNotice
from ..protocol.network import DecisionNotice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from ..core.events import Event
    from ..protocol.documents import EnvironmentSummary, StartupReport
    from ..protocol.notices import ProcessNotice
    from .connection import ClientConnection
    from .session import Decide, RemoteSession

# Input goes in pieces of this size, one at a time: the server holds as much of a slow command's input.
_PIECE = 1 << 20
# A process that says nothing is asked after one look at it, then after 2, 4, 8, ... so many: five minutes.
_LONGEST_QUIET = 32


def octets(data: bytes | str) -> bytes:
    """Input as a command reads it: text becomes UTF-8. Raises TypeError."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a command's input is bytes or text, not {type(data).__name__}")


class ProcessState:
    """What is known of a command, in both kinds of clients: as its feed has it now."""

    _feed: ProcessFeed

    def __repr__(self) -> str:
        return f"<RemoteProcess {self.process_id}>"

    @property
    def process_id(self) -> str:
        """Its name within the session."""
        return self._feed.process_id

    @property
    def exit_code(self) -> int | None:
        """Known once the command has ended."""
        return self._feed.exit_code

    @property
    def sandbox_denied(self) -> bool | None:
        """Whether the sandbox interfered, once that is known."""
        return self._feed.sandbox_denied

    @property
    def environment(self) -> EnvironmentSummary | None:
        """The server's summary of its environment, if the client asked for summaries."""
        return self._feed.environment

    @property
    def warnings(self) -> list[str]:
        """What is wrong with its environment, in the server's words."""
        return self._feed.warnings

    @property
    def startup(self) -> StartupReport | None:
        """What a shell's startup files did, after its exit, if the client asked for summaries."""
        return self._feed.startup

    @property
    def missed(self) -> int:
        """How many events the server had dropped before this client attached to the process."""
        return self._feed.missed

    @property
    def closed(self) -> bool:
        """Whether every event has been delivered."""
        return self._feed.closed


class RemoteProcess(ProcessState):
    """A started command. Iterate over it to get its events, in order, until it closes."""

    tty: bool
    """Whether it has a terminal: known of a command that this client started."""

    def __init__(self, session: RemoteSession, feed: ProcessFeed, *, tty: bool = False) -> None:
        self._session = session
        self._feed = feed
        self.tty = tty
        self._next_write = 1
        self._writing = asyncio.Lock()

    # Events

    def __aiter__(self) -> AsyncGenerator[Output | Exited, None]:
        return self._feed.events()

    async def wait(self) -> int:
        """Waits for the end and returns the exit code.

        Output is discarded unless another task iterates over it. Raises the same errors as iterating.
        """
        return await self._feed.wait()

    def discard(self) -> None:
        """Drops output that waits or is still to come, so that it does not slow the command down."""
        self._feed.abandon()

    # Control

    async def write(self, data: bytes | str) -> str:
        """Sends input; returns the server's status ("accepted", "stdinClosed", "unknownProcess", ...).

        Text is sent as UTF-8. Large input is sent in pieces, and the call waits for a command that reads
        slowly.
        """
        data = octets(data)
        async with self._writing:
            status = await self._write(data[:_PIECE], eof=False)
            for place in range(_PIECE, len(data), _PIECE):
                if status != "accepted":
                    break
                status = await self._write(data[place : place + _PIECE], eof=False)
            return status

    async def close_stdin(self) -> str:
        """Closes stdin; on a terminal, types Ctrl-D. Raises CapabilityMissing if the server cannot do it."""
        async with self._writing:
            if self.tty and not self._session.offers("processStdinEof"):
                return await self._write(b"\x04", eof=False)
            self._session.require("processStdinEof", "end a command's input")
            return await self._write(b"", eof=True)

    async def _write(self, data: bytes, *, eof: bool) -> str:
        write_id = f"{self._feed.write_prefix}{self._next_write}"
        self._next_write += 1
        params = wire.WriteParams(self.process_id, data, write_id, eof)
        # Sent again after a break: the server knows the id and applies it once.
        return (await self._session.ask(wire.WriteResult, "process/write", params, repeat=True)).status

    async def interrupt(self) -> None:
        """Sends SIGINT, like Ctrl-C. Raises Disconnected if it may not have arrived."""
        await self._session.call("process/signal", wire.SignalParams(self.process_id).encode())

    async def terminate(self, grace: float = 0.0) -> bool:
        """Ends the command and everything it started; returns True if it was still running.

        With `grace`, the command first gets SIGTERM and that many seconds to end by itself, if the server
        supports it.
        """
        offered = self._session.offers("processTerminateGrace")
        params = wire.TerminateParams(self.process_id, int(grace * 1000) if offered else 0)
        # Sent again after a break, unlike the reference's client: it ends the same process or none.
        result = await self._session.ask(wire.TerminateResult, "process/terminate", params, repeat=True)
        return result.running

    async def resize(self, rows: int, cols: int) -> None:
        """Sets the size of the command's terminal. Raises CapabilityMissing if the server cannot do it."""
        self._session.require("processResize", "resize a terminal")
        params = wire.ResizeParams(self.process_id, wire.TerminalSize(rows, cols)).encode()
        await self._session.call("process/resize", params)

    def end(self) -> None:
        """Ends the command and everything it started, in the background, and discards its output.

        Without a connection, it is ended after the recovery.
        """
        self._feed.end()

    def keep(self) -> None:
        """Leaves the command running when the client closes, for as long as the server keeps the session."""
        self._feed.kept = True
        self._session.leaves = False  # its output can be read until the server forgets it


class ProcessFeed:
    """What the session tells of a process: its events in order, each once, across connections."""

    def __init__(
        self, session: RemoteSession, process_id: str, on_waiting: Callable[[str], object] | None = None
    ) -> None:
        self.process_id = process_id
        self.exit_code: int | None = None
        self.sandbox_denied: bool | None = None
        self.environment: EnvironmentSummary | None = None
        self.warnings: list[str] = []
        self.startup: StartupReport | None = None
        self.missed = 0
        self.started = False  # the server has said so; before that its output is not asked for again
        self.kept = False  # left running when the client is closed
        self.closed = False
        self.queue: deque[Output | Exited] = deque()
        self.write_prefix = ""
        self._session = session
        self._on_waiting = on_waiting
        self.on_network: Callable[[DecisionNotice], object] | None = None
        self.decide: Decide | None = None
        self._order = EventOrder()
        self._queued = 0
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._readers = 0
        self._abandoned = False
        self._heard = -1  # the newest event at the last look
        self._quiet = self._patience = 1
        self._reading = 0  # reads of what was missed that are under way: an early event is no news then

    @property
    def over(self) -> bool:
        """Whether no more events will come, for whatever reason."""
        return self.closed or self._failure is not None

    # For the caller

    async def events(self) -> AsyncGenerator[Output | Exited, None]:
        self._readers += 1
        try:
            while True:
                while self.queue:
                    event = self.queue.popleft()
                    if isinstance(event, Output):
                        self._queued -= len(event.data)
                        self._session.queued(-len(event.data))
                    yield event
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                if self.closed:
                    break
                self._news.clear()
                await self._news.wait()
        finally:
            self._readers -= 1
            self._news.set()  # whoever waits for the end takes over
        if self.sandbox_denied is None:
            await self._ask_denied()

    async def wait(self) -> int:
        while self._readers and not self.over:
            self._news.clear()
            await self._news.wait()
        if self._readers == 0:
            async for _ in self.events():
                pass
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        assert self.exit_code is not None
        return self.exit_code

    async def _ask_denied(self) -> None:
        """A server that did not say whether its sandbox interfered is asked, once."""
        self.sandbox_denied = False
        try:
            self.sandbox_denied = (await self._read()).sandbox_denied
        except OutfitterError:
            pass  # the command has ended all the same

    def abandon(self) -> None:
        """Nobody will read this output: what is queued goes, and what comes is not kept."""
        self._abandoned = True
        self.queue.clear()
        self._session.queued(-self._queued)
        self._queued = 0

    def end(self) -> None:
        """Nobody wants the command any more: it is ended in the background."""
        self.abandon()
        self._session.end(self.process_id)

    # From the session

    def receive(self, notice: ProcessNotice) -> None:
        if isinstance(notice, WaitingNotice):
            if self._on_waiting is not None:
                self._on_waiting(notice.what)
            return
        if isinstance(notice, DecisionNotice):
            if self.on_network is not None:
                self.on_network(notice)
            return
        event: Event = CLOSED
        if isinstance(notice, wire.OutputNotice):
            event = Output(notice.stream, notice.data)
        elif isinstance(notice, wire.ExitedNotice):
            event = Exited(notice.exit_code, notice.sandbox_denied)
            if notice.environment is not None:
                self.startup = notice.environment
        if self.over:
            return
        try:
            self._deliver(self._order.receive(notice.seq, event))
        except OutputLost as error:
            self._give_up(error)
        self._mind_the_gap()

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Closed):
                self.closed = True
                continue
            if isinstance(event, Exited):
                self.exit_code = event.code
                self.sandbox_denied = event.sandbox_denied
            elif self._abandoned:
                continue
            else:
                self._queued += len(event.data)
                self._session.queued(len(event.data))
            self.queue.append(event)
        if events:
            self._news.set()

    def _give_up(self, error: OutfitterError) -> None:
        """Its output has a hole: nobody can use the rest."""
        self.fail(error)
        self._session.end(self.process_id)

    def fail(self, error: Exception) -> None:
        """No more events will come."""
        if not self.over:
            self._failure = error
            self._news.set()

    # Making up for what was missed

    async def _read(self) -> wire.ReadResult:
        return await self._session.ask(wire.ReadResult, "process/read", self._missed_params(), repeat=True)

    def _missed_params(self) -> wire.ReadParams:
        return wire.ReadParams(self.process_id, self._order.last)

    async def catch_up(self, connection: ClientConnection) -> None:
        """Reads what happened while there was no connection. Raises Disconnected only.

        What the server cannot give any more fails this process and no other.
        """
        self._reading += 1
        try:
            answer = await connection.call("process/read", self._missed_params().encode())
            self._take(wire.ReadResult.decode(answer))
        except (RequestFailed, InvalidParams) as error:
            self._cannot_follow(error)
        finally:
            self._reading -= 1
        self._mind_the_gap()

    def _mind_the_gap(self) -> None:
        """An event is missing on a connection that is whole: it is read once, and not waited for."""
        if self._order.has_gap and not self._reading and not self.over:
            self._reading += 1
            self._session.mend(self)

    def is_quiet(self) -> bool:
        """Whether it is time to ask, because nothing was heard for some looks; then `mend` follows."""
        if self.over or not self.started or self._reading:
            return False
        if self._order.last != self._heard:
            self._heard = self._order.last
            self._quiet = self._patience = 1
            return False
        self._patience -= 1
        if self._patience:
            return False
        self._quiet = self._patience = min(2 * self._quiet, _LONGEST_QUIET)
        self._reading += 1
        return True

    async def mend(self) -> None:
        """Reads what was not pushed, once, and until no event waits for an earlier one."""
        try:
            last = -1
            while not self.over and self._order.last > last:
                last = self._order.last
                self._take(await self._read())
                if not self._order.has_gap:
                    break
        except (RequestFailed, Malformed) as error:
            self._cannot_follow(error)
        except OutfitterError:
            pass  # the connection is gone for good, and with it the process: the session says so
        finally:
            self._reading -= 1

    def _take(self, result: wire.ReadResult) -> None:
        if self.over:
            return
        try:
            if result.failure is not None:
                raise OutputLost(result.failure)
            self._deliver(self._order.merge(_missed(result)))
        except OutputLost as error:
            self._give_up(error)

    def _cannot_follow(self, error: OutfitterError) -> None:
        self.fail(OutputLost(f"process {self.process_id} can no longer be followed: {error}"))

    async def follow(self, after: int) -> None:
        """Attaches to a process that is running already. Raises RequestFailed, ConnectionLost."""
        self._order.skip_to(after + 1)
        self._reading += 1
        result = await self._read()
        # Only the oldest output is ever dropped: what is retained has no hole but that of the exit.
        end = result.next_seq - int(result.closed)
        first = min((seq for seq, _, _ in result.chunks), default=end)
        exit_before = result.exited and end - first == len(result.chunks)
        start = max(after + 1, first - int(exit_before))
        self._order.skip_to(start)
        self.started = True
        # The server takes each write id once, and whoever held the process before has used some.
        self.write_prefix = f"{secrets.token_hex(6)}-"
        self._deliver(self._order.merge(_missed(result)))
        self.missed = start - after - 1
        if result.exited and self.exit_code is None:  # the exit was not after `after`
            self._order.exit_known = True
            self.exit_code, self.sandbox_denied = result.exit_code, result.sandbox_denied
        self.closed = self.closed or result.closed
        self._reading -= 1
        self._mind_the_gap()


def _missed(result: wire.ReadResult) -> Missed:
    chunks = [(seq, Output(stream, data)) for seq, stream, data in result.chunks]
    return Missed(
        chunks, result.next_seq, result.exited, result.exit_code, result.closed, result.sandbox_denied
    )
