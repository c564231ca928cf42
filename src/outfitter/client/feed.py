"""What feeds a handle of a running command: its events in order, each once, across connections."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import TYPE_CHECKING

from ..core.events import CLOSED, Closed, EventOrder, Exited, Output, missed
from ..errors import InvalidParams, Malformed, OutfitterError, OutputLost, RequestFailed
from ..log import fault
from ..protocol import process as wire
from ..protocol.network import DecisionNotice
from ..protocol.processnotices import ExitedNotice, OutputNotice
from ..protocol.wishes import WaitingNotice
from .answers import NetworkDecision, plain
from .unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.events import Event
    from ..protocol.documents import EnvironmentSummary, StartupReport
    from ..protocol.notices import ProcessNotice
    from .connection import ClientConnection
    from .session import Decide, RemoteSession

# A process that says nothing is asked after one look at it, then after 2, 4, 8, ... so many: five minutes.
_LONGEST_QUIET = 32


class Events:
    """The events of a process: `async for`, or `anext` within a time of the caller's.

    A cancelled `anext` loses nothing: the next one goes on. Iterators of one process share its events.
    """

    _reads = False  # counted among the readers; the class's, as Ctrl-C may come before `__init__`

    def __init__(self, feed: ProcessFeed) -> None:
        self._feed = feed
        self._over = False

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Output | Exited:
        if self._over:
            raise StopAsyncIteration
        if not self._reads:
            self._reads = True
            self._feed.readers += 1
        try:
            event = await self._feed.next()
        except BaseException:
            self._leave()  # also a wait that was given up: whoever waits for the end need not wait for us
            raise
        if event is None:
            self._over = True
            self._leave()
            await self._feed.settle()
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Ends the iteration. The events that are left are for others."""
        self._over = True
        self._leave()

    def __del__(self) -> None:
        if self._reads:
            self._leave()

    def _leave(self) -> None:
        if self._reads:
            self._reads = False
            self._feed.readers -= 1
            self._feed.news.set()  # whoever waits for the end takes over


