"""A plain `outfitter run --on URL` with a server on this machine, without asyncio, click and TLS.

The server has to answer at once; else `cli.run` waits for it. What a plain client cannot do later (come back
after a lost connection, leave a command running) is done there too: `run.take_up` goes on with the command.
"""

from __future__ import annotations

import os

from ..core.events import CLOSED, Closed, EventOrder, Exited, Output, missed
from ..errors import InvalidParams, OutfitterError, OutputLost, SettingInvalid
from ..loop import EpollLoop
from ..protocol import jsonrpc, uri
from ..protocol import websocket as ws
from ..protocol.process import ReadParams, ReadResult, StartParams
from ..protocol.session import LEFT, TAKEN_OVER, InitializeParams, InitializeResult, restarts
from ..protocol.wishes import ContractParams, EnvPolicyParams
from ..transport.address import parse_address, usual_address
from ..transport.outward import OutwardSocket, dial_outward
from ..transport.unix import PREFIX
from .base import configured, server_pid, why_stranger
from .console import say
from .quickfollow import SIGHUP, SIGINT, QuickRun, can_pass_input, place, settle
from .records import Records
from .statuses import INTERRUPTED, NOT_STARTED
from .wishes import from_here, launch_kind, wire_contract, wire_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.events import Event
    from ..protocol.processnotices import ClosedNotice, ExitedNotice
    from ..protocol.session import EnvironmentInfo
    from ..transport.address import Address
    from ..transport.sockets import Stream
    from .records import Started
    from .wishes import Flags

MAX_MESSAGE = 64 << 20  # what servers send, ours and the reference
_PROMPT_SECONDS = 0.25  # for each answer before the start: who waits longer is to see for what
_END_SECONDS = 2.0  # for a server to say that it has ended a command, as in `cli.follow`
# How often a server is asked about a command that says nothing: the notice of an end may be lost.
_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 10.0, 320.0


def run(argv: Sequence[str], flags: Flags) -> int | RunOn | None:
    """Runs the command; returns the exit status, or None if `cli.run` has to do it.

    If somebody has to go on with a command that runs, it returns that.
    """
    one = None
    try:
        address = _address(flags["on"])
        if address is None:
            return None
        loop = EpollLoop()
        loop.stall_seconds = float("inf")  # it serves nobody
        headers = [] if flags["token_file"] is None else [_authorization(flags["token_file"])]
        dialled = dial_outward(loop, address, headers, _PROMPT_SECONDS, None)
        one = RunOn(loop, argv, flags, address)
        one.begin(*dialled)
        loop.run()
    except OutfitterError:
        return None  # which is told there
    except KeyboardInterrupt:  # while the server was dialled
        return INTERRUPTED
    finally:
        if one is None or one.status is None or one.handed_over:
            settle()
    return one if one.handed_over else one.status


def _address(on: str) -> Address | None:
    """A server of this machine. Raises SettingInvalid."""
    return parse_address(on) if on.startswith(PREFIX) else usual_address(on)


def _authorization(path: str) -> str:
    """Raises OutfitterError."""
    from ..client.token import read_token

    token = read_token(path)
    if not (token.isascii() and token.isprintable()):
        raise SettingInvalid("the token must be printable ASCII, without line breaks")
    return f"Authorization: Bearer {token}"


