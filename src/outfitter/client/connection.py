"""A client's end of one connection: pending calls, incoming notices. Lives on an asyncio loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import Disconnected, Malformed, RequestFailed
from ..log import note
from ..protocol import codes, jsonrpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from ..transport.base import Transport

MAX_PENDING = 1024  # calls in flight, as the reference's client


class ClientConnection:
    """Sends requests and matches answers (a transport's Receiver)."""

    def __init__(
        self,
        transport: Transport,
        noticed: Callable[[str, Json], None],
        lost: Callable[[Disconnected], None],
    ) -> None:
        self.transport = transport
        self._noticed = noticed
        self._lost = lost
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self._next_id = 1
        self._failure: Disconnected | None = None
        transport.receiver = self

    # Calls

    async def call(self, method: str, params: Json) -> Json:
        """The result of a request. Raises RequestFailed, Disconnected."""
        if self._failure is not None:
            raise self._failure
        if len(self._pending) >= MAX_PENDING:
            raise RequestFailed(codes.INVALID_REQUEST, f"reached its limit of {MAX_PENDING} pending requests")
        ident = self._next_id
        self._next_id += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[ident] = answer
        self.transport.send(jsonrpc.request(ident, method, params))
        try:
            return await answer
        finally:
            self._pending.pop(ident, None)

    def notify(self, method: str, params: Json) -> None:
        self.transport.send(jsonrpc.notice(method, params))

    def close(self) -> None:
        self.transport.close(1000, "")

    # From the transport

    def message(self, data: str | bytes) -> None:
        try:
            message = jsonrpc.parse(data)
        except Malformed as error:
            self.transport.close(1002, f"unreadable message: {error.detail}")
            return
        if isinstance(message, jsonrpc.Notice):
            self._noticed(message.method, message.params)
        elif isinstance(message, jsonrpc.Request):
            refusal = f"exec-server client does not implement `{message.method}` yet"
            self.transport.send(jsonrpc.error(message.id, codes.METHOD_NOT_FOUND, refusal))
        else:
            self._answered(message)

    def _answered(self, reply: jsonrpc.Reply) -> None:
        answer = self._pending.get(reply.id)
        if answer is None or answer.done():
            note("client", "<", "an answer nobody waits for")
        elif reply.error is not None:
            error = reply.error
            answer.set_exception(RequestFailed(error["code"], error["message"], error.get("data")))
        else:
            answer.set_result(reply.result)

    def drained(self) -> None:
        """Requests are small and few; nothing waits for room."""

    def lost(self, reason: str) -> None:
        self._failure = Disconnected(reason)
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(self._failure)
        self._lost(self._failure)