class ProcessFeed:
    """What the session tells of a process: its events in order, each once, across connections."""

    def __init__(
        self, session: RemoteSession, process_id: str, on_waiting: Callable[[str], object] | None = None
    ) -> None:
        self.process_id = process_id
        self.exit_code: int | None = None
        self.signal: int | None = None  # that has ended it, if the server says so
        self.reason: str | None = None  # why the machine has done so
        self.sandbox_denied: bool | None = None
        self.environment: EnvironmentSummary | None = None
        self.warnings: list[str] = []
        self.startup: StartupReport | None = None
        self.missed = 0
        self.pid: int | None = None
        self.started = False  # the server has said so; before that its output is not asked for again
        self.kept = False  # left running when the client is closed
        self.closed = False
        self.queue: deque[Output | Exited] = deque()
        self.kept_output: dict[str, bytearray] = {}  # taken by readers, and not given to their callers yet
        self.kept_waiting: dict[str, int] = {}  # bytes of it, by the reader of another stream: they count
        self.write_prefix = ""
        self.unread = Unread(
            session, "processHold", "process/hold", lambda on: wire.HoldParams(process_id, on).encode()
        )
        self._session = session
        self._on_waiting = on_waiting
        self.on_network: Callable[[NetworkDecision], object] | None = None
        self.decide: Decide | None = None
        self._order = EventOrder()
        self._failure: Exception | None = None
        self.news = asyncio.Event()
        self.readers = 0  # iterators and streams that are in use
        self._linger: float | None = None
        self._abandoned = False
        self._heard = -1  # the newest event at the last look
        self._quiet = self._patience = 1
        self._reading = 0  # reads of what was missed that are under way: an early event is no news then

    @property
    def over(self) -> bool:
        """Whether no more events will come, for whatever reason."""
        return self.closed or self._failure is not None

    # For the caller

    def events(self) -> Events:
        return Events(self)

    async def next(self, ready: Callable[[], bool] | None = None) -> Output | Exited | None:
        """The next event, or None at the end, or when somebody else has made it `ready`.

        Raises the error that ended the events. Cancelled, it has taken nothing.
        """
        while not self.queue:
            if ready is not None and ready():
                return None
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self.closed:
                return None
            self.news.clear()
            await self.news.wait()
        event = self.queue.popleft()
        if isinstance(event, Output):
            self.unread.count(-len(event.data))
        return event

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Somebody reads a stream: whoever waits for the end leaves the output alone meanwhile."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.news.set()

    async def settle(self) -> None:
        """After the last event."""
        if self.sandbox_denied is None:
            await self._ask_denied()

    async def wait(self) -> int:
        await asyncio.sleep(0)  # whoever begins to read at the same time may come first
        while True:
            if not self.readers:
                self._drop()
            if self.over:
                break
            self.news.clear()
            await self.news.wait()
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        await self.settle()
        assert self.exit_code is not None
        return self.exit_code

    def _drop(self) -> None:
        """What waits goes."""
        self.unread.count(-sum(len(event.data) for event in self.queue if isinstance(event, Output)))
        self.queue.clear()

    def linger(self, seconds: float) -> None:
        """So long after the exit, no more output is waited for: what still holds the pipes is left alone."""
        self._linger = seconds
        if self.exit_code is not None:
            self._begin_lingering()

    def _begin_lingering(self) -> None:
        if self._linger is not None and not self.over:
            asyncio.get_running_loop().call_later(self._linger, self._cut)

    def _cut(self) -> None:
        if not self.over:
            self.closed = True
            self._session.processes.pop(self.process_id, None)
            self.news.set()
            self.unread.end()

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
        self.kept_output.clear()
        self.kept_waiting.clear()
        self.unread.count(-self.unread.waiting)

    def discard(self) -> None:
        """The same, for whoever wants to know of the exit."""
        exits = [event for event in self.queue if isinstance(event, Exited)]
        self.abandon()
        self.queue.extend(exits)

    def end(self) -> None:
        """Nobody wants the command any more: it is ended in the background."""
        self.abandon()
        self._session.end(self.process_id)

    # From the session

    def receive(self, notice: ProcessNotice) -> None:
        if isinstance(notice, WaitingNotice | DecisionNotice):
            try:
                self._tell(notice)
            except Exception as error:  # the caller's own: the connection is everybody's
                fault("client", "`on_waiting` or `on_network` failed", error)
            return
        event: Event = CLOSED
        if isinstance(notice, OutputNotice):
            event = Output(notice.stream, notice.data)
        elif isinstance(notice, ExitedNotice):
            event = Exited(notice.exit_code, notice.sandbox_denied, notice.signal, notice.reason)
            if notice.environment is not None:
                self.startup = notice.environment
        if self.over:
            return
        try:
            self._deliver(self._order.receive(notice.seq, event))
        except OutputLost as error:
            self._give_up(error)
        self._mind_the_gap()

    def _tell(self, notice: WaitingNotice | DecisionNotice) -> None:
        if isinstance(notice, WaitingNotice):
            if self._on_waiting is not None:
                self._on_waiting(notice.what)
        elif self.on_network is not None:
            self.on_network(plain(NetworkDecision, notice))

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Closed):
                self.closed = True
                self.unread.ended()
                continue
            if isinstance(event, Exited):
                self._know_exit(event)
                self._begin_lingering()
            elif self._abandoned:
                continue
            else:
                self.unread.count(len(event.data))
            self.queue.append(event)
        if events:
            self.news.set()

    def _know_exit(self, event: Exited) -> None:
        self.exit_code, self.sandbox_denied = event.code, event.sandbox_denied
        self.signal, self.reason = event.signal, event.reason

    def _give_up(self, error: OutfitterError) -> None:
        """Its output has a hole: nobody can use the rest."""
        self.fail(error)
        self._session.end(self.process_id)

    def fail(self, error: Exception) -> None:
        """No more events will come."""
        if not self.over:
            self._failure = error
            self.news.set()
            self.unread.end()

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
        self.unread.remind()
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
            self._deliver(self._order.merge(missed(result)))
        except OutputLost as error:
            self._give_up(error)

    def _cannot_follow(self, error: OutfitterError) -> None:
        self.fail(OutputLost(f"process {self.process_id} can no longer be followed: {error}"))

    def take_up(self, order: EventOrder, exit: Exited | None) -> None:
        """Goes on after the events that somebody else has had."""
        self._order = order
        self.started = True
        if exit is not None:
            self._know_exit(exit)

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
        self._deliver(self._order.merge(missed(result)))
        self.missed = start - after - 1
        if result.exited and self.exit_code is None:  # the exit was not after `after`
            self._order.exit_known = True
            assert result.exit_code is not None
            self._know_exit(Exited(result.exit_code, result.sandbox_denied, result.signal, result.reason))
        self.closed = self.closed or result.closed
        self._reading -= 1
        self._mind_the_gap()
