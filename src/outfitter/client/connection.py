"""A client's end of one connection: pending calls, incoming notices. Lives on an asyncio loop.

It is one generation of a client, which may outlive it (`client.link`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import Disconnected, InvalidParams, LocalProtocolError, Malformed, RequestFailed
from ..log import fault, note
from ..observe.context import current
from ..protocol import codes, jsonrpc
from ..protocol.notices import NOTICES
from ..protocol.processnotices import quick_output
from ..protocol.session import restarts
from ..transport.base import HIGH

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..protocol.jsontext import Json
    from ..protocol.notices import Notice
    from ..protocol.websocket import Payload
    from ..transport.base import Dialled

MAX_MESSAGE = 64 << 20  # what servers take, ours and the reference
# Requests that the reference has not answered yet. It has room for 128 that it has not looked at, and when
# that is full it does not write, either: then answers that nobody takes keep it from its requests, for ever.
MAX_AHEAD = 96
# Those that may wait for more than their turn: they keep no room there, and must not keep others waiting.
_WAITING = ("http/request", "process/read")
MAX_QUESTIONS = 1024  # of a server that wait for an answer: four commands' proxies at their limit


class ClientConnection:
    """Sends requests and matches answers (a transport's Receiver)."""

    def __init__(
        self,
        transport: Dialled,
        noticed: Callable[[Notice], None],
        lost: Callable[[str], None],
        asked: Callable[[str, Json], Coroutine[object, object, Json] | None] | None = None,
    ) -> None:
        """`asked` answers what the server asks; None for what it does not know."""
        self.transport = transport
        self._noticed = noticed
        self._asked = asked
        self._answering: set[asyncio.Task[None]] = set()
        self._lost = lost
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self.ahead = MAX_AHEAD  # how many requests may wait; whoever knows the server sets it
        self._ahead = 0
        self._unheard: set[int | str] = set()  # requests among them for whose answer nobody waits any more
        self._full = False  # until half of them are answered: to wake everybody for each would take long
        self._next_id = 1
        self._failure: Disconnected | None = None
        self._room: asyncio.Event | None = None  # set when what waits to be sent has shrunk
        transport.receiver = self
        transport.begin()

    # Calls

    async def call(self, method: str, params: Json) -> Json:
        """The result of a request. Raises RequestFailed, InvalidParams, Disconnected, LocalProtocolError."""
        counts = method not in _WAITING
        while self._failure is None and (self.transport.buffered > HIGH or (counts and self._full)):
            # A peer that reads slowly slows its callers down; nothing piles up here.
            self._room = self._room or asyncio.Event()
            await self._room.wait()
        self.check()
        ident = self._next_id
        self._next_id += 1
        try:
            message = jsonrpc.request(ident, method, params, current())
        except ValueError as error:  # of infinity, say
            raise InvalidParams(f"{method} cannot be sent: {error}") from None
        if len(message) > MAX_MESSAGE:
            raise LocalProtocolError(
                f"{method} needs a message of {len(message)} bytes, and the limit is {MAX_MESSAGE}"
            )
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[ident] = answer
        self._ahead += counts
        self._full = self._full or self._ahead >= self.ahead
        self.transport.send(message)
        try:
            return await answer
        finally:
            self._pending.pop(ident, None)
            if counts and answer.cancelled() and self.ahead == MAX_AHEAD:
                self._unheard.add(ident)  # the reference has it to answer all the same
            elif counts:
                self._make_room()

    def _make_room(self) -> None:
        """A request is answered."""
        self._ahead -= 1
        if self._full and self._ahead <= self.ahead // 2:
            self._full = False
            self.drained()

    def check(self) -> None:
        """Raises Disconnected when the connection is gone."""
        if self._failure is not None:
            raise Disconnected(str(self._failure))

    @property
    def left_undone(self) -> bool:
        """Whether the server has said, at the end, that it has not handled what it has not answered."""
        return self._failure is not None and restarts(self.transport.close_code, str(self._failure))

    def notify(self, method: str, params: Json) -> None:
        self.transport.send(jsonrpc.notice(method, params))

    def close(self, code: int = 1000) -> None:
        self.transport.close(code, "")

    def abandon(self, reason: str) -> None:
        """Lets go of the connection at once; whoever waits for an answer gets Disconnected."""
        self.transport.abort()
        self.lost(reason)

    # From the transport

    def message(self, data: Payload) -> None:
        try:
            self._message(data)
        except (Malformed, InvalidParams) as error:
            # As the reference's client: what cannot be read may have been output. The session has it still.
            self.transport.close(1002, f"unreadable message: {error}")
        except Exception as error:
            fault("client", "a message could not be handled", error)
            self.transport.close(1011, "internal error")

    def _message(self, data: Payload) -> None:
        if type(data) is bytes:
            output = quick_output(data)
            if output is not None:
                self._noticed(output)
                return
        message = jsonrpc.parse(data)
        if isinstance(message, jsonrpc.Notice):
            decode = NOTICES.get(message.method)
            if decode is not None:
                self._noticed(decode(message.params))
        elif isinstance(message, jsonrpc.Request):
            self._answer(message)
        else:
            self._answered(message)

    def _answer(self, request: jsonrpc.Request) -> None:
        answer = None
        if self._asked is not None and len(self._answering) < MAX_QUESTIONS:
            answer = self._asked(request.method, request.params)
        if answer is None:
            refusal = f"exec-server client does not implement `{request.method}` yet"
            self.transport.send(jsonrpc.error(request.id, codes.METHOD_NOT_FOUND, refusal))
            return
        task = asyncio.get_running_loop().create_task(self._answer_with(request, answer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        task.add_done_callback(lambda _: answer.close())  # one that was cancelled first has not awaited it

    async def _answer_with(self, request: jsonrpc.Request, answer: Coroutine[object, object, Json]) -> None:
        try:
            message = jsonrpc.result(request.id, await answer)
        except Exception as error:
            fault("client", f"`{request.method}` could not be answered", error)
            message = jsonrpc.error(request.id, codes.INTERNAL, codes.INTERNAL_ERROR)
        if self._failure is None:
            self.transport.send(message)

    def _answered(self, reply: jsonrpc.Reply) -> None:
        answer = self._pending.get(reply.id)
        if reply.id in self._unheard:
            self._unheard.discard(reply.id)
            self._make_room()
        elif answer is None or answer.done():
            note("client", "<", "an answer that matches no request")
        elif reply.error is not None:
            error = reply.error
            answer.set_exception(RequestFailed(error["code"], error["message"], error.get("data")))
        else:
            answer.set_result(reply.result)

    def drained(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def lost(self, reason: str) -> None:
        self._failure = Disconnected(reason)
        self.drained()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(Disconnected(reason))
        for task in self._answering:
            task.cancel()  # nobody waits for it any more
        self._lost(reason)
