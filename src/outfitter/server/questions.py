"""What a server asks the client at the other end of a connection, and the answers.

There are as many questions at a time as somebody else allows (a proxy: as many as it has connections). An
answer that comes too late is dropped; one that nobody asked for ends the connection, as always.
"""

from __future__ import annotations

from ..log import note
from ..protocol import jsonrpc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop, Timer
    from ..protocol.jsontext import Json

    Done = Callable[[Json], None]


class ClientQuestions:
    """Those of one connection. Ids count from 1: clients have their own."""

    def __init__(self, loop: Loop, send: Callable[[bytes], object]) -> None:
        self._loop = loop
        self._send = send
        self._asked = 0
        self._open: dict[jsonrpc.RequestId, tuple[Done, Timer]] = {}

    def ask(self, method: str, params: Json, seconds: float, done: Done) -> None:
        """`done` gets the result once; None if there is none."""
        self._asked += 1
        ident = self._asked
        self._open[ident] = done, self._loop.call_later(seconds, self._settle, ident, None)
        self._send(jsonrpc.request(ident, method, params))

    def answered(self, reply: jsonrpc.Reply) -> bool:
        """False if that was never asked."""
        if type(reply.id) is not int or not 0 < reply.id <= self._asked:
            return False
        if reply.error is not None:
            note("server", "<", "a question was refused: %s", reply.error["code"])
        self._settle(reply.id, reply.result)
        return True

    def _settle(self, ident: jsonrpc.RequestId, result: Json) -> None:
        found = self._open.pop(ident, None)
        if found is not None:
            found[1].cancel()
            found[0](result)

    def lost(self) -> None:
        for ident in list(self._open):
            self._settle(ident, None)
