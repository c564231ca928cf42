"""The trace context of a command, as a layer: `TRACEPARENT` and `TRACESTATE` of W3C Trace Context."""

from __future__ import annotations

from .layer import RUNTIME_LEVEL, Layer
from .names import TRACEPARENT, TRACESTATE
from .origin import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ORIGIN = Origin("trace", "the trace context of the request that starts the command")
_HEX = frozenset("0123456789abcdef")
_LENGTHS = [2, 32, 16, 2]  # of the parts of a `traceparent`: version, trace, span, flags
_NOTE = "set for a command whose request has a trace context, unless the request sets it itself"
NONE = Layer(RUNTIME_LEVEL, "trace", _ORIGIN, state="not-applicable", note=_NOTE)


def traced(context: Mapping[str, str] | None) -> Layer:
    """The layer for a context; nothing is set where there is none, or none that is valid."""
    parent = (context or {}).get("traceparent", "")
    if not is_traceparent(parent):
        return NONE
    values = {TRACEPARENT: parent}
    # What stands there from somewhere else belongs to another trace.
    state = (context or {}).get("tracestate", "")
    if not (state and state.isascii() and state.isprintable()):
        return Layer(RUNTIME_LEVEL, "trace", _ORIGIN, values, unset=(TRACESTATE,))
    return Layer(RUNTIME_LEVEL, "trace", _ORIGIN, {**values, TRACESTATE: state})


def is_traceparent(text: str) -> bool:
    """Whether it is one, of version 00."""
    parts = text.split("-")
    return (
        [len(part) for part in parts] == _LENGTHS
        and all(_HEX.issuperset(part) for part in parts)
        and parts[0] == "00"
        and parts[1].strip("0") != ""
        and parts[2].strip("0") != ""
    )
