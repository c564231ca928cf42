"""One request on its way to its answer: all that a handler gets besides its params.

A handler is `(call, params) -> Result | Later`. Here, and nowhere else, a handler is run, a fault becomes an
answer, and an answer that comes later is sent. Nothing below knows connections or the server.
"""

from __future__ import annotations

import errno
import sys
import time

from ..earlyerrors import OutfitterError
from ..log import fault, note, warn
from ..protocol import codes, jsonrpc
from ..refusals import Exhausted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    from ..protocol.jsonrpc import Request, RequestId
    from ..protocol.jsontext import Json
    from ..protocol.results import Result, Wire
    from ..transport.base import Serving
    from .questions import Done
    from .services import Services
    from .session import Session

    F = TypeVar("F", bound="Feature")
    # Each handler takes the params of its row in protocol.methods; the table cannot say so.
    Handler = Callable[["Call", Any], "Result | Later"]

    class Notice(Protocol):
        def message(self) -> bytes: ...

    class Streaming(Protocol):
        """What sends the pieces of one answer: a transport, for that time."""

        @property
        def has_room(self) -> bool: ...
        def send_fragment(self, *parts: bytes) -> None: ...
        def end_message(self, *parts: bytes) -> None: ...
        def close(self, code: int, reason: str) -> None: ...

    class Feature(Protocol):
        """What lives as long as a connection: made when it is first needed, told when output may go on and
        when the connection is lost."""

        def __init__(self, channel: Channel, services: Services) -> None: ...
        def drained(self) -> None: ...
        def lost(self) -> None: ...

    class Channel(Protocol):
        """What calls and features need of their connection."""

        session: Session | None
        client_name: str

        @property
        def services(self) -> Services: ...
        @property
        def transport(self) -> Serving: ...
        @property
        def open(self) -> bool: ...
        @property
        def principal(self) -> str: ...
        @property
        def address(self) -> str: ...
        @property
        def full(self) -> bool: ...
        def greet(self, session: Session, client_name: str) -> None: ...
        def wait(self, call: Call) -> None: ...
        def answered(self, call: Call) -> None: ...
        def reply(self, message: bytes) -> None: ...
        def reply_parts(self, *parts: bytes) -> None: ...
        def push(self, *messages: bytes) -> bool: ...
        def push_parts(self, *messages: tuple[bytes, ...]) -> bool: ...
        def ask(self, method: str, params: Json, seconds: float, done: Done) -> None: ...
        def probe(self, seconds: float) -> None: ...
        def close(self, code: int, reason: str) -> None: ...
        def hold(self, reason: str, on: bool) -> None: ...
        def feature(self, kind: type[F]) -> F: ...


# The requests whose refusals are worth an observer's while: who wanted in, to run something, or to rule.
_WATCHED = ("initialize", "process/start", "server/sessions", "server/kill", "server/drain")


class Later:
    """What a handler returns when the answer comes later."""

    __slots__ = ()


LATER = Later()
_TRACE_CHARACTERS = 1024  # W3C Trace Context: 55 and 512


