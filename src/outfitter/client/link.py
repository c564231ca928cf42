"""One logical connection over many: calls that wait while it recovers, a single way back for all of them.

The decisions are in `core.recovery`; here are the dialling, the handshake and the waiting.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.recovery import FAILED, RECOVERING, Recovery
from ..core.retry import after_restart
from ..errors import DialFailed, Disconnected, InvalidParams, OutfitterError, Overloaded, SessionExpired
from ..log import fault, note
from ..protocol.session import LEFT, TAKEN_OVER, InitializeParams, InitializeResult, restarts
from .connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ..protocol.jsontext import Json
    from ..protocol.notices import Notice
    from ..transport.base import Dialled

    Dial = Callable[[], Awaitable[Dialled]]
    CatchUp = Callable[[ClientConnection], Awaitable[None]]

MAX_CALLS = 1024  # in flight or waiting for a recovery, as the reference's client

RECOVERY_SECONDS = 25.0  # the reference's, for a server that keeps sessions for 30
MARGIN_SECONDS = 5.0  # the same margin, when a server says how long it keeps them

CLIENT_NAME = "outfitter"


class Link:
    """A session on a server, reached over one connection at a time.

    `catch_up` is awaited on each new connection of an old session before anybody else uses it; `changed`
    is told of every change of state.
    """

    def __init__(
        self,
        dial: Dial,
        *,
        resumable: bool,
        initialize_timeout: float,
        recovery_timeout: float | None,
        noticed: Callable[[Notice], None],
        asked: Callable[[str, Json], Coroutine[object, object, Json] | None],
        catch_up: CatchUp,
        changed: Callable[[str], None],
        summaries: bool = False,
        operate: bool = False,
    ) -> None:
        self._summaries = summaries
        self._operate = operate
        self.session_id = ""
        self.connection: ClientConnection | None = None
        self._dial = dial
        self._initialize_timeout = initialize_timeout
        self._noticed = noticed
        self._asked = asked
        self._catch_up = catch_up
        self._changed = changed
        self._follow_retention = recovery_timeout is None
        limit = RECOVERY_SECONDS if recovery_timeout is None else recovery_timeout
        self._recovery = Recovery(limit=limit, resumable=resumable)
        self._settled = asyncio.Event()  # connected or failed
        self._way_back: asyncio.Task[None] | None = None
        self._dialled: Dialled | None = None  # the newest, in use or not
        self._calls = 0

    @property
    def state(self) -> str:
        return self._recovery.state

    @property
    def generation(self) -> int:
        return self._recovery.generation

    @property
    def failure(self) -> SessionExpired | None:
        return self._recovery.failure

    @property
    def reason(self) -> str:
        """Why the last connection ended."""
        return self._recovery.reason

    # Opening

    async def open(self, resume: str | None = None, *, take_over: bool = False) -> InitializeResult:
        """The first connection. Raises DialFailed, RequestFailed."""
        generation = self._recovery.generation
        again = True  # the next version of a server that restarts waits for this handshake
        while True:
            try:
                connection, result = await self._attach(generation, resume, take_over=take_over)
                connection.check()
                break
            except Disconnected as error:
                if again and self._dialled is not None and restarts(self._dialled.close_code, str(error)):
                    again = False
                    continue
                raise DialFailed(
                    f"the connection was lost during the handshake: {error}", retryable=True
                ) from None
        self._opened(result)
        self.connection = connection
        self._settled.set()
        return result

    def take_up(self, result: InitializeResult, reason: str) -> None:
        """Goes on with a session that somebody else has opened and whose connection is lost."""
        self._opened(result)
        self._come_back(self._recovery.generation, reason)

    def _opened(self, result: InitializeResult) -> None:
        self.session_id = result.session_id
        if self._follow_retention and result.info is not None and result.info.session_retention:
            self._recovery.limit = max(MARGIN_SECONDS, result.info.session_retention - MARGIN_SECONDS)

    async def _attach(
        self, generation: int, resume: str | None, *, take_over: bool = False
    ) -> tuple[ClientConnection, InitializeResult]:
        """A new connection that holds the session. Raises DialFailed, Disconnected, RequestFailed."""
        transport = self._dialled = await self._dial()
        connection = ClientConnection(
            transport,
            # Late news of an older connection is not heard: its session has moved on.
            lambda notice: self._noticed(notice) if generation == self._recovery.generation else None,
            lambda reason: self._lost(generation, reason),
            self._asked,
        )
        try:
            async with asyncio.timeout(self._initialize_timeout):
                params = InitializeParams(
                    CLIENT_NAME, resume, take_over, self._summaries, self._operate
                ).encode()
                result = InitializeResult.decode(await connection.call("initialize", params))
                connection.notify("initialized", {})
            if result.info is not None and "sessionLeave" in result.info.capabilities:
                connection.ahead = MAX_CALLS  # a server of ours goes on writing, whatever it reads
            if resume is not None and result.session_id != resume:
                raise InvalidParams("the server resumed a different session")
        except TimeoutError:
            connection.close()
            limit = f"{self._initialize_timeout:g} s"
            raise DialFailed(
                f"the server did not answer `initialize` within {limit}", retryable=True
            ) from None
        except InvalidParams as error:
            connection.close()
            raise DialFailed(
                f"the server's answer to `initialize` is unusable: {error}", retryable=False
            ) from None
        except BaseException:
            connection.close()
            raise
        return connection, result

    # Calls

    async def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """The result of a request.

        While the link recovers a call waits, or fails at once with `wait=False`. One that was under way
        when the connection broke raises Disconnected, unless `repeat` says that it may be sent again, or a
        server that restarts has said that it was not handled.
        Raises RequestFailed, Disconnected, SessionExpired, Overloaded.
        """
        if self._calls >= MAX_CALLS:
            raise Overloaded(f"this client has reached its limit of {MAX_CALLS} pending requests")
        self._calls += 1
        try:
            return await self._call(method, params, repeat, wait)
        finally:
            self._calls -= 1

    async def clean_up(self, method: str, params: Json) -> None:
        """A call that must arrive, whatever else waits; repeated until it is answered or nobody is left."""
        try:
            await self._call(method, params, True, True)
        except OutfitterError as error:
            note("client", "!", "cleaning up failed: %s", error)

    async def _call(self, method: str, params: Json, repeat: bool, wait: bool) -> Json:
        while True:
            if self.failure is not None:
                # Another one each time, for its own traceback; what a caller gave to `fail` stays what it is.
                if type(self.failure) is not SessionExpired:
                    raise self.failure.with_traceback(None)
                raise SessionExpired(str(self.failure))
            connection = self.connection
            if connection is None:
                if not wait:
                    raise Disconnected("exec-server environment is recovering")
                await self._settled.wait()
                continue
            try:
                return await connection.call(method, params)
            except Disconnected:
                # The loss was noticed before this was raised: the next turn waits for the way back.
                again = repeat or (connection.left_undone and after_restart(method))
                if self.failure is None and not again:
                    raise

    # Losing and coming back

    def _lost(self, generation: int, reason: str) -> None:
        if self.connection is not None:
            for_good = self.connection.transport.close_code == TAKEN_OVER
            self._come_back(generation, reason, for_good=for_good)

    def _come_back(self, generation: int, reason: str, *, for_good: bool = False) -> None:
        loop = asyncio.get_running_loop()
        if not self._recovery.lost(generation, reason, loop.time(), for_good=for_good):
            return
        note("client", "=", "connection lost: %s", reason)
        self.connection = None
        if self._recovery.state is RECOVERING:
            self._settled.clear()
            self._way_back = loop.create_task(self._recover())
        self._tell()

    async def _recover(self) -> None:
        """The one way back, shared by everybody who waits."""
        recovery = self._recovery
        loop = asyncio.get_running_loop()
        while (wait := recovery.next_attempt(loop.time())) is not None:
            await asyncio.sleep(wait)
            generation = recovery.begin_attempt()
            try:
                async with asyncio.timeout(recovery.left(loop.time())):
                    self.connection = await self._resume(generation)
            except TimeoutError:
                continue  # the time is up, which the next turn finds
            except OutfitterError as error:
                note("client", "=", "could not resume: %s", error)
                if recovery.attempt_failed(error):
                    continue
                break
            except Exception as error:  # of a carrier, or a fault of ours: nobody may wait for it for ever
                fault("client", "the session could not be resumed", error)
                recovery.close(SessionExpired(f"{self.reason}; failed to resume: {type(error).__name__}"))
                break
            recovery.resumed()
            break
        self._settled.set()
        self._tell()

    async def _resume(self, generation: int) -> ClientConnection:
        """A connection that holds our session, with everything missed made up for."""
        connection, _ = await self._attach(generation, self.session_id)
        try:
            await self._catch_up(connection)
            connection.check()
        except BaseException:
            connection.close()
            raise
        return connection

    def _tell(self) -> None:
        if self._recovery.state is FAILED:
            self._settled.set()
        self._changed(self._recovery.state)

    # Closing

    def fail(self, error: SessionExpired) -> None:
        """Ends the link at once: whoever waits, and whoever asks later, gets this error."""
        failed_before = self._recovery.state is FAILED
        self._recovery.close(error)
        if failed_before:
            return  # who waited has been told
        if self._way_back is not None:
            self._way_back.cancel()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abandon(str(error))
        self._tell()

    async def close(self, *, leave: bool = False) -> None:
        """Ends the link; whoever still waits gets SessionExpired. With `leave` the session is given up."""
        self.shut(leave=leave)
        if self._way_back is not None:
            await asyncio.gather(self._way_back, return_exceptions=True)
        if self._dialled is not None:
            # Also when the handshake failed: a program that was started for it must not outlive it.
            await self._dialled.wait_ended()

    def shut(self, *, leave: bool = False) -> None:
        """The same, without waiting for what is left of it."""
        failed_before = self._recovery.state is FAILED
        self._recovery.close()
        if self._way_back is not None:
            self._way_back.cancel()
        connection, self.connection = self.connection, None
        self._settled.set()
        if connection is not None:
            connection.close(LEFT if leave else 1000)
        if not failed_before:
            self._tell()
