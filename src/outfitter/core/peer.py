"""One endpoint of a connection: how far the handshake is, and which requests wait for their answer.

new ──initialize──▶ greeted ──initialized──▶ ready
 ▲        │ failed
 └────────┘                (`initialized` again in `ready` changes nothing)
"""

from __future__ import annotations

from ..protocol.fields import check_identifier
from ..refusals import Refused, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.jsonrpc import RequestId

NEW, GREETED, READY = "new", "greeted", "ready"

# Requests of one connection that wait at a time: as many as the reference's own client can have open.
WAITING_LIMIT = 1024


class Peer:
    """Handshake and open requests of the other side."""

    __slots__ = ("state", "waiting")

    def __init__(self) -> None:
        self.state = NEW
        self.waiting: set[RequestId] = set()

    # Handshake

    def may_initialize(self) -> None:
        if self.state is not NEW:
            raise Refused("initialize may only be sent once per connection")

    def greeted(self) -> None:
        """`initialize` succeeded."""
        self.state = GREETED

    def initialized(self) -> None:
        """The notice came. Raises RemoteProtocolError when it comes too early."""
        if self.state is NEW:
            raise RemoteProtocolError("initialized before initialize")
        self.state = READY

    def may_call(self, family: str) -> None:
        """Raises Refused while methods of this family may not be used yet."""
        if self.state is not READY:
            step = "call initialize" if self.state is NEW else "send initialized"
            raise Refused(f"client must {step} before using {family} methods")

    # Requests that are not answered at once

    def may_reuse(self, ident: RequestId) -> None:
        """Raises Refused when `ident` belongs to a request that still waits."""
        if ident in self.waiting:
            raise Refused(f"request id {ident!r} is still in use: wait for its answer or choose another")

    def wait(self, ident: RequestId) -> None:
        """Registers a request that will be answered later. Raises Refused at the bound, LimitExceeded."""
        if type(ident) is str:
            check_identifier(ident, "the id of a request that waits")  # one that is answered is forgotten
        if len(self.waiting) >= WAITING_LIMIT:
            raise Refused(
                f"{WAITING_LIMIT} requests of this connection are waiting already; wait for one of them first"
            )
        self.waiting.add(ident)

    def answered(self, ident: RequestId) -> None:
        self.waiting.discard(ident)
