"""One session on one exec-server, as its handles use it: calls, news, a bound on output that waits.

Handles (processes, files, watches) know this class. The session knows them by the protocols below.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import secrets
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ..core.recovery import CLIENT_CLOSED, CONNECTED, FAILED
from ..errors import (
    CapabilityMissing,
    Disconnected,
    InvalidParams,
    Malformed,
    OutfitterError,
    Refused,
    SessionExpired,
    SettingInvalid,
)
from ..protocol import uri
from ..protocol.http import BodyNotice
from ..protocol.network import ALLOW, DENY, PolicyAnswer, PolicyRequestParams
from ..protocol.process import TerminateParams
from ..protocol.session import InfoResult
from ..protocol.watching import ChangedNotice
from .answers import NetworkTarget, plain
from .arguments import called, count, place, seconds
from .link import Link

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Protocol, TypeVar

    from ..protocol.jsontext import Json
    from ..protocol.notices import Notice, ProcessNotice
    from ..protocol.results import Result
    from ..protocol.session import EnvironmentInfo, InitializeResult
    from .arguments import Place
    from .connection import ClientConnection
    from .link import Dial

    R = TypeVar("R", bound=Result)
    # Whether a command may reach a host that no rule names.
    Decide = Callable[[NetworkTarget], bool | Awaitable[bool]]

    class Params(Protocol):
        def encode(self) -> Json: ...

    class FedProcess(Protocol):
        """A process that hears of its session."""

        process_id: str
        started: bool
        kept: bool
        decide: Decide | None

        @property
        def over(self) -> bool: ...
        def receive(self, notice: ProcessNotice) -> None: ...
        async def catch_up(self, connection: ClientConnection) -> None: ...
        def is_quiet(self) -> bool: ...
        async def mend(self) -> None: ...
        def abandon(self) -> None: ...
        def fail(self, error: OutfitterError) -> None: ...

    class ProcessHandle(Protocol):
        """What the caller has of a process; the session talks to what feeds it."""

        @property
        def _feed(self) -> FedProcess: ...

    class FedStream(Protocol):
        """A streamed body that hears of its session."""

        def receive(self, notice: BodyNotice) -> None: ...
        def fail(self, error: OutfitterError) -> None: ...

    class FedWatch(Protocol):
        """A watch that hears of its session."""

        def receive(self, notice: ChangedNotice) -> None: ...
        async def renew(self) -> None: ...
        def fail(self, error: OutfitterError) -> None: ...


# Output received but not yet taken by the caller. Above this the connection is not read, so a caller
# that does not iterate slows the command down instead of filling memory. Where that would stop others, too,
# the server holds those back that nobody reads, if it can.
_QUEUED_BYTES = 8 << 20
# While a call waits for its answer, which may stand behind such output, or where processes are held back,
# everything is read up to this.
_QUEUED_BYTES_MORE = 64 << 20
# How often it is looked for processes of which nothing was heard since: the notice of an end may be lost, and
# no later one would show the gap. Not a sign of life: the transport asks for that.
LOOK_SECONDS = 10.0
_CLOSE_SECONDS = 2.0  # for ending what still runs when the client is closed


class RemoteSession:
    """The inside of a `Client`."""

    def __init__(
        self,
        dial: Dial,
        *,
        where: str,
        resumable: bool,
        initialize_timeout: float = 10.0,
        recovery_timeout: float | None = None,
        on_state: Callable[[str], None] | None = None,
        same_machine: bool = False,
        summaries: bool = False,
        operate: bool = False,
        max_concurrency: int | None = None,
        closed: Callable[[], None] | None = None,
    ) -> None:
        """`closed` is called after the end of the session, however that came."""
        count("max_concurrency", max_concurrency, 1)
        seconds("initialize_timeout", initialize_timeout)
        seconds("recovery_timeout", recovery_timeout)
        called("on_state", on_state)
        self.room = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        self._closed = closed
        self.where = where  # for people
        self.info: EnvironmentInfo | None = None
        self.processes: dict[str, ProcessHandle] = {}
        self.attaching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # to these processes
        self.watches: dict[str, FedWatch] = {}
        self.streams: dict[str, FedStream] = {}
        self.waiting = 0  # bytes of output that nobody has taken yet
        self.link = Link(
            dial,
            resumable=resumable,
            initialize_timeout=initialize_timeout,
            recovery_timeout=recovery_timeout,
            noticed=self._noticed,
            asked=self._asked,
            catch_up=self._catch_up,
            changed=self._changed,
            summaries=summaries,
            operate=operate,
        )
        # Nothing of the session is wanted when the client is closed. What somebody else has begun is not ours
        # to give up, and what is kept is wanted.
        self.leaves = False
        self._on_state = on_state
        self._same_machine = same_machine
        self._cleaning: set[asyncio.Task[None]] = set()
        # Unguessable, so that ids stay apart when another client takes the session over.
        self._prefix = f"{os.getpid()}-{secrets.token_hex(6)}"
        self.commands = 0  # that were named so far
        self._closing = False
        self._held = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = 0
        self._looking: asyncio.TimerHandle | None = None

    # Life

    async def open(self, resume: str | None = None, *, take_over: bool = False) -> None:
        """Connects and completes the handshake. Raises DialFailed, RequestFailed or SettingInvalid."""
        self._loop = asyncio.get_running_loop()
        self.info = (await self.link.open(resume, take_over=take_over)).info
        self.leaves = resume is None
        self._look_later()
        if self.info is None:
            # Older servers say who they are only when asked, and some not even then.
            try:
                self.info = (await self.ask(InfoResult, "environment/info", None)).info
            except OutfitterError:
                pass

    def take_up(self, result: InitializeResult, reason: str) -> None:
        """Goes on with a session that somebody else has opened and whose connection is lost."""
        self._loop = asyncio.get_running_loop()
        self.info = result.info
        self._look_later()
        self.link.take_up(result, reason)

    async def aclose(self) -> None:
        """Ends what this client started and still runs, except kept processes, and the connection."""
        self._check_loop()
        try:
            await self._aclose()
        finally:  # also when that is cancelled
            self.link.shut(leave=self._leaves)
            if self._closed is not None:
                self._closed()

    def check_open(self) -> None:
        """Raises SessionExpired when the client is being closed, or is."""
        if self._closing:
            raise SessionExpired(CLIENT_CLOSED)

    def _check_loop(self) -> None:
        """Raises Refused in another loop than ours: nothing would ever wake who waits there."""
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise Refused(
                "this client belongs to another asyncio loop: make one in each, or use outfitter.shared(), "
                "which any loop may call"
            )

    @property
    def _leaves(self) -> bool:
        return self.leaves and self.offers("sessionLeave")

    async def _aclose(self) -> None:
        self._closing = True
        self._on_state = None  # a caller who closes the client knows
        if self._looking is not None:
            self._looking.cancel()
        # One that is over has all its output, though whoever started it need not have heard of that yet.
        feeds = [one for one in self._feeds() if not one.over]
        running = [one for one in feeds if not one.kept]
        for one in feeds:
            one.abandon()  # output that nobody takes must not hold up the answers
            one.fail(SessionExpired(CLIENT_CLOSED))  # else whoever reads would take that for the end
        if (running or self._cleaning) and self.link.failure is None:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await asyncio.gather(*(self._end(one.process_id) for one in running), *self._cleaning)
            except TimeoutError:
                pass  # the server ends them when it has waited long enough for us
        await self.link.close(leave=self._leaves)
        for task in self._cleaning:
            task.cancel()
        await asyncio.gather(*self._cleaning, return_exceptions=True)

    @property
    def held(self) -> bool:
        """Whether nothing is read, because output waits for its reader: an answer may stand behind it."""
        return self._held

    # Calls

    def offers(self, capability: str) -> bool:
        return self.info is not None and capability in self.info.capabilities

    def require(self, capability: str, what: str) -> None:
        if not self.offers(capability):
            raise CapabilityMissing(capability, what)

    async def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """See `Client.call`."""
        self._check_loop()
        if self.link.failure is None:
            self.check_open()  # what it began now, nobody would end
        # An answer may stand behind output that nobody takes: while a call waits for one, more is read.
        self._calls += 1
        self.queued(0)
        try:
            return await self.link.call(method, params, repeat=repeat, wait=wait)
        finally:
            self._calls -= 1
            self.queued(0)

    async def ask(
        self, kind: type[R], method: str, params: Params | None, *, repeat: bool = False, wait: bool = True
    ) -> R:
        """The answer to a call as its type. Raises Malformed when the answer cannot be read."""
        sent = None if params is None else params.encode()
        result = await self.call(method, sent, repeat=repeat, wait=wait)
        try:
            return kind.decode(result)
        except InvalidParams as error:
            raise Malformed(f"the server's answer to `{method}` is unusable: {error}") from None

    def later(self, method: str, params: Json) -> None:
        """A call whose answer nobody waits for, and that may be lost with the connection."""

        async def quietly() -> None:
            try:
                await self.link.call(method, params)
            except OutfitterError:
                pass

        self._in_background(quietly())

    def end(self, process_id: str) -> None:
        """Ends what may run and nobody wants, in the background, after a recovery if need be."""
        if self.link.failure is None:
            self._in_background(self._end(process_id))

    async def _end(self, process_id: str) -> None:
        await self.link.clean_up("process/terminate", TerminateParams(process_id).encode())

    def _in_background(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    def mend(self, feed: FedProcess) -> None:
        """Lets a process read, in the background, what was not pushed to it."""

        async def mending() -> None:
            await feed.mend()
            self._forget_if_over(feed)

        self._in_background(mending())

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Asks how it is with processes that are quiet. Not while answers stand behind output that waits."""
        self._look_later()
        if self.link.connection is None or self._held:
            return
        for feed in self._feeds():
            if feed.is_quiet():
                self.mend(feed)

    def new_process_id(self) -> str:
        self.commands += 1
        return f"{self._prefix}-{self.commands}"

    def resolve(self, path: Place | None) -> uri.FileUri:
        """See `Client.resolve`."""
        path = None if path is None else place(path)
        if path is not None and path.startswith("file:"):
            return uri.parse(path)
        base = None if self._same_machine or self.info is None else self.info.cwd
        if base is None:
            if not (self._same_machine or self.info is None or (path or "").startswith("/")):
                raise SettingInvalid("the executor's working directory was removed: give an absolute path")
            try:
                here = os.path.abspath(path or ".")
            except FileNotFoundError:
                raise SettingInvalid(
                    "the current directory no longer exists: change to another one"
                ) from None
            return uri.parse(uri.from_path(here))
        if path is None:
            return base
        try:
            here = base.local_path()
        except ValueError:
            # Another path convention: only its own URIs can name places there.
            raise InvalidParams(f"{path!r} cannot be joined to {base.text}: use a file: URI") from None
        return uri.parse(uri.from_path(posixpath.normpath(posixpath.join(here, path))))

    # From the link

    def _noticed(self, notice: Notice) -> None:
        if isinstance(notice, ChangedNotice):
            watch = self.watches.get(notice.watch_id)
            if watch is not None:
                watch.receive(notice)
            return
        if isinstance(notice, BodyNotice):
            stream = self.streams.get(notice.request_id)
            if stream is not None:
                stream.receive(notice)
            return
        process = self.processes.get(notice.process_id)
        if process is not None:
            process._feed.receive(notice)
            self._forget_if_over(process._feed)

    def _asked(self, method: str, params: Json) -> Coroutine[object, object, Json] | None:
        """What the server wants to know: whether a command may reach a host. Who started it says so."""
        if method != "network/policyRequest":
            return None
        try:
            question = PolicyRequestParams.decode(params)
        except InvalidParams:
            return None
        process = self.processes.get(question.process_id)
        wanted = plain(NetworkTarget, question.request)
        return self._decide(None if process is None else process._feed.decide, wanted)

    async def _decide(self, decide: Decide | None, wanted: NetworkTarget) -> Json:
        answer = False if decide is None else decide(wanted)
        if not isinstance(answer, bool):
            answer = await answer
        return PolicyAnswer(ALLOW if answer else DENY, "not_allowed").encode()

    def _feeds(self) -> list[FedProcess]:
        return [process._feed for process in self.processes.values()]

    async def _catch_up(self, connection: ClientConnection) -> None:
        live = [one for one in self._feeds() if one.started and not one.over]
        await asyncio.gather(*(one.catch_up(connection) for one in live))
        for one in live:
            self._forget_if_over(one)

    def _forget_if_over(self, feed: FedProcess) -> None:
        if feed.over and feed.started:
            self.processes.pop(feed.process_id, None)

    def _changed(self, state: str) -> None:
        if state is not CONNECTED:
            lost = self.link.failure or Disconnected("the connection was lost, and this stream with it")
            for stream in list(self.streams.values()):
                stream.fail(lost)
        if state is FAILED:
            assert self.link.failure is not None
            for feed in self._feeds():
                feed.fail(self.link.failure)
            self.processes.clear()
            for watch in self.watches.values():
                watch.fail(self.link.failure)
        else:
            if state is CONNECTED:
                for watch in self.watches.values():
                    self._in_background(watch.renew())
            self._held = False  # a new connection reads from the start
            self.queued(0)
        if self._on_state is not None:
            self._on_state(state)

    @property
    def crowded(self) -> bool:
        """Whether so much output waits, in the way of others, that what nobody reads is to be held back."""
        return self.waiting > _QUEUED_BYTES and self._in_company

    @property
    def has_room(self) -> bool:
        """Whether so little waits that what was held back may come."""
        return self.waiting <= _QUEUED_BYTES // 2

    @property
    def _in_company(self) -> bool:
        """Whether what comes is for more than one. One alone is held back best by not reading on."""
        return self._calls > 0 or len(self.processes) + len(self.streams) + len(self.watches) > 1

    def hold(self, method: str, params: Json) -> None:
        """Lets the server keep the output of a source, or send it again."""
        if self.link.failure is None:
            self._in_background(self.link.clean_up(method, params))

    def queued(self, change: int) -> None:
        """Keeps count of output that waits for its reader; holds the connection back above the bound."""
        self.waiting += change
        if self.waiting <= _QUEUED_BYTES and not self._held:
            return
        connection = self.link.connection
        if connection is None:
            return
        more = self._calls or (self._in_company and self.offers("processHold"))
        bound = _QUEUED_BYTES_MORE if more else _QUEUED_BYTES
        if self._held and self.waiting <= bound - _QUEUED_BYTES // 2:
            self._held = False
            connection.transport.resume_reading()
        elif not self._held and self.waiting > bound:
            self._held = True
            connection.transport.pause_reading()

    def dropped(self, size: int) -> None:
        """So much of the output has gone with a handle that nobody has any more. From any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: nothing is read any more
                self._loop.call_soon_threadsafe(self.queued, -size)
