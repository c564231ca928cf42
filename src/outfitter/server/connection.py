"""One connection: messages in, answers and news out. The only reader and the only writer of its transport.

Requests are handled in the order they come, each to its answer, but for those that wait (a long poll, a
write to a full stdin): these are set aside and hold up nobody.
"""

from __future__ import annotations

from ..core.peer import Peer
from ..log import fault, note
from ..protocol import codes, jsonrpc
from ..refusals import Malformed, RemoteProtocolError
from ..transport.base import HIGH, LOW
from .call import Call
from .dispatch import dispatch
from .limits import ANSWERS_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from ..protocol.websocket import Payload
    from ..transport.base import Serving
    from .call import F, Feature
    from .questions import ClientQuestions, Done
    from .services import Services
    from .session import Session

# What may be left unanswered when the client will ask again: it changes nothing, or is done once by its id.
_ASKED_AGAIN = frozenset(
    ("process/read", "process/write", "server/upgrades", "fs/watchMissing", "fs/walk", "fs/search")
)
_ANSWERS = "answers"  # the reason for which a peer that does not read its answers is not read


class Connection:
    """The server's view of one client (a transport's Receiver). `gone` is called when it is lost."""

    __slots__ = (
        "_features",
        "_gone",
        "_holds",
        "_questions",
        "_waiting",
        "client_name",
        "open",
        "peer",
        "services",
        "session",
        "transport",
    )

    call_type = Call  # what a request becomes

    def __init__(self, services: Services, transport: Serving, gone: Callable[[Connection], None]) -> None:
        self.services = services
        self.transport = transport
        self.peer = Peer()
        self.session: Session | None = None
        self.client_name = ""
        self.open = True
        self._gone = gone
        self._features: dict[type[Feature], Feature] = {}
        self._waiting: set[Call] = set()
        self._questions: ClientQuestions | None = None  # that we ask; most connections are never asked any
        self._holds: set[str] = set()  # the reasons not to read on
        transport.receiver = self

    # From the transport

    def message(self, data: Payload) -> None:
        try:
            self._message(data)
        except Exception as error:
            # A fault of ours ends this connection, whose session can be resumed, and nothing else.
            fault("server", "a message could not be handled", error)
            self.transport.close(1011, codes.INTERNAL_ERROR)

    def _message(self, data: Payload) -> None:
        self.services.pace.asked()
        try:
            message = jsonrpc.parse_request(data)
        except Malformed as error:
            self._refuse(error)
            return
        if type(message) is jsonrpc.Request:
            dispatch(self, message, sum(map(len, data)) if type(data) is tuple else len(data))
            return
        try:
            self._notice(message)
        except RemoteProtocolError as error:
            # The reference drops the connection without a word; so do we, but say why.
            self.transport.close(error.close_code, error.reason)

    def _refuse(self, error: Malformed) -> None:
        self.reply(jsonrpc.error(error.request_id, *codes.of(error)))

    def _notice(self, message: jsonrpc.Request | jsonrpc.Notice | jsonrpc.Reply) -> None:
        if isinstance(message, jsonrpc.Notice):
            if message.method != "initialized":
                raise RemoteProtocolError(f"unknown notification `{message.method[:80]}`")
            self.peer.initialized()
        elif not (
            isinstance(message, jsonrpc.Reply) and self._questions and self._questions.answered(message)
        ):
            raise RemoteProtocolError("a response to a request that was never sent")

    def drained(self) -> None:
        self.hold(_ANSWERS, False)
        for feature in list(self._features.values()):
            feature.drained()
        if self.session is not None:
            self.session.resume_output()

    def lost(self, reason: str) -> None:
        note("server", "=", "connection lost: %s", reason)
        self.open = False
        waiting, self._waiting = self._waiting, set()
        for call in waiting:
            if call.cancel is not None:
                call.cancel()
        for feature in list(self._features.values()):
            feature.lost()
        if self._questions is not None:
            self._questions.lost()
        self._gone(self)

    # For calls and features

    def greet(self, session: Session, client_name: str) -> None:
        self.session = session
        self.client_name = client_name
        self.peer.greeted()

    def wait(self, call: Call) -> None:
        self.peer.wait(call.id)
        self._waiting.add(call)

    def answered(self, call: Call) -> None:
        self.peer.answered(call.id)
        self._waiting.discard(call)

    @property
    def at_rest(self) -> bool:
        """Whether every request that may have changed something was answered, and the answers are sent."""
        return self.transport.all_sent and all(call.method in _ASKED_AGAIN for call in self._waiting)

    def feature(self, kind: type[F]) -> F:
        made = self._features.get(kind)
        if made is None:
            made = self._features[kind] = kind(self, self.services)
        return made  # type: ignore[return-value]

    def hold(self, reason: str, on: bool) -> None:
        """Stops reading for a reason, or takes that back; reads on when none is left."""
        if on == (reason in self._holds):
            return
        if on:
            if not self._holds:
                self.transport.pause_reading()
            self._holds.add(reason)
        else:
            self._holds.discard(reason)
            if not self._holds:
                self.transport.resume_reading()

    # To the transport

    def reply(self, message: bytes) -> None:
        """Sends an answer. A peer that asks without reading the answers is not read for a while."""
        transport = self.transport
        transport.send(message)
        if transport.buffered > LOW:
            self._waits_to_be_read(transport.buffered)

    def reply_parts(self, *parts: bytes) -> None:
        """As `reply`, of an answer that need not be joined first."""
        transport = self.transport
        transport.send_parts(parts)
        if transport.buffered > LOW:
            self._waits_to_be_read(transport.buffered)

    def _waits_to_be_read(self, buffered: int) -> None:
        """Does not read a peer that has too much to read itself, or too much together with its principal's
        other connections."""
        if buffered > ANSWERS_BYTES or self.services.too_many_answers(self.principal):
            self.hold(_ANSWERS, True)

    @property
    def principal(self) -> str:
        """Who is at the other end."""
        return self.transport.principal

    @property
    def address(self) -> str:
        """Where it comes from, for people."""
        return self.transport.address

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

    def ask(self, method: str, params: Json, seconds: float, done: Done) -> None:
        """Asks the client. `done` gets the result, or None: it refused, took too long, or is gone."""
        if self._questions is None:
            from .questions import ClientQuestions

            self._questions = ClientQuestions(self.services.loop, self.push)
        self._questions.ask(method, params, seconds, done)

    def probe(self, seconds: float) -> None:
        self.transport.probe(seconds)

    def close(self, code: int, reason: str) -> None:
        self.transport.close(code, reason)
