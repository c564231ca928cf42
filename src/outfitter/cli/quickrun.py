"""A plain `outfitter run` on this machine, without asyncio and click, which take longer than all the rest.

The same server on our own loop, the same messages, the same signals and statuses as `cli.run`. What needs
more (a terminal, a sandbox, another machine, JSON, a snapshot of a login shell) is left to that module.
"""

from __future__ import annotations

import os
import select

from ..errors import OutfitterError, SettingInvalid
from ..loop import EpollLoop
from ..protocol import base64, jsonrpc, uri
from ..protocol.environment import ContractParams, WaitingNotice
from ..protocol.process import (
    ExitedNotice,
    SignalParams,
    StartParams,
    StartResult,
    TerminateParams,
    WriteParams,
    WriteResult,
)
from ..protocol.session import InitializeParams
from ..providers import inherited
from ..server.server import Server
from ..server.settings import ServerSettings
from ..stdlib import SIG_IGN, deque, getsignal, signal
from ..transport.memory import pair
from .console import make_way, say
from .statuses import DENIED, INTERRUPTED, NOT_STARTED, READER_GONE, TIMED_OUT, not_started
from .wishes import launch_kind, wire_contract, wire_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.jsontext import Json
    from ..protocol.websocket import Payload
    from ..transport.memory import MemoryTransport
    from .wishes import Flags

    Answered = Callable[[jsonrpc.Reply], None]

_SIGHUP, _SIGINT, _SIGTERM = 1, 2, 15
_EIO, _EPIPE = 5, 32
_READ_SIZE = 64 << 10
_WRITE_SIZE = select.PIPE_BUF  # what a pipe with any room takes without making us wait
_SETTLE_SECONDS = 0.8  # a command that takes longer is worth a search for garbage
_ID = "1"  # the only process of the only session
_OUTPUT = b'{"method":"process/output","params":{"processId":"1","seq":'
_CHUNK = b',"chunk":"'
_CHUNK_BEFORE = len(_OUTPUT) + 64  # the number and the name of the stream are shorter


def run(argv: Sequence[str], flags: Flags) -> int | None:
    """Runs the command; returns the exit status, or None if `cli.run` has to do it."""
    server = None
    try:
        loop = EpollLoop()
        loop.stall_seconds = float("inf")  # nobody else is served
        server = Server(loop, ServerSettings(), inherited.load(), retain=False, base="launcher")
        if server.contract.settings(None).snapshot != "none":
            _settle()
            return None  # a login shell takes its time, which is not the loop's
        near, far = pair(loop)
        one = _Run(loop, near, argv, flags)
        server.connect(far)
        one.begin()
        loop.call_later(_SETTLE_SECONDS, _settle)
        loop.run()
        return one.status
    except OutfitterError as error:
        say(str(error))
        return NOT_STARTED
    except KeyboardInterrupt:  # before there was a command to interrupt
        return INTERRUPTED
    finally:
        if server is not None:
            server.stop("the local executor is closed")


def _settle() -> None:
    import gc

    gc.enable()


def _place(cwd: str | None) -> uri.FileUri:
    if cwd is not None and cwd.startswith("file:"):
        return uri.parse(cwd)
    try:
        return uri.parse(uri.from_path(os.path.abspath(cwd or ".")))
    except FileNotFoundError:
        raise SettingInvalid("the current directory no longer exists: change to another one") from None


