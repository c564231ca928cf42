"""Spans of requests and of processes, through OpenTelemetry. Imported only where it is installed and wanted.

A span has the method's name, codes and numbers: no command line, no value, no path, no text of an error.
"""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..log import fault
from .metrics import LOST, OK, known
from .observer import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from opentelemetry.trace import Span, Tracer

    from ..protocol.jsontext import Json
    from .observer import Process, StartedCommand

_W3C = TraceContextTextMapPropagator()
_NOWHERE = Context()  # not what surrounds the server: a request has the parent that it names


class Traces(Observer):
    """The spans of a server. `flush` sends what waits, in bounded time."""

    def __init__(self, tracer: Tracer, flush: Callable[[], object] | None = None) -> None:
        self._tracer = tracer
        self._flush = flush
        self._processes: dict[int, Span] = {}  # of those that run, by their marks

    # Requests

    def asked(self, method: str, trace: Json) -> Span:
        """The span of a request, from the context that its client has sent."""
        name = known(method)
        return self._tracer.start_span(
            name,
            _W3C.extract(trace or {}, _NOWHERE),
            SpanKind.SERVER,
            {"rpc.system": "jsonrpc", "rpc.method": name},
        )

    def answered(self, span: Span, outcome: str, code: int) -> None:
        """The answer is queued; `outcome` as for `Metrics.answered`."""
        if outcome != OK:
            span.set_attribute("error.type", outcome)
            if outcome != LOST:
                span.set_attribute("rpc.jsonrpc.error_code", code)
            span.set_status(StatusCode.ERROR)
        span.end()

    @staticmethod
    def context(span: Span) -> dict[str, str]:
        """`traceparent` and `tracestate` of what a span causes."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, set_span_in_context(span, _NOWHERE))
        return carrier

    # Processes (Observer)

    def started(self, begun: StartedCommand) -> None:
        span: Any = begun.span
        parent = _NOWHERE if span is None else set_span_in_context(span, _NOWHERE)
        self._processes[begun.process.mark] = self._tracer.start_span("process", parent)

    def ended(self, process: Process) -> None:
        span = self._processes.pop(process.mark, None)
        if span is None:
            return
        code = process.log.exit_code
        assert code is not None, "a closed process has exited"
        span.set_attribute("process.exit.code", code)
        span.set_attribute("outfitter.process.output_bytes", process.log.total_bytes)
        if process.killed_by is not None:
            span.set_attribute("outfitter.process.signal", process.killed_by)
        if code:
            span.set_status(StatusCode.ERROR)
        span.end()

    # The next version

    def leave(self) -> dict[str, str]:
        """A span cannot be handed over: it ends, and the next version begins another below it."""
        left = {}
        for mark, span in self._processes.items():
            left[str(mark)] = self.context(span).get("traceparent", "")
            span.set_attribute("outfitter.process.handed_over", True)
            span.end()
        self._processes.clear()
        return left

    def take(self, process: Process, left: str) -> None:
        parent = _W3C.extract({"traceparent": left}, _NOWHERE)
        self._processes[process.mark] = self._tracer.start_span("process", parent)

    def flush(self) -> None:
        if self._flush is not None:
            try:
                self._flush()
            except Exception as error:
                fault("server", "spans could not be sent", error)

    def close(self) -> None:
        """What runs ends with the server."""
        for span in self._processes.values():
            span.end()
        self._processes.clear()
        self.flush()