class Call:
    """A request: `id`, `method` and `trace` are the peer's, `services` are the server's. `size` is about how
    many bytes it came as."""

    __slots__ = ("_channel", "_waits", "cancel", "id", "method", "services", "size", "trace")

    span: object = None  # where requests are traced: see `server.observed`

    def __init__(self, channel: Channel, request: Request) -> None:
        self._channel = channel
        self._waits = False
        self.id: RequestId = request.id
        self.method = request.method
        self.trace: Json = None if request.trace is None else _known(request.trace)
        self.services = channel.services
        self.size = 0
        self.cancel: Callable[[], None] | None = None  # called if the connection is lost before the answer

    @property
    def session(self) -> Session:
        session = self._channel.session
        assert session is not None, "the handshake guarantees a session"
        return session

    @property
    def principal(self) -> str:
        """Who asks. What belongs to others does not exist for this request."""
        return self._channel.principal

    @property
    def client_name(self) -> str:
        return self._channel.client_name

    @property
    def open(self) -> bool:
        """Whether somebody still waits for the answer."""
        return self._channel.open

    # To its answer

    def run(self, handler: Handler, params: object) -> None:
        """Handles the request: answers, refuses, or leaves it to be answered later."""
        try:
            result = handler(self, params)
            if result is not LATER:
                self.send(result.wire())  # type: ignore[union-attr]
        except Exception as error:
            self.refuse(error)

    def later(self, cancel: Callable[[], None] | None = None) -> Later:
        """Says that `answer` or `refuse` will follow; `cancel` is called should the connection be lost first.

        Raises Refused when too many requests wait.
        """
        self.cancel = cancel
        if not self._waits:
            self._channel.wait(self)
            self._waits = True
        return LATER

    def answer(self, result: Result) -> None:
        self.send(result.wire())

    def send(self, wire: Wire) -> None:
        """Answers with a result's text that was written already, in a thread say."""
        if not self._settle():
            return
        if type(wire) is str:
            self._channel.reply(jsonrpc.result_text(self.id, wire))
        else:
            self._channel.reply_parts(jsonrpc.result_head(self.id), *wire, b"}")

    def refuse(self, error: BaseException) -> None:
        """Answers with an error. A fault of our own is logged; its text may be sensitive, and stays here."""
        error = _exhausted(error) or error
        if isinstance(error, OutfitterError):
            note("server", ">", "%s refused: %s", self.method, error.slug)
        else:
            fault("server", f"{self.method} failed", error)
        code, text, data = codes.of(error)
        if self.services.observer is not None and self.method in _WATCHED:
            self.observe("refused", method=self.method, error=data["error"])
        self.fail(code, text, data)

    def fail(self, code: int, text: str, data: Json) -> None:
        if self._settle():
            self._channel.reply(jsonrpc.error(self.id, code, text, data))

    def done(self, result: Result | None, failure: BaseException | None) -> None:
        """Answers with what came of work in a thread."""
        self.services.pace.turn.append(self.method)
        if failure is not None:
            self.refuse(failure)
        elif result is not None:
            self.answer(result)

    def stream(self, head: bytes, wake: Callable[[], None]) -> Streaming:
        """Begins an answer that is sent piece by piece, as the transport has room. `wake` says when it has.

        The last piece must end with what closes the result, and a brace.
        """
        self._settle()
        transport = self._channel.transport
        transport.begin_message(jsonrpc.result_head(self.id), head, wake=wake)
        return transport

    def _settle(self) -> bool:
        """Nothing waits any more; False when nobody is there to be answered."""
        if self._waits:
            self._waits = False
            self.cancel = None
            self._channel.answered(self)
        return self._channel.open

    # Beside it

    @property
    def context(self) -> Json:
        """The trace context of what this request causes: `traceparent` and `tracestate`, or None."""
        return self.trace

    def observe(self, event: str, **facts: Json) -> None:
        """Tells whoever watches the server what this request did."""
        observer = self.services.observer
        if observer is not None:
            session = self._channel.session
            ident = "" if session is None else session.id
            observer.happened(event, self._channel.principal, self._channel.address, ident, **facts)

    def tell(self, notice: Notice) -> None:
        if self._channel.open:
            self._channel.push(notice.message())

    def push(self, messages: list[bytes]) -> None:
        """Sends notices that are written already."""
        self._channel.push(*messages)

    def greet(self, session: Session, client_name: str) -> None:
        """The handshake succeeded: the connection has this session from now on."""
        self._channel.greet(session, client_name)

    @property
    def channel(self) -> Channel:
        """The connection, for a session that is attached to it."""
        return self._channel

    def feature(self, kind: type[F]) -> F:
        """The one of this kind that lives as long as the connection."""
        return self._channel.feature(kind)


def _known(trace: dict[str, Json]) -> Json:
    """What is kept of a trace: its known members, unless they are longer than the standard has them, or have
    what no header can: OpenTelemetry writes what it cannot read to the log."""
    told = {name: text for name in ("traceparent", "tracestate") if (text := trace.get(name)) is not None}
    whole = "".join(told.values()).replace("\t", " ")
    return told if len(whole) <= _TRACE_CHARACTERS and whole.isascii() and whole.isprintable() else None


_SAY_AGAIN_SECONDS = 10.0  # between two lines in the log: clients ask again at once
_said = -_SAY_AGAIN_SECONDS
# What a machine says that has nothing left: not a fault of ours, and another attempt may do better.
_SPENT = {
    getattr(errno, name): name
    for name in ("EIO", "EAGAIN", "ENOMEM", "ENFILE", "EMFILE", "ENOSPC", "ENOBUFS", "EDQUOT")
}


def _exhausted(error: BaseException) -> Exhausted | None:
    """What to tell for an error of the operating system that nobody expected."""
    if isinstance(error, MemoryError):
        name: str | None = "ENOMEM"
        said = "Cannot allocate memory"
    elif isinstance(error, OSError):
        name, said = _SPENT.get(error.errno or 0), error.strerror or ""
    elif isinstance(error, ImportError):
        # All our modules are there: one could not be read now. That a folder could not be looked at must not
        # be remembered.
        name, said = "EIO", f"cannot load {error.name}"
        for path in [path for path, finder in sys.path_importer_cache.items() if finder is None]:
            del sys.path_importer_cache[path]
    else:
        return None
    if name is None:
        return None
    told = f"the server's machine has run out of something ({said}); try again, or free files, memory or disk"
    global _said
    now = time.monotonic()
    if now - _said >= _SAY_AGAIN_SECONDS:
        _said = now
        warn("server", "%s", told)
    return Exhausted(told, name)
