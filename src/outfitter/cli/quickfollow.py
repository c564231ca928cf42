"""A command of a plain `outfitter run`, from its start to its end, on our own loop: no asyncio, no click.

What is the same here (`quickrun`) and on a server (`quickon`): its output here, our input there, Ctrl-C, its
exit status. The same messages, signals and statuses as `cli.run` with `cli.follow`.
"""

from __future__ import annotations

import os
import select

from ..core.events import Exited
from ..errors import OutfitterError
from ..protocol import base64, jsonrpc, uri
from ..protocol.codes import METHOD_NOT_FOUND
from ..protocol.process import (
    SignalParams,
    StartParams,
    StartResult,
    TerminateParams,
    WriteParams,
    WriteResult,
)
from ..protocol.processnotices import ClosedNotice, ExitedNotice, OutputNotice
from ..protocol.wishes import WaitingNotice
from ..stdlib import SIG_IGN, deque, getsignal, signal
from .console import make_way, say
from .statuses import DENIED, INTERRUPTED, NOT_STARTED, READER_GONE, TIMED_OUT, not_started, say_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ..loop import EpollLoop
    from ..protocol.jsontext import Json
    from ..protocol.websocket import Payload
    from .wishes import Flags

    Answered = Callable[[jsonrpc.Reply], None]

    class Wire(Protocol):
        """What it needs of a transport."""

        def send(self, *messages: bytes) -> None: ...
        def pause_reading(self) -> None: ...
        def resume_reading(self) -> None: ...


SIGHUP, SIGINT, SIGTERM = 1, 2, 15
_EIO, _EPIPE = 5, 32
_READ_SIZE = 64 << 10
_WRITE_SIZE = select.PIPE_BUF  # what a pipe with any room takes without making us wait
BACKGROUND_SECONDS = 0.5  # until it is looked whether our terminal is ours again
_SETTLE_SECONDS = 0.8  # a command that takes longer is worth a search for garbage
_CHUNK = b',"chunk":"'
_CHUNK_WITHIN = 64  # of the number and the name of the stream, which are shorter


