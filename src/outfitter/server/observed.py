"""Connections whose requests are counted or traced. Loaded only where somebody asked for that."""

from __future__ import annotations

from time import perf_counter

from ..observe.metrics import LOST, OK
from ..protocol import codes
from .call import Call
from .connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span

    from ..errors import Malformed
    from ..observe.metrics import Metrics
    from ..observe.traces import Traces
    from ..protocol.jsonrpc import Request
    from ..protocol.jsontext import Json
    from ..protocol.results import Wire
    from ..protocol.websocket import Payload
    from ..transport.base import Serving
    from .call import Streaming
    from .server import Connecting
    from .services import Services


class ObservedCall(Call):
    """A request with a beginning, and a span where there are spans; both end when the answer is queued."""

    __slots__ = ("_began", "_over", "span")

    _channel: ObservedConnection
    span: Span | None

    def __init__(self, channel: ObservedConnection, request: Request) -> None:
        super().__init__(channel, request)
        traces = channel.traces
        self._over = False
        self._began = perf_counter()
        self.span = None if traces is None else traces.asked(self.method, self.trace)

    def send(self, wire: Wire) -> None:
        outcome = OK if self._channel.open else LOST
        super().send(wire)
        self.over(outcome)

    def fail(self, code: int, text: str, data: Json) -> None:
        super().fail(code, text, data)
        self.over(data["error"], code)

    def stream(self, head: bytes, wake: Callable[[], None]) -> Streaming:
        return _Streamed(super().stream(head, wake), self._channel, self)

    @property
    def context(self) -> Json:
        traces = self._channel.traces
        return self.trace if traces is None or self.span is None else traces.context(self.span)

    def over(self, outcome: str, code: int = 0) -> None:
        """It was answered, or will not be; once."""
        if self._over:
            return
        self._over = True
        metrics, traces = self._channel.metrics, self._channel.traces
        if metrics is not None:
            metrics.answered(self.method, outcome, perf_counter() - self._began)
        if traces is not None and self.span is not None:
            traces.answered(self.span, outcome, code)


class ObservedConnection(Connection):
    """A connection that tells of its requests and counts its bytes."""

    __slots__ = ("metrics", "streamed", "traces")

    call_type: type[Call] = ObservedCall

    def __init__(
        self,
        services: Services,
        transport: Serving,
        gone: Callable[[Connection], None],
        metrics: Metrics | None,
        traces: Traces | None,
    ) -> None:
        super().__init__(services, transport, gone)
        self.metrics = metrics
        self.traces = traces
        self.streamed: ObservedCall | None = None  # whose answer is sent in pieces now
        if metrics is not None:
            metrics.connected()

    def message(self, data: Payload) -> None:
        if self.metrics is not None:
            self.metrics.bytes_in += _size(data)
        super().message(data)

    def _refuse(self, error: Malformed) -> None:
        if self.metrics is not None:
            self.metrics.malformed(codes.of(error)[2]["error"])
        super()._refuse(error)

    def lost(self, reason: str) -> None:
        for call in (*self._waiting, self.streamed):
            if isinstance(call, ObservedCall):
                call.over(LOST)
        super().lost(reason)

    # What is sent

    def reply(self, message: bytes) -> None:
        if self.metrics is not None:
            self.metrics.bytes_out += len(message)
        super().reply(message)

    def reply_parts(self, *parts: bytes) -> None:
        if self.metrics is not None:
            self.metrics.bytes_out += sum(map(len, parts))
        super().reply_parts(*parts)

    def push(self, *messages: bytes) -> bool:
        if self.metrics is not None:
            self.metrics.bytes_out += sum(map(len, messages))
        return super().push(*messages)

    def push_parts(self, *messages: tuple[bytes, ...]) -> bool:
        if self.metrics is not None:
            self.metrics.bytes_out += sum([len(part) for parts in messages for part in parts])
        return super().push_parts(*messages)


class _Streamed:
    """A transport for one answer that is sent in pieces: tells of them, and of the end."""

    def __init__(self, transport: Streaming, channel: ObservedConnection, call: ObservedCall) -> None:
        self._transport = transport
        self._channel = channel
        self._call = call
        channel.streamed = call
        self.close = transport.close

    @property
    def has_room(self) -> bool:
        return self._transport.has_room

    def send_fragment(self, *parts: bytes) -> None:
        self._count(parts)
        self._transport.send_fragment(*parts)

    def end_message(self, *parts: bytes) -> None:
        self._count(parts)
        self._transport.end_message(*parts)
        self._channel.streamed = None
        self._call.over(OK)

    def _count(self, parts: tuple[bytes, ...]) -> None:
        if self._channel.metrics is not None:
            self._channel.metrics.bytes_out += sum(map(len, parts))


def observed(metrics: Metrics | None, traces: Traces | None) -> Connecting:
    """What makes connections that these hear of."""

    def connect(
        services: Services, transport: Serving, gone: Callable[[Connection], None]
    ) -> ObservedConnection:
        return ObservedConnection(services, transport, gone, metrics, traces)

    return connect


def _size(data: Payload) -> int:
    if isinstance(data, str):
        return len(data) if data.isascii() else len(data.encode())
    return sum(map(len, data)) if isinstance(data, tuple) else len(data)
