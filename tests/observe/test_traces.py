"""Spans, with the real SDK: whose children they are, what they say, and what they never say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, use_span

from outfitter.observe.observer import StartedCommand
from outfitter.observe.traces import Traces

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = {"traceparent": PARENT, "tracestate": "vendor=one"}


class Exported:
    """Spans of a server, and those that have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")
        self.traces = Traces(self.tracer)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


@pytest.fixture
def exported() -> Exported:
    return Exported()


def process(mark: int, exit_code: int = 0, killed_by: int | None = None) -> Any:
    log = SimpleNamespace(exit_code=exit_code, total_bytes=42)
    return SimpleNamespace(mark=mark, log=log, killed_by=killed_by)


def started(traces: Traces, process: Any, span: object = None) -> None:
    traces.started(
        StartedCommand("uid:1", "127.0.0.1:1", "session", process, ["curl", "secret"], "/home/ann", span)
    )


def test_request_is_a_child_of_what_its_client_says(exported: Exported) -> None:
    with use_span(exported.tracer.start_span("around the server")):  # which is nobody's parent
        span = exported.traces.asked("process/start", CONTEXT)
        assert exported.spans == ()
        exported.traces.answered(span, "ok", 0)
    [told] = exported.spans
    assert told.parent is not None and told.context is not None
    assert (told.name, told.kind) == ("process/start", SpanKind.SERVER)
    assert (f"{told.context.trace_id:x}", f"{told.parent.span_id:x}") == (
        "af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
    )
    assert dict(told.attributes or {}) == {"rpc.system": "jsonrpc", "rpc.method": "process/start"}
    assert told.status.status_code == StatusCode.UNSET
    assert exported.traces.context(span)["tracestate"] == "vendor=one"


@pytest.mark.parametrize("trace", [None, {}, {"traceparent": "\0x"}, {"traceparent": f"{PARENT}-x"}])
def test_request_without_a_valid_context_begins_a_trace(trace: Any, exported: Exported) -> None:
    with use_span(exported.tracer.start_span("around the server")):
        exported.traces.answered(exported.traces.asked("fs/walk", trace), "ok", 0)
    [told] = exported.spans
    assert told.parent is None


def test_refusal_is_an_error_with_its_code_and_no_text(exported: Exported) -> None:
    exported.traces.answered(exported.traces.asked("/home/ann/secret", None), "method-unknown", -32601)
    exported.traces.answered(exported.traces.asked("process/read", None), "lost", 0)
    refused, lost = exported.spans
    assert (refused.name, refused.status.status_code, refused.status.description) == (
        "unknown",
        StatusCode.ERROR,
        None,
    )
    assert dict(refused.attributes or {}) == {
        "rpc.system": "jsonrpc",
        "rpc.method": "unknown",
        "error.type": "method-unknown",
        "rpc.jsonrpc.error_code": -32601,
    }
    assert dict(lost.attributes or {})["error.type"] == "lost"
    assert lost.status.status_code == StatusCode.ERROR


def test_process_is_below_its_request_and_says_how_it_ended(exported: Exported) -> None:
    request = exported.traces.asked("process/start", CONTEXT)
    started(exported.traces, process(1), request)
    started(exported.traces, process(2))
    exported.traces.answered(request, "ok", 0)
    exported.traces.ended(process(1, 137, 9))
    exported.traces.ended(process(2))
    exported.traces.ended(process(3))  # that nobody has heard of
    asked, killed, fine = exported.spans
    assert killed.parent == asked.context and fine.parent is None
    assert {one.name for one in (killed, fine)} == {"process"}
    assert dict(killed.attributes or {}) == {
        "process.exit.code": 137,
        "outfitter.process.output_bytes": 42,
        "outfitter.process.signal": 9,
    }
    assert dict(fine.attributes or {}) == {"process.exit.code": 0, "outfitter.process.output_bytes": 42}
    assert (killed.status.status_code, fine.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)


def test_next_version_goes_on_below_the_span_of_the_last(exported: Exported) -> None:
    started(exported.traces, process(5))
    left = exported.traces.leave()
    assert exported.traces.leave() == {}
    following = Traces(exported.tracer)
    following.take(process(5), left["5"])
    following.ended(process(5))
    first, second = exported.spans
    assert dict(first.attributes or {}) == {"outfitter.process.handed_over": True}
    assert second.parent is not None and first.context is not None
    assert second.parent.span_id == first.context.span_id
    assert dict(second.attributes or {})["process.exit.code"] == 0


def test_end_of_the_server_ends_all_spans_and_flushes() -> None:
    exported, flushed = Exported(), []
    traces = Traces(exported.tracer, lambda: flushed.append(True))
    started(traces, process(1))
    traces.close()
    assert [one.name for one in exported.spans] == ["process"]
    assert flushed == [True]
