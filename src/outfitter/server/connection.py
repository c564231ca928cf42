"""One connection: messages in, answers and news out. The only reader and the only writer of its transport.

Requests are handled in the order they come, each to its answer, but for those that wait (a long poll, a
write to a full stdin): these are set aside and hold up nobody.
"""

from __future__ import annotations

from ..core.peer import Peer
from ..errors import Malformed, RemoteProtocolError
from ..log import note, warn
from ..protocol import codes, jsonrpc
from ..transport.base import HIGH
from .dispatch import dispatch
from .limits import ANSWERS_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.websocket import Payload
    from ..transport.base import Serving
    from .files import FileWork
    from .search import Searches
    from .server import Server
    from .session import Session
    from .watching import Watches


class Connection:
    """The server's view of one client (a transport's Receiver)."""

    __slots__ = (
        "_held",
        "_held_for_files",
        "client_name",
        "files",
        "peer",
        "searches",
        "server",
        "session",
        "transport",
        "watches",
    )

    def __init__(self, server: Server, transport: Serving) -> None:
        self.server = server
        self.transport = transport
        self.peer = Peer()
        self.session: Session | None = None
        self.files: FileWork | None = None  # made by the first file request
        self.watches: Watches | None = None  # and by the first watch
        self.searches: Searches | None = None  # and by the first search
        self.client_name = ""
        self._held = False
        self._held_for_files = False
        transport.receiver = self

    # From the transport

    def message(self, data: Payload) -> None:
        try:
            self._message(data)
        except Exception:
            # A fault of ours ends this connection, whose session can be resumed, and nothing else.
            warn("server", "a message could not be handled", exc_info=True)
            self.transport.close(1011, "internal error")

    def _message(self, data: Payload) -> None:
        self.server.sessions.disturbed()
        try:
            message = jsonrpc.parse(data)
        except Malformed as error:
            self.reply(jsonrpc.error(error.request_id, *codes.of(error)))
            return
        if type(message) is jsonrpc.Request:
            answer = dispatch(self, message)
            if answer is not None:
                self.reply(answer)
            return
        try:
            self._notice(message)
        except RemoteProtocolError as error:
            # The reference drops the connection without a word; so do we, but say why.
            self.transport.close(error.close_code, error.reason)

    def _notice(self, message: jsonrpc.Request | jsonrpc.Notice | jsonrpc.Reply) -> None:
        if isinstance(message, jsonrpc.Notice):
            if message.method != "initialized":
                raise RemoteProtocolError(f"unknown notification `{message.method[:80]}`")
            self.peer.initialized()
        else:
            raise RemoteProtocolError("a response to a request that was never sent")

    def drained(self) -> None:
        if self._held:
            self._held = False
            self._read_on()
        if self.files is not None:
            self.files.drained()
        if self.watches is not None:
            self.watches.drained()
        if self.session is not None:
            self.session.resume_output()

    def lost(self, reason: str) -> None:
        note("server", "=", "connection lost: %s", reason)
        if self.files is not None:
            self.files.lost()
        if self.watches is not None:
            self.watches.lost()
        if self.searches is not None:
            self.searches.lost()
        self.server.disconnected(self)

    # To the transport

    def reply(self, message: bytes) -> None:
        """Sends an answer. A peer that asks without reading the answers is not read for a while."""
        transport = self.transport
        transport.send(message)
        if transport.buffered > ANSWERS_BYTES and not self._held:
            self._hold()

    def reply_parts(self, *parts: bytes) -> None:
        """As `reply`, of an answer that need not be joined first."""
        transport = self.transport
        transport.send_parts(parts)
        if transport.buffered > ANSWERS_BYTES and not self._held:
            self._hold()

    def _hold(self) -> None:
        self._held = True
        self.transport.pause_reading()

    def hold_for_files(self, hold: bool) -> None:
        """Stops or goes on reading, because of what waits to be written to disks."""
        if hold == self._held_for_files:
            return
        self._held_for_files = hold
        if hold:
            self.transport.pause_reading()
        else:
            self._read_on()

    def _read_on(self) -> None:
        if not self._held and not self._held_for_files:
            self.transport.resume_reading()

    @property
    def full(self) -> bool:
        """Whether output should wait until `drained`."""
        return self.transport.buffered >= HIGH

    def push(self, *messages: bytes) -> bool:
        """Sends news; False when output should wait until `drained`."""
        transport = self.transport
        transport.send(*messages)
        return transport.buffered < HIGH

    def push_parts(self, *messages: tuple[bytes, ...]) -> bool:
        """Sends news given in parts; False as `push`."""
        transport = self.transport
        transport.send_parts(*messages)
        return transport.buffered < HIGH

    def probe(self, seconds: float) -> None:
        self.transport.probe(seconds)
