"""A command in front of a person or a pipe: its output here, our input there, Ctrl-C, its exit status.

Shared by `run`, which started it, and `attach`, which found it.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import signal
from json import dumps
from typing import TYPE_CHECKING

from ..core.events import Exited, Output
from ..errors import CapabilityMissing, Disconnected, OutfitterError
from ..protocol.base64 import encode_text
from . import terminal
from .console import make_way, say
from .detachkeys import DetachKeys
from .statuses import INTERRUPTED, NOT_STARTED, READER_GONE, TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..client.client import Client
    from ..client.process import RemoteProcess
    from .quickfollow import QuickRun

_END_SECONDS = 2.0  # for a server to say that it has ended a command
_SILENT_SECONDS = 2.0  # after which a server that has not answered may be given up with Ctrl-C, or is left
# What is read before the server has taken the earlier: keys, so that a Ctrl-C among them is seen; else a
# little, so that one piece is under way while the next is read.
_KEYS_AHEAD = 4096
_PIECES_AHEAD = 2


class LeftRunning(Exception):
    """We go, the command stays: somebody wants it so, our terminal was closed, or its server is silent."""

    def __init__(self, status: int, why: str, *, silent: bool = False, wanted: bool = False) -> None:
        super().__init__(why)
        self.status = status
        self.silent = silent  # its server does not answer, and will not say goodbye either
        self.wanted = wanted  # and the command goes on for all we know


def status_of(work: Callable[[], Coroutine[object, object, int]], failed: int) -> int:
    """The exit status of a command line; `failed` if it ends with an error, which is told."""
    try:
        return asyncio.run(work())
    except LeftRunning as left:
        return left.status
    except KeyboardInterrupt:  # before there was a command to interrupt
        return INTERRUPTED
    except OutfitterError as error:
        say(str(error))
        return failed


class Follower:
    """Follows one command to its end.

    `pass_input` gives it our standard input; with `may_leave` it outlives a closed terminal, and
    `leave_keys`, typed at ours, leave it; with `found` it was there before us and outlives a SIGTERM as well.
    """

    def __init__(
        self,
        client: Client,
        process: RemoteProcess,
        name: str,
        *,
        pass_input: bool,
        may_leave: bool,
        found: bool = False,
        leave_keys: bytes = b"",
        as_json: bool = False,
        timeout: float | None = None,
        heard: Callable[[Output | Exited], object] | None = None,
        begun: QuickRun | None = None,
    ) -> None:
        """`begun` has followed it so far."""
        self._begun = begun
        self._client = client
        self._process = process
        self._name = name
        self._pass_input = pass_input
        self._may_leave = may_leave
        self._found = found
        watched = may_leave and process.tty and terminal.is_terminal()
        self._leave_keys = DetachKeys(leave_keys if watched else b"")
        self._json = as_json
        self._timeout = timeout
        self._heard = heard  # told of every event
        self.lost = False  # its end was not seen: it may still run
        self._presses = 0 if begun is None else begun.presses
        self._left: LeftRunning | None = None  # somebody has typed the keys for it
        self._raw_again: Callable[[], None] | None = None
        self._writing_since: float | None = None
        self._json_lines = _JsonLines()
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
            handlers[signal.SIGCONT] = self._continued
        # What we were told to ignore stays ignored: SIGHUP under nohup, SIGINT in a background job.
        handlers = {n: h for n, h in handlers.items() if signal.getsignal(n) is not signal.SIG_IGN}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        for number in () if self._begun is None else self._begun.unheard:
            handlers[number]()
        if self._process.tty:
            # Ours may have changed since it was told, or be another one now.
            self._resized()
        try:
            if self._process.tty and self._pass_input:
                with terminal.raw() as self._raw_again:
                    return await self._follow()
            return await self._follow()
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if not self._stopped.cancel():
                self._stopped.exception()  # looked at, it is not complained about

    async def _follow(self) -> int:
        begun, time_left = self._begun, self._timeout
        if begun is not None:
            if begun.ending is not None:
                return await self._end_as(*begun.ending)
            if time_left is not None:
                time_left = max(0.0, time_left - (begun.loop.time() - begun.began))
        streaming = asyncio.ensure_future(self._stream())
        feeding = asyncio.ensure_future(self._feed()) if self._pass_input else None
        try:
            done, _ = await asyncio.wait(
                [streaming, self._stopped], timeout=time_left, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return await self._end_as(TIMED_OUT, f"{self._name} was ended after {self._timeout:g} s")
            return self._stopped.result() if self._stopped in done else streaming.result()
        finally:
            for task in (streaming, feeding):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def _end_as(self, status: int, text: str) -> int:
        await self._end(status)
        if text:
            say(text)
        return status

    # Out

    async def _stream(self) -> int:
        for fd, data in () if self._begun is None else self._begun.shown:
            try:
                await terminal.write(fd, data)
            except OSError as error:
                return await self._cannot_show(error)
        if self._json:
            told = self._process.environment
            for layer in () if told is None else told["layers"]:
                if "said" in layer:
                    await terminal.write(1, _line({"event": "provider", **layer}))
        try:
            async for event in self._process:
                if self._heard is not None:
                    self._heard(event)
                try:
                    await self._show(event)
                except OSError as error:
                    return await self._cannot_show(error)
        except OutfitterError as error:
            say(str(error))
            self.lost = True
            return NOT_STARTED
        if self._json:
            try:
                await terminal.write(1, self._json_lines.rest())
            except OSError:
                pass  # the reader did not wait for the end of a torn character
        assert self._process.exit_code is not None
        return self._process.exit_code

    async def _show(self, event: Output | Exited) -> None:
        fd = 1
        if self._json:
            data = self._json_lines.line(event)
        elif isinstance(event, Output):
            data = event.data
            fd = 2 if event.stream == "stderr" else 1
        else:
            return
        if data and os.isatty(fd):
            make_way(data)
        await terminal.write(fd, data)

    async def _cannot_show(self, error: OSError) -> int:
        if error.errno == errno.EPIPE:
            # Our reader has gone (`| head`): end as a filter would that is told so by a signal.
            return await self._end(READER_GONE)
        if error.errno == errno.EIO:
            # The terminal is gone; the signal that says so is on its way, unless we ignore it.
            self._told_to_end(signal.SIGHUP)
            return await asyncio.shield(self._stopped)
        say(f"cannot write the output: {error.strerror}")
        return await self._end(NOT_STARTED)

    # In

    async def _feed(self) -> None:
        """Passes our standard input on, to its end or the command's."""
        ahead = _KEYS_AHEAD if self._process.tty else _PIECES_AHEAD
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(ahead)
        reading = asyncio.ensure_future(self._read(pieces))
        loop = asyncio.get_running_loop()
        last = b""
        try:
            if self._begun is not None and not await self._feed_again(self._begun.in_flight):
                return
            while data := await _waiting(pieces):
                self._writing_since = loop.time()
                if await self._process.write(data) != "accepted":
                    return
                self._writing_since = None
                if self._process.tty:
                    self._presses = 0
                last = data[-1:]
            if self._left is not None:
                self._leave(self._left)
                return
            if self._process.tty and last not in (b"", *terminal.LINE_ENDS):
                # Only passes the unfinished line on: the end is a Ctrl-D where no line has begun.
                await self._process.write(terminal.END)
            await self._process.close_stdin()
        except CapabilityMissing:
            say("this server does not support the end of input: the command may wait for more")
        except OutfitterError:
            pass  # the command is gone, which the stream of its output reports
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _feed_again(self, data: bytes | None) -> bool:
        """Sends what may not have arrived, which the server takes once; False if there is no more to send."""
        if data is None:
            return True
        if not data:
            await self._process.close_stdin()
            return False
        return await self._process.write(data) == "accepted"

    async def _read(self, pieces: asyncio.Queue[bytes | None]) -> None:
        async for data in terminal.standard_input():
            if self._process.tty and terminal.INTERRUPT in data:
                self._typed_interrupt(data.count(terminal.INTERRUPT))
            data, leave = self._leave_keys.feed(data)
            if data:
                await pieces.put(data)
            if leave:
                self._left = LeftRunning(0, "detached", wanted=True)
                # What was typed before goes first, unless the server does not take it.
                asyncio.get_running_loop().call_later(_SILENT_SECONDS, self._leave, self._left)
                break
        if held := self._leave_keys.rest():
            await pieces.put(held)
        await pieces.put(None)

    def _typed_interrupt(self, times: int) -> None:
        """In raw mode Ctrl-C is for the far terminal. When nobody answers there it is for us."""
        self._presses += times
        since = self._writing_since
        silent = since is not None and asyncio.get_running_loop().time() - since >= _SILENT_SECONDS
        if self._client.state == "recovering" or (silent and self._presses > 2):
            self._give_up()

    # Signals

    def _interrupted(self) -> None:
        """The first Ctrl-C interrupts the command, the second ends it, the third stops waiting for that."""
        self._presses += 1
        if self._presses == 1:
            self._spawn(self._process.interrupt())
        elif self._presses == 2:
            self._spawn(self._process.terminate())
        else:
            self._give_up()

    def _told_to_end(self, number: int) -> None:
        if number == signal.SIGHUP and self._may_leave:
            self._leave(LeftRunning(128 + number, "the terminal was closed"))
        elif self._found:
            # Who wants it to end says so with Ctrl-C or `outfitter kill`.
            self._leave(LeftRunning(128 + number, "detached by a signal", wanted=True))
        else:
            self._spawn(self._stop(128 + number))

    async def _stop(self, status: int) -> None:
        try:
            await self._end(status)
        except LeftRunning as left:
            self._leave(left)
        if not self._stopped.done():
            self._stopped.set_result(status)

    async def _end(self, status: int) -> int:
        """Ends the command; returns the status. Raises LeftRunning when its server does not say so."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.terminate()
        except TimeoutError:
            raise LeftRunning(status, "the server does not answer", silent=True) from None
        except OutfitterError as error:
            raise LeftRunning(status, str(error)) from None
        self._process.discard()  # else what nobody reads any more would hold up the goodbye
        return status

    def _give_up(self) -> None:
        self._leave(LeftRunning(INTERRUPTED, "gave up waiting for the server", silent=True))

    def _leave(self, left: LeftRunning) -> None:
        if not self._stopped.done():
            self._stopped.set_exception(left)

    def _continued(self) -> None:
        """After a stop, in which a shell had our terminal: it may have another mode and size now."""
        if self._raw_again is not None:
            self._raw_again()
        self._resized()

    def _resized(self) -> None:
        if self._client.offers("processResize"):
            self._spawn(self._resize())

    async def _resize(self) -> None:
        while True:
            try:
                await self._process.resize(*terminal.size())
                return
            except Disconnected:
                pass  # not known to have arrived: again, when the connection is back

    def _spawn(self, action: Coroutine[object, object, object]) -> None:
        async def quietly() -> object:
            try:
                return await action
            except OutfitterError:
                return None  # the command is gone, or its server; the stream of its output reports it

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _waiting(pieces: asyncio.Queue[bytes | None]) -> bytes:
    """All that was read meanwhile: one by one, each key would take a round trip. b"" at the end."""
    found = [await pieces.get()]
    while not pieces.empty() and found[-1] is not None:
        found.append(pieces.get_nowait())
    if found[-1] is None and len(found) > 1:
        pieces.put_nowait(found.pop())  # for the next time
    return b"".join(piece for piece in found if piece is not None)


class _JsonLines:
    """Events as lines of JSON. A character whose bytes come in two pieces is whole in the second.

    What is not UTF-8 is told in base64, so that no byte is lost.
    """

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    def line(self, event: Output | Exited) -> bytes:
        if isinstance(event, Exited):
            more = {} if event.reason is None else {"reason": event.reason}
            return _line({"event": "exited", "exitCode": event.code, **more})
        decoder = self._decoders.get(event.stream)
        if decoder is None:
            decoder = self._decoders[event.stream] = codecs.getincrementaldecoder("utf-8")()
        begun = decoder.getstate()[0]
        try:
            text = decoder.decode(event.data)
        except UnicodeDecodeError:
            decoder.reset()
            return _bytes(event.stream, begun + event.data)
        return _line({"event": "output", "stream": event.stream, "text": text}) if text else b""

    def rest(self) -> bytes:
        """What is left of characters that never became whole."""
        left = [(stream, one.getstate()[0]) for stream, one in self._decoders.items()]
        return b"".join(_bytes(stream, data) for stream, data in left if data)


def _bytes(stream: str, data: bytes) -> bytes:
    return _line({"event": "output", "stream": stream, "base64": encode_text(data)})


def _line(fields: dict[str, object]) -> bytes:
    return dumps(fields).encode() + b"\n"