class RunOn(QuickRun):
    """One command on a server, and what somebody needs to know who goes on with it."""

    def __init__(self, loop: EpollLoop, argv: Sequence[str], flags: Flags, address: Address) -> None:
        super().__init__(loop, argv, flags, f"{os.getpid()}-{os.urandom(6).hex()}-1")
        self.wire = self
        self.on = address.text
        self.opened: InitializeResult | None = None
        self.runs = False  # the server has said so
        self.passes_input = False
        self.record: Started | None = None
        self.records = Records(os.environ)
        self.order = EventOrder()
        self.handed_over = False
        self.reason: str | None = None  # why its connection was lost; None if it was not
        self._finished = False
        self._reading = False
        self._heard = -1  # the newest event at the last look
        self._look_seconds = _LOOK_SECONDS

    def begin(self, sock: Stream, rest: bytes) -> None:
        self._socket = OutwardSocket(
            self.loop, sock, MAX_MESSAGE, self, texts=True, unread=True, peer="the server"
        )
        self._socket.begin(rest)
        self._heed(SIGINT, self._unwanted)
        self.call("initialize", InitializeParams("outfitter").encode(), self._initialized)
        self.loop.call_later(_PROMPT_SECONDS, self._slow)

    # As a transport

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self._socket.send_message(message, ws.TEXT)

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def frame(self, data: bytes) -> None:
        if not self.handed_over and not self._finished:
            self.message(data)

    # Starting

    def _slow(self) -> None:
        if self.opened is None:
            self._decline()

    def _decline(self) -> None:
        """Nothing was started: `cli.run` does it all."""
        self._heed_no_more(SIGINT)
        self.status = None
        self._finished = True
        self._socket.close(self._goodbye(), "")

    def _initialized(self, reply: jsonrpc.Reply) -> None:
        if reply.error is not None:
            self._decline()
            return
        self.opened = InitializeResult.decode(reply.result)
        self.send(jsonrpc.notice("initialized", {}))
        info = self.opened.info
        params = None if info is None else self._start_params(info)
        if params is None:
            self._decline()
        else:
            self.start(params)

    def _start_params(self, info: EnvironmentInfo) -> StartParams | None:
        """What the server is told; None if that is not plain."""
        ours = why_stranger(info, self.on) is None
        if ours and configured() != "daemon":
            return None
        offers = info.capabilities.__contains__
        policy = wire_policy(self.flags)
        contract = wire_contract(self.flags, launch_kind() if offers("environmentContract") else "")
        if contract is not None and not (offers("environmentContract") and offers("environmentOverlay")):
            return None
        if offers("environmentContract"):
            contract = contract or ContractParams()
        elif policy is None:
            policy = EnvPolicyParams("all", True, (), (), ())
        cwd = self._directory(info, ours=ours)
        if cwd is None:
            return None
        self.passes_input = can_pass_input(ends=offers("processStdinEof"))
        env = dict(self.flags["env"])
        return StartParams(
            self.process_id, list(self.argv), cwd, env, False, policy, self.passes_input, contract=contract
        )

    def _directory(self, info: EnvironmentInfo, *, ours: bool) -> uri.FileUri | None:
        """Where it runs: from where we are on a server of ours, and else from where the server is."""
        given = self.flags["cwd"]
        if ours or (given is not None and given.startswith("file:")):
            return place(from_here(given))
        if info.cwd is None or given is None:
            return info.cwd
        try:
            return place(os.path.normpath(os.path.join(info.cwd.local_path(), given)))
        except ValueError:
            return None  # another path convention

    def _started(self, reply: jsonrpc.Reply) -> None:
        self.runs = reply.error is None
        super()._started(reply)

    def _begun(self) -> None:
        assert self.opened is not None
        try:
            self.record = self.records.add(
                self.on,
                self.opened.session_id,
                self.process_id,
                os.path.basename(self.argv[0]),
                {"token_file": self.flags["token_file"]},
                tty=False,
                server=server_pid(self.opened.info, self.on),
            )
        except OutfitterError as error:
            say(f"`outfitter attach` will not find this command: {error}")
        self.loop.call_later(self._look_seconds, self._look)
        if self.passes_input:
            self._listen()
        self._show()  # what has overtaken the answer

    def _unwanted(self) -> None:
        """Ctrl-C before the server has said that the command runs."""
        if self.opened is not None:
            self.end(INTERRUPTED)
        else:
            self.status, self._finished = INTERRUPTED, True
            self._socket.close(1000, "")

    # Events, which need not come in order

    def _output(self, seq: int, stream: str, data: bytes) -> None:
        self._take(seq, Output(stream, data))

    def _exited(self, notice: ExitedNotice) -> None:
        self._take(notice.seq, Exited(notice.exit_code, notice.sandbox_denied, notice.signal, notice.reason))

    def _over(self, notice: ClosedNotice) -> None:
        self._take(notice.seq, CLOSED)

    def _take(self, seq: int, event: Event) -> None:
        try:
            self._deliver(self.order.receive(seq, event))
        except OutputLost:
            self.hand_over(None)
            return
        if self.order.has_gap:
            self._read_missed()

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Output):
                if self.ending is None:
                    self.shown.append((2 if event.stream == "stderr" else 1, event.data))
            elif isinstance(event, Exited):
                self.exit = event
            elif isinstance(event, Closed):
                self._closed = True
        if self.runs:  # else it is shown behind the warnings
            self._show()

    def _read_missed(self) -> None:
        if not self._reading:
            self._reading = True
            self.call("process/read", ReadParams(self.process_id, self.order.last).encode(), self._mended)

    def _mended(self, reply: jsonrpc.Reply) -> None:
        self._reading = False
        try:
            if reply.error is not None:
                raise OutputLost(reply.error["message"])
            result = ReadResult.decode(reply.result)
            if result.failure is not None:
                raise OutputLost(result.failure)
            self._deliver(self.order.merge(missed(result)))
        except (OutputLost, InvalidParams):
            self.hand_over(None)  # who can say more about it

    def _look(self) -> None:
        if self.order.last != self._heard:
            self._heard, self._look_seconds = self.order.last, _LOOK_SECONDS
        elif self._stuck is None:
            self._look_seconds = min(2 * self._look_seconds, _LONGEST_LOOK_SECONDS)
            self._read_missed()
        self.loop.call_later(self._look_seconds, self._look)

    # The end

    def _ended(self) -> None:
        exit = self.exit
        if exit is not None and exit.code and exit.sandbox_denied is None:
            self.exit = Exited(exit.code, False)
            self.call(
                "process/read", ReadParams(self.process_id, self.order.last).encode(), self._told_denied
            )
            return
        super()._ended()

    def _told_denied(self, reply: jsonrpc.Reply) -> None:
        """A server that did not say whether its sandbox interfered was asked."""
        assert self.exit is not None
        if reply.error is None:
            self.exit = Exited(self.exit.code, ReadResult.decode(reply.result).sandbox_denied)
        super()._ended()

    def end(self, status: int, text: str = "") -> None:
        super().end(status, text)
        self.loop.call_later(_END_SECONDS, self.hand_over, None)

    def finish(self, status: int | None) -> None:
        self.status = status
        self._finished = True
        if self.record is not None:
            self.records.remove(self.record)
        self._socket.leave(self._goodbye())

    def _goodbye(self) -> int:
        info = None if self.opened is None else self.opened.info
        return LEFT if info is not None and "sessionLeave" in info.capabilities else 1000

    def lost(self, reason: str) -> None:
        if self._left_undone(reason):
            self._decline()
        if not self._finished and self.opened is not None and self._socket.close_code != TAKEN_OVER:
            self.hand_over(reason)
            return
        if not self._finished:
            self._finished = True
            self.status = None
            if self.opened is not None:  # nobody can come back to what is somebody else's now
                say(reason)
                self.status = NOT_STARTED
        self.loop.stop()

    def _left_undone(self, reason: str) -> bool:
        """Whether the server restarts and has not started the command, which is still wanted."""
        wanted = not self._finished and not self.runs and self.ending is None
        return wanted and restarts(self._socket.close_code, reason)

    def _cannot_read(self, error: OutfitterError) -> None:
        if self.opened is None:
            self._decline()
        else:
            self.hand_over(f"unreadable message: {error}")

    # What somebody else goes on with

    def _hung_up(self) -> None:
        self.unheard.insert(0, SIGHUP)
        self.hand_over(None)

    def _give_up(self) -> None:
        self.presses -= 1
        self.unheard.insert(0, SIGINT)
        self.hand_over(None)

    def hand_over(self, reason: str | None) -> None:
        if not self.handed_over and not self._finished:
            self.handed_over, self.reason = True, reason
            self._socket.close(1000, "")
            self.loop.stop()