class _Run:
    """One command from its start to its end (a transport's Receiver)."""

    def __init__(
        self, loop: EpollLoop, transport: MemoryTransport, argv: Sequence[str], flags: Flags
    ) -> None:
        self.status = NOT_STARTED
        self._loop = loop
        self._transport = transport
        self._argv = argv
        self._flags = flags
        self._asked: dict[int | str, Answered] = {}
        self._calls = 0
        self._exit: ExitedNotice | None = None
        self._closed = False
        self._ending = False  # what it says from now on is not shown
        self._shown: deque[tuple[int, bytes]] = deque()  # what our reader has not taken yet
        self._stuck: int | None = None  # the descriptor whose reader is waited for
        self._writes = 0
        self._presses = 0
        transport.receiver = self

    def begin(self) -> None:
        flags = self._flags
        params = StartParams(
            _ID,
            list(self._argv),
            _place(flags["cwd"]),
            dict(flags["env"]),
            False,
            wire_policy(flags),
            True,
            contract=wire_contract(flags, launch_kind()) or ContractParams(),
        )
        self._call("initialize", InitializeParams("outfitter").encode(), _nothing)
        self._transport.send(jsonrpc.notice("initialized", {}))
        self._call("process/start", params.encode(), self._started)

    def _call(self, method: str, params: Json, answered: Answered) -> None:
        self._calls += 1
        self._asked[self._calls] = answered
        self._transport.send(jsonrpc.request(self._calls, method, params))

    def _started(self, reply: jsonrpc.Reply) -> None:
        if reply.error is not None:
            error = reply.error
            self._finish(not_started(self._argv[0], error["message"], error.get("data")))
            return
        for warning in StartResult.decode(reply.result).warnings:
            say(warning)
        self._heed(_SIGINT, self._interrupted)
        self._heed(_SIGTERM, lambda: self._end(128 + _SIGTERM))
        self._heed(_SIGHUP, lambda: self._end(128 + _SIGHUP))
        if self._flags["timeout"] is not None:
            self._loop.call_later(self._flags["timeout"], self._late)
        self._listen()

    def _heed(self, number: int, action: Callable[[], None]) -> None:
        if getsignal(number) != SIG_IGN:  # what we were told to ignore stays ignored
            signal(number, lambda *_: self._loop.call_soon_threadsafe(action))

    def _finish(self, status: int) -> None:
        self.status = status
        self._loop.stop()

    # From the server

    def message(self, data: Payload) -> None:
        assert isinstance(data, bytes)  # as they are in memory
        try:
            self._message(data)
        except OutfitterError as error:
            say(str(error))
            self._finish(NOT_STARTED)

    def _message(self, data: bytes) -> None:
        if data.startswith(_OUTPUT):
            self._output(data)
            return
        message = jsonrpc.parse(data)
        if isinstance(message, jsonrpc.Reply):
            self._asked.pop(message.id, _nothing)(message)
        elif message.method == "process/exited":
            self._exit = ExitedNotice.decode(message.params)
        elif message.method == "process/closed":
            self._closed = True
            self._show()
        elif message.method == "environment/waiting":
            say(f"waiting for {WaitingNotice.decode(message.params).what}")

    def drained(self) -> None:
        """Nothing waits for it: a piece of input is sent when the last one was taken."""

    def lost(self, reason: str) -> None:
        say(reason)
        self._finish(NOT_STARTED)

    # Out

    def _output(self, message: bytes) -> None:
        if self._ending:
            return
        place = message.index(_CHUNK, 0, _CHUNK_BEFORE)
        fd = 2 if message.endswith(b'"stderr"', 0, place) else 1
        self._shown.append((fd, base64.decode_bytes(memoryview(message)[place + len(_CHUNK) : -3])))
        self._show()

    def _show(self) -> None:
        """Writes what our readers take now. Whoever is slow holds up the command and not our signals."""
        while self._shown and self._stuck is None:
            fd, data = self._shown.popleft()
            try:
                rest = self._write(fd, data)
            except OSError as error:
                self._cannot_show(error)
                return
            if rest:
                self._shown.appendleft((fd, rest))
                self._stuck = fd
                self._loop.add_writer(fd, self._unstuck)
                self._transport.pause_reading()
        if self._closed and not self._shown and not self._ending:
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
            self._loop.remove_writer(self._stuck)
            self._stuck = None
            self._transport.resume_reading()
            self._show()

    def _cannot_show(self, error: OSError) -> None:
        if error.errno == _EPIPE:  # our reader has gone (`| head`): end as a filter would
            self._end(READER_GONE)
        elif error.errno == _EIO:  # the terminal is gone
            self._end(128 + _SIGHUP)
        else:
            say(f"cannot write the output: {error.strerror}")
            self._end(NOT_STARTED)

    def _ended(self) -> None:
        if self._exit is None:
            raise OutfitterError("the command was closed without an exit code")
        if self._exit.exit_code and self._exit.sandbox_denied:
            say(DENIED)
        self._finish(self._exit.exit_code)

    # In

    def _listen(self) -> None:
        """Waits for the next piece of our standard input."""
        try:
            self._loop.add_reader(0, self._readable)
        except PermissionError:  # a plain file or /dev/null is always ready
            self._loop.call_soon(self._read)
        except OSError:
            pass  # no standard input at all

    def _readable(self) -> None:
        self._loop.remove_reader(0)
        self._read()

    def _read(self) -> None:
        try:
            data = os.read(0, _READ_SIZE)
        except BlockingIOError:
            self._listen()
            return
        except OSError:  # a terminal that we are not in the foreground of
            data = b""
        self._writes += 1
        params = WriteParams(_ID, data, str(self._writes), not data)
        self._call("process/write", params.encode(), self._written if data else _nothing)

    def _written(self, reply: jsonrpc.Reply) -> None:
        if reply.error is None and WriteResult.decode(reply.result).status == "accepted":
            self._listen()

    # Signals

    def _interrupted(self) -> None:
        """The first Ctrl-C interrupts the command, the second ends it, the third stops waiting for that."""
        self._presses += 1
        if self._presses == 1:
            self._call("process/signal", SignalParams(_ID).encode(), _nothing)
        elif self._presses == 2:
            self._call("process/terminate", TerminateParams(_ID).encode(), _nothing)
        else:
            say("gave up waiting for the server")
            self._finish(INTERRUPTED)

    def _late(self) -> None:
        self._end(TIMED_OUT, f"{self._argv[0]} was ended after {self._flags['timeout']:g} s")

    def _end(self, status: int, text: str = "") -> None:
        """Ends the command, and us when it has ended."""
        if self._ending:
            return
        self._ending = True
        self._shown.clear()  # nobody waits for it, and our reader is not waited for
        self._unstuck()

        def ended(reply: jsonrpc.Reply) -> None:
            if text:
                say(text)
            self._finish(status)

        self._call("process/terminate", TerminateParams(_ID).encode(), ended)


def _nothing(reply: jsonrpc.Reply) -> None:
    """For an answer that nobody waits for."""
