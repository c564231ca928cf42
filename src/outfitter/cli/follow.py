"""A command in front of a person or a pipe: its output here, our input there, Ctrl-C, its exit status.

Shared by `run`, which started it, and `attach`, which found it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from ..core.events import Exited, Output
from ..errors import CapabilityMissing, OutfitterError
from . import terminal
from .console import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..client.client import Client
    from ..client.process import RemoteProcess

TIMED_OUT, NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND, READER_GONE = 124, 125, 126, 127, 141
INTERRUPTED = 128 + signal.SIGINT


class LeftRunning(Exception):
    """We go, the command stays: our terminal was closed, or somebody gave up waiting for its server."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Follower:
    """Follows one command to its end.

    `pass_input` gives it our standard input; with `may_leave` it outlives a closed terminal.
    """

    def __init__(
        self,
        client: Client,
        process: RemoteProcess,
        name: str,
        *,
        pass_input: bool,
        may_leave: bool,
        as_json: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._client = client
        self._process = process
        self._name = name
        self._pass_input = pass_input
        self._may_leave = may_leave
        self._json = as_json
        self._timeout = timeout
        self._presses = 0
        self._tasks: set[asyncio.Task[object]] = set()
        self._stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """The exit status of the command line. Raises LeftRunning."""
        loop = asyncio.get_running_loop()
        handlers: dict[int, Callable[[], None]] = {
            signal.SIGINT: self._interrupted,
            signal.SIGTERM: lambda: self._told_to_end(signal.SIGTERM),
            signal.SIGHUP: lambda: self._told_to_end(signal.SIGHUP),
        }
        if self._process.tty:
            handlers[signal.SIGWINCH] = self._resized
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            if self._process.tty and self._pass_input:
                with terminal.raw():
                    return await self._follow()
            return await self._follow()
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self) -> int:
        streaming = asyncio.ensure_future(self._stream())
        feeding = asyncio.ensure_future(self._feed()) if self._pass_input else None
        try:
            done, _ = await asyncio.wait(
                [streaming, self._stopped], timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                await self._process.terminate()
                say(f"{self._name} was ended after {self._timeout:g} s")
                return TIMED_OUT
            return self._stopped.result() if self._stopped in done else streaming.result()
        finally:
            for task in (streaming, feeding):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    # Out

    async def _stream(self) -> int:
        try:
            async for event in self._process:
                if self._json:
                    _print_json(event)
                elif isinstance(event, Output) and not _pass_on(event):
                    # Our reader has gone (`| head`): end as a filter would that is told so by a signal.
                    await self._process.terminate()
                    return READER_GONE
        except OutfitterError as error:
            say(str(error))
            return NOT_STARTED
        assert self._process.exit_code is not None
        return self._process.exit_code

    # In

    async def _feed(self) -> None:
        """Passes our standard input on, to its end or the command's."""
        try:
            async for data in terminal.standard_input():
                if self._process.tty and terminal.INTERRUPT in data and self._client.state == "recovering":
                    self._leave(INTERRUPTED, "gave up waiting for the server")
                    return
                if await self._process.write(data) != "accepted":
                    return
            await self._process.close_stdin()
        except CapabilityMissing:
            say("this server cannot be told that the input has ended; the command may wait for more")
        except OutfitterError:
            pass  # the command is gone, which the stream of its output reports

    # Signals

    def _interrupted(self) -> None:
        """The first Ctrl-C interrupts the command, the second ends it, the third stops waiting for that."""
        self._presses += 1
        if self._presses == 1:
            self._spawn(self._process.interrupt())
        elif self._presses == 2:
            self._spawn(self._process.terminate())
        else:
            self._leave(INTERRUPTED, "gave up waiting for the server")

    def _told_to_end(self, number: int) -> None:
        if number == signal.SIGHUP and self._may_leave:
            self._leave(128 + number, "the terminal was closed")
        else:
            self._spawn(self._end(128 + number))

    async def _end(self, status: int) -> None:
        try:
            await self._process.terminate()
        finally:
            if not self._stopped.done():
                self._stopped.set_result(status)

    def _leave(self, status: int, why: str) -> None:
        if not self._stopped.done():
            self._stopped.set_exception(LeftRunning(status, why))

    def _resized(self) -> None:
        if self._client.offers("processResize"):
            self._spawn(self._process.resize(*terminal.size()))

    def _spawn(self, action: Coroutine[object, object, object]) -> None:
        async def quietly() -> object:
            try:
                return await action
            except OutfitterError:
                return None  # the command is gone, or its server; the stream of its output reports it

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pass_on(event: Output) -> bool:
    """Writes output to where it belongs; False when nobody reads it any more."""
    target = sys.stderr if event.stream == "stderr" else sys.stdout
    try:
        target.buffer.write(event.data)
        target.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and must find an open descriptor.
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
        return False
    return True


def _print_json(event: Output | Exited) -> None:
    from json import dumps

    if isinstance(event, Output):
        line: dict[str, object] = {
            "event": "output",
            "stream": event.stream,
            "text": event.data.decode("utf-8", "replace"),
        }
    else:
        line = {"event": "exited", "exitCode": event.code}
    print(dumps(line), flush=True)
