"""The trace context of this moment, for a request that goes out."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.jsontext import Json


def current() -> Json:
    """W3C `traceparent` and `tracestate` of the span that is recording; None without one.

    Where nobody has imported OpenTelemetry there is none, and nothing is imported to find that out.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not trace.get_current_span().is_recording():
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier
