"""Request → handler → answer: finds the method, reads its params, checks the handshake, maps errors.

A handler never sees bad params and never raises wire errors; it returns JSON text, or None when the
answer comes later.
"""

from __future__ import annotations

from ..errors import MethodUnknown, OutfitterError
from ..log import note, warn
from ..protocol import codes, jsonrpc
from ..protocol.methods import METHODS
from .asking import hold
from .handlers import HANDLERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .connection import Connection


def dispatch(connection: Connection, request: jsonrpc.Request) -> bytes | None:
    """The answer to a request, or None when it comes later."""
    if request.trace is not None:
        note("server", "<", "%s for trace %s", request.method, request.trace.get("traceparent"))
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
        session = connection.session
        if session is not None and session.starting:
            process_id = getattr(params, "process_id", None)
            if process_id is not None and hold(connection, request, process_id):
                return None
        text = HANDLERS[method.name](connection, request, params)
        return None if text is None else jsonrpc.result_text(request.id, text)
    except OutfitterError as error:
        note("server", ">", "%s refused: %s", request.method, error.slug)
        return jsonrpc.error(request.id, *codes.of(error))
    except Exception:
        # Details may be sensitive: they go to the log, not to the peer.
        warn("server", "%s failed", request.method, exc_info=True)
        return jsonrpc.error(request.id, codes.INTERNAL, "internal error", {"error": "internal-error"})
