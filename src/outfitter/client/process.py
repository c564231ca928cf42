"""A handle of a running command: ordered events, input, signals and the end.

The handle outlives connections: after a lost connection, its events continue where they stopped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..protocol import process as wire
from .arguments import milliseconds, octets, signal_name, terminal_size
from .reader import OutputReader

if TYPE_CHECKING:
    from ..protocol.documents import EnvironmentSummary, StartupReport
    from .feed import Events, ProcessFeed
    from .session import RemoteSession

# Input goes in pieces of this size, one at a time: the server holds as much of a slow command's input.
_PIECE = 1 << 20


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
    def pid(self) -> int | None:
        """Its process id on the executor; None if the server does not say."""
        return self._feed.pid

    @property
    def exit_code(self) -> int | None:
        """Known once the command has ended."""
        return self._feed.exit_code

    @property
    def reason(self) -> str | None:
        """ "out-of-memory" if the kernel has ended the command for that, as far as the server knows."""
        return self._feed.reason

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
    """A started command. Iterate over it to get its events, in order, until it closes.

        async with client.start(["make"]) as process:  # ended with the block, if it still runs then
            async for event in process:
                if isinstance(event, outfitter.Output):
                    print(event.stream, event.data)

    An `anext` on `aiter(process)` that is cancelled, as by `asyncio.timeout`, loses nothing.
    """

    tty: bool
    """Whether it has a terminal: known of a command that this client started."""
    stdout: OutputReader
    """What it prints, to be read by lines; with a terminal, all of it."""
    stderr: OutputReader
    """The same for its standard error."""

    def __init__(self, session: RemoteSession, feed: ProcessFeed, *, tty: bool = False) -> None:
        self._session = session
        self._feed = feed
        self.tty = tty
        self.stdout = OutputReader(feed, "pty" if tty else "stdout")
        self.stderr = OutputReader(feed, "stderr")
        self._next_write = 1
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> RemoteProcess:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._feed.kept:
            return
        if self.closed:
            if kind is not None:
                self.discard()  # whoever keeps the error keeps us, and what waits would hold the others up
            return
        if kind is not None:
            self.end()
            return
        try:
            await self.terminate()
        except BaseException:
            self.end()  # given up while it waits for an answer, or a connection: nobody else would end it
            raise
        self.discard()

    # Events

    def __aiter__(self) -> Events:
        return self._feed.events()

    async def wait(self) -> int:
        """Waits for the end and returns the exit code.

            process = await client.start(["make", "nightly"])
            print(await process.wait())  # 0

        Output is discarded unless another task iterates over it, or reads `stdout` or `stderr`. Raises the
        same errors as iterating.
        """
        return await self._feed.wait()

    def discard(self) -> None:
        """Drops output that waits or is still to come, so that it does not slow the command down.

            async with client.start(["make", "nightly"]) as process:
                process.discard()
                print(await process.wait())  # 0

        Iterating then gives the exit and no more output.
        """
        self._feed.discard()

    # Control

    async def write(self, data: bytes | str) -> str:
        """Sends input; returns the server's status ("accepted", "stdinClosed", "unknownProcess", ...).

            async with client.start(["sh", "-c", "read name; echo hello $name"], stdin=True) as process:
                await process.write("world" + chr(10))
                print((await process.stdout.readline()).decode().strip())  # hello world

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
        """Closes stdin; on a terminal, types Ctrl-D.

            async with client.start(["cat"], stdin=True) as process:
                await process.write("all of it")
                await process.close_stdin()
                print(await process.stdout.read())  # b'all of it'

        Returns the server's status, as `write` does. Raises CapabilityMissing if the server cannot do it.
        """
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
        told = await self._session.ask(wire.WriteResult, "process/write", params, repeat=True)
        if told.status != "accepted":
            self._session.check_open()  # else the command has not closed its input: we have ended it
        return told.status

    async def interrupt(self) -> None:
        """Sends SIGINT, like Ctrl-C.

            async with client.start(["sleep", "60"]) as process:
                await process.interrupt()
                print(await process.wait())  # 130

        Raises Disconnected if it may not have arrived.
        """
        await self._session.call("process/signal", wire.SignalParams(self.process_id).encode())

    async def signal(self, signal: str | int) -> None:
        """Sends a signal to the command's process group, or to the job in the foreground of its terminal.

            async with client.start(["sleep", "60"]) as process:
                await process.signal("TERM")
                print(await process.wait())  # 143

        `signal` is a name with or without "SIG", or a number. Raises CapabilityMissing if the server knows
        no other signal than INT, and Disconnected if it may not have arrived.
        """
        name = signal_name(signal)
        if name == "INT":
            await self.interrupt()
            return
        self._session.require("processSignals", f"send SIG{name}")
        await self._session.call("process/signal", wire.SignalParams(self.process_id, name).encode())

    async def terminate(self, grace: float = 0.0) -> bool:
        """Ends the command and everything it started; returns True if it was still running.

            process = await client.start(["sleep", "60"])
            print(await process.terminate(grace=5))  # True

        With `grace`, the command first gets SIGTERM and that many seconds to end by itself, if the server
        supports it.
        """
        grace_ms = milliseconds("grace", grace)
        offered = self._session.offers("processTerminateGrace")
        params = wire.TerminateParams(self.process_id, grace_ms if offered else 0)
        # Sent again after a break, unlike the reference's client: it ends the same process or none.
        result = await self._session.ask(wire.TerminateResult, "process/terminate", params, repeat=True)
        return result.running

    async def resize(self, rows: int, cols: int) -> None:
        """Sets the size of the command's terminal.

            async with client.start(["sleep", "60"], tty=(24, 80)) as process:
                await process.resize(50, 120)

        Raises CapabilityMissing if the server cannot do it.
        """
        self._session.require("processResize", "resize a terminal")
        size = wire.TerminalSize(*terminal_size(rows, cols))
        params = wire.ResizeParams(self.process_id, size).encode()
        await self._session.call("process/resize", params)

    def end(self) -> None:
        """Ends the command and everything it started, in the background, and discards its output.

            process = await client.start(["sleep", "60"])
            process.end()

        Without a connection, it is ended after the recovery.
        """
        self._feed.end()

    def keep(self) -> None:
        """Leaves the command running when the client closes, for as long as the server keeps the session.

            process = await client.start(["make", "nightly"])
            process.keep()

        `resume` of `connect` finds it again. `start(..., detach=True)` keeps a command to its end.
        """
        self._feed.kept = True
        self._session.leaves = False  # its output can be read until the server forgets it
