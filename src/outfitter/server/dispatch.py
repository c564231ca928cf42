"""Request → call → handler: finds the method, reads its params, checks the handshake.

A handler never sees bad params and never raises wire errors. Its module is loaded when the first of its
methods is called.
"""

from __future__ import annotations

from ..core.stdin import WAITING_BYTES
from ..log import note
from ..protocol.loading import load
from ..protocol.methods import METHODS
from ..refusals import MethodUnknown, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..core.peer import Peer
    from ..protocol.jsonrpc import Request
    from ..protocol.methods import Method
    from .call import Call, Channel, Handler
    from .session import Session

    class Asking(Channel, Protocol):
        """A connection: what a call needs, and how far its handshake is."""

        call_type: type[Call]

        @property
        def peer(self) -> Peer: ...


_handlers: dict[str, Handler] = {}


def dispatch(connection: Asking, request: Request, size: int) -> None:
    """Handles a request, which came as so many bytes: it is answered now or later."""
    if request.trace is not None:
        note("server", "<", "%s for trace %s", request.method, request.trace.get("traceparent"))
    call = connection.call_type(connection, request)
    call.size = size
    connection.services.pace.turn.append(request.method)
    try:
        method = METHODS.get(request.method)
        if method is None:
            raise MethodUnknown(request.method)
        # Params come before the handshake: bad ones are bad at any time (spec 2.3).
        params = method.decode(request.params)
        peer = connection.peer
        if peer.waiting:
            peer.may_reuse(request.id)
        if method.name == "initialize":
            peer.may_initialize()
        else:
            peer.may_call(method.family)
        handler = _handlers.get(method.handler) or _load(method)
        session = connection.session
        if session is not None and session.starting:
            waiting = session.starting.get(getattr(params, "process_id", ""))
            if waiting is not None:
                _set_aside(call, handler, params, session, waiting)
                return
    except Exception as error:
        call.refuse(error)
        return
    call.run(handler, params)


def _set_aside(
    call: Call, handler: Handler, params: Any, session: Session, waiting: list[Callable[[], None]]
) -> None:
    """Nothing overtakes the start of its process. Raises Refused where too much waits for that."""
    size = len(getattr(params, "chunk", b""))  # of a write; nothing else is long
    if session.held_bytes + size > WAITING_BYTES:
        raise Refused(
            f"process {params.process_id} has not started yet and too many writes are waiting; wait for "
            "their answers first"
        )
    call.later()
    session.held_bytes += size

    def go_on() -> None:
        session.held_bytes -= size
        # What a client that has gone wanted is not done; another one may have come back for the session.
        if call.open:
            call.run(handler, params)

    waiting.append(go_on)


def _load(method: Method) -> Handler:
    handler: Handler = load(f"{__package__}.handlers", method.handler)
    _handlers[method.handler] = handler
    return handler