class QuickRun:
    """One command (a transport's Receiver)."""

    wire: Wire

    def __init__(self, loop: EpollLoop, argv: Sequence[str], flags: Flags, process_id: str) -> None:
        self.status: int | None = NOT_STARTED
        self.loop = loop
        self.argv = argv
        self.flags = flags
        self.process_id = process_id
        self.began = 0.0  # when it ran
        self.presses = 0  # of Ctrl-C
        self.unheard: list[int] = []  # signals that have come and are to be acted on
        self.shown: deque[tuple[int, bytes]] = deque()  # what our reader has not taken yet
        self.writes = 0
        self.in_flight: bytes | None = None  # input, or its end, that the server has not taken yet
        self.input_over = False
        self.exit: Exited | None = None
        self._head = f'{{"method":"process/output","params":{{"processId":"{process_id}","seq":'.encode()
        self._asked: dict[int | str, Answered] = {}
        self._calls = 0
        self._actions: dict[int, Callable[[], None]] = {}
        self._before: dict[int, Any] = {}  # what signals did before
        self._closed = False
        self.ending: tuple[int, str] | None = None  # with what; what the command says then is not shown
        self._stuck: int | None = None  # the descriptor whose reader is waited for

    def start(self, params: StartParams) -> None:
        self.call("process/start", params.encode(), self._started)

    def call(self, method: str, params: Json, answered: Answered) -> None:
        self._calls += 1
        self._asked[self._calls] = answered
        self.wire.send(jsonrpc.request(self._calls, method, params))

    def _started(self, reply: jsonrpc.Reply) -> None:
        if reply.error is not None:
            error = reply.error
            self.finish(not_started(self.argv[0], self.flags["cwd"], error["message"], error.get("data")))
            return
        for warning in StartResult.decode(reply.result).warnings:
            say(warning)
        self.began = self.loop.time()
        self._heed(SIGINT, self._interrupted)
        self._heed(SIGTERM, lambda: self.end(128 + SIGTERM))
        self._heed(SIGHUP, self._hung_up)
        if self.flags["timeout"] is not None:
            self.loop.call_later(self.flags["timeout"], self._late)
        self.loop.call_later(_SETTLE_SECONDS, settle)
        self._begun()

    def _begun(self) -> None:
        """It runs."""
        self._listen()

    def _heed(self, number: int, action: Callable[[], None]) -> None:
        def heard(*_: object) -> None:
            self.unheard.append(number)
            self.loop.call_soon_threadsafe(self._act)

        before = getsignal(number)
        if before != SIG_IGN:  # what we were told to ignore stays ignored
            if number not in self._actions:
                self._before[number] = before
            self._actions[number] = action
            signal(number, heard)

    def _heed_no_more(self, number: int) -> None:
        if self._actions.pop(number, None) is not None:
            signal(number, self._before[number])

    def _act(self) -> None:
        if self.unheard:
            self._actions[self.unheard.pop(0)]()

    def finish(self, status: int | None) -> None:
        self.status = status
        self.loop.stop()

    # From the server

    def message(self, data: Payload) -> None:
        assert isinstance(data, bytes)  # as they are here
        try:
            self._message(data)
        except OutfitterError as error:
            self._cannot_read(error)

    def _cannot_read(self, error: OutfitterError) -> None:
        say(str(error))
        self.finish(NOT_STARTED)

    def _message(self, data: bytes) -> None:
        if data.startswith(self._head) and data.endswith(b'"}}'):
            # As servers write it, read without building its JSON.
            before = len(self._head)
            place = data.find(_CHUNK, before, before + _CHUNK_WITHIN)
            seq, _, stream = data[before:place].partition(b",")
            if place >= 0 and seq.isdigit():
                chunk = base64.decode_bytes(memoryview(data)[place + len(_CHUNK) : -3])
                self._output(int(seq), "stderr" if stream.endswith(b'"stderr"') else "stdout", chunk)
                return
        message = jsonrpc.parse(data)
        if isinstance(message, jsonrpc.Reply):
            self._asked.pop(message.id, nothing)(message)
        elif isinstance(message, jsonrpc.Notice):
            self._noticed(message)
        else:
            refusal = f"exec-server client does not implement `{message.method}` yet"
            self.wire.send(jsonrpc.error(message.id, METHOD_NOT_FOUND, refusal))

    def _noticed(self, notice: jsonrpc.Notice) -> None:
        if notice.method == "process/output":
            output = OutputNotice.decode(notice.params)
            self._output(output.seq, output.stream, output.data)
        elif notice.method == "process/exited":
            self._exited(ExitedNotice.decode(notice.params))
        elif notice.method == "process/closed":
            self._over(ClosedNotice.decode(notice.params))
        elif notice.method == "environment/waiting":
            say(f"waiting for {WaitingNotice.decode(notice.params).what}")

    def _exited(self, notice: ExitedNotice) -> None:
        self.exit = Exited(notice.exit_code, notice.sandbox_denied, reason=notice.reason)

    def _over(self, notice: ClosedNotice) -> None:
        self._closed = True
        self._show()

    def drained(self) -> None:
        """Nothing waits for it: a piece of input is sent when the last one was taken."""

    def lost(self, reason: str) -> None:
        say(reason)
        self.finish(NOT_STARTED)

    # Out

    def _output(self, seq: int, stream: str, data: bytes) -> None:
        if self.ending is None:
            self.shown.append((2 if stream == "stderr" else 1, data))
            self._show()

    def _show(self) -> None:
        """Writes what our readers take now. Whoever is slow holds up the command and not our signals."""
        while self.shown and self._stuck is None:
            fd, data = self.shown.popleft()
            try:
                rest = self._write(fd, data)
            except OSError as error:
                self._cannot_show(error)
                return
            if rest:
                self.shown.appendleft((fd, rest))
                self._stuck = fd
                self.loop.add_writer(fd, self._unstuck)
                self.wire.pause_reading()
        if self._closed and not self.shown and self.ending is None:
            self._ended()

    def _write(self, fd: int, data: bytes) -> bytes:
        """Returns what was not written. Raises OSError."""
        if os.isatty(fd):
            make_way(data)
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        rest = memoryview(data)
        while rest and poll.poll(0):
            try:
                rest = rest[os.write(fd, rest[:_WRITE_SIZE]) :]
            except BlockingIOError:  # somebody else has made it non-blocking
                break
        return bytes(rest)

    def _unstuck(self) -> None:
        if self._stuck is not None:
            self.loop.remove_writer(self._stuck)
            self._stuck = None
            self.wire.resume_reading()
            self._show()

    def _cannot_show(self, error: OSError) -> None:
        if error.errno == _EPIPE:  # our reader has gone (`| head`): end as a filter would
            self.end(READER_GONE)
        elif error.errno == _EIO:  # the terminal is gone
            self._hung_up()
        else:
            say(f"cannot write the output: {error.strerror}")
            self.end(NOT_STARTED)

    def _ended(self) -> None:
        if self.exit is None:
            raise OutfitterError("the command was closed without an exit code")
        if self.exit.code and self.exit.sandbox_denied:
            say(DENIED)
        say_reason(self.exit.reason)
        self.finish(self.exit.code)

    # In

    def _listen(self) -> None:
        """Waits for the next piece of our standard input."""
        try:
            self.loop.add_reader(0, self._readable)
        except PermissionError:  # a plain file or /dev/null is always ready
            self.loop.call_soon(self._read)
        except OSError:
            pass  # no standard input at all

    def _readable(self) -> None:
        self.loop.remove_reader(0)
        if in_background():
            self.loop.call_later(BACKGROUND_SECONDS, self._listen)
        else:
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(0, _READ_SIZE)
        except BlockingIOError:
            self._listen()
            return
        except OSError:  # a terminal that we are not in the foreground of
            data = b""
        self.writes += 1
        self.in_flight = data
        params = WriteParams(self.process_id, data, str(self.writes), not data)
        self.call("process/write", params.encode(), self._written)

    def _written(self, reply: jsonrpc.Reply) -> None:
        data, self.in_flight = self.in_flight, None
        if data and reply.error is None and WriteResult.decode(reply.result).status == "accepted":
            self._listen()
        else:
            self.input_over = True

    # Signals

    def _interrupted(self) -> None:
        """The first Ctrl-C interrupts the command, the second ends it, the third stops waiting for that."""
        self.presses += 1
        if self.presses == 1:
            self.call("process/signal", SignalParams(self.process_id).encode(), nothing)
        elif self.presses == 2:
            self.call("process/terminate", TerminateParams(self.process_id).encode(), nothing)
        else:
            self._give_up()

    def _give_up(self) -> None:
        say("gave up waiting for the server")
        self.finish(INTERRUPTED)

    def _hung_up(self) -> None:
        self.end(128 + SIGHUP)

    def _late(self) -> None:
        self.end(TIMED_OUT, f"{self.argv[0]} was ended after {self.flags['timeout']:g} s")

    def end(self, status: int, text: str = "") -> None:
        """Ends the command, and us when it has ended."""
        if self.ending is not None:
            return
        self.ending = status, text
        self.shown.clear()  # nobody waits for it, and our reader is not waited for
        self._unstuck()
        self.call("process/terminate", TerminateParams(self.process_id).encode(), self._was_ended)

    def _was_ended(self, reply: jsonrpc.Reply) -> None:
        assert self.ending is not None
        status, text = self.ending
        if text:
            say(text)
        self.finish(status)


def in_background() -> bool:
    """Whether our input is a terminal that another job has now (`outfitter run -- make &`): to read there
    would stop us, and what is typed is not for us."""
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:  # no terminal, or none of ours
        return False


def can_pass_input(*, ends: bool) -> bool:
    """Whether a command is given our input, by whether its server can end that."""
    if not ends and not os.isatty(0) and not _is_null_input():
        say("this server does not support the end of input: the command gets no input")
    return ends


def _is_null_input() -> bool:
    """Whether there is nothing to pass on."""
    try:
        given, null = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return True
    return given.st_rdev == null.st_rdev and given.st_mode == null.st_mode


def place(path: str) -> uri.FileUri:
    """A path, or a URI as it is."""
    return uri.parse(path if path.startswith("file:") else uri.from_path(path))


def nothing(reply: jsonrpc.Reply) -> None:
    """For an answer that nobody waits for."""


def settle() -> None:
    """Has garbage looked for again."""
    import gc

    gc.enable()
