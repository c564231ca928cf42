"""What a server counts: exactly these families, and no label that a client chose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from outfitter.observe.metrics import BOUNDS, Metrics
from outfitter.observe.observer import StartedCommand
from outfitter.protocol.methods import METHODS

NOW: Any = SimpleNamespace(connected=3, running=2, attached=1, detached=4)


def process(exit_code: int, killed_by: int | None = None) -> Any:
    return SimpleNamespace(log=SimpleNamespace(exit_code=exit_code, total_bytes=1), killed_by=killed_by)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, but for the buckets."""
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(metrics.registry.text())
        for one in family.samples
        if not one.name.endswith("_bucket")
    }


def test_every_event_has_its_number() -> None:
    metrics = Metrics()
    metrics.watch(NOW)
    metrics.count_refusals({"token": 7, "full": 1})
    metrics.connected()
    metrics.bytes_in += 10
    metrics.bytes_out += 20
    metrics.answered("process/start", "ok", 0.001)
    metrics.answered("process/start", "launch-failed", 0.5)
    metrics.malformed("malformed")
    metrics.stalled(0.75)
    for event in ("session-opened", "session-resumed", "session-taken-over", "command-ended", "refused"):
        metrics.happened(event, "uid:1", "memory", "an-id")
    for reason in ("expired", "left", "made room", "the server ends", "its connection ended", "killed"):
        metrics.happened("session-closed", "uid:1", "memory", "an-id", reason=reason)
    metrics.detached()
    metrics.started(StartedCommand("uid:1", "memory", "an-id", process(0), ["true"], "/srv"))
    for ended in (process(0), process(1), process(143), process(137, 9)):
        metrics.ended(ended)
    assert samples(metrics) == {
        ("outfitter_connections_opened_total",): 1,
        ("outfitter_connections",): 3,
        ("outfitter_connections_refused_total", "token"): 7,
        ("outfitter_connections_refused_total", "full"): 1,
        ("outfitter_requests_total", "process/start", "ok"): 1,
        ("outfitter_requests_total", "process/start", "launch-failed"): 1,
        ("outfitter_requests_total", "unknown", "malformed"): 1,
        ("outfitter_request_seconds_count", "process/start"): 2,
        ("outfitter_request_seconds_sum", "process/start"): 0.501,
        ("outfitter_processes_started_total",): 1,
        ("outfitter_processes",): 2,
        ("outfitter_processes_ended_total", "success"): 1,
        ("outfitter_processes_ended_total", "failure"): 2,
        ("outfitter_processes_ended_total", "signal"): 1,
        ("outfitter_session_events_total", "opened"): 1,
        ("outfitter_session_events_total", "resumed"): 1,
        ("outfitter_session_events_total", "taken-over"): 1,
        ("outfitter_session_events_total", "detached"): 1,
        ("outfitter_session_events_total", "expired"): 1,
        ("outfitter_session_events_total", "left"): 1,
        ("outfitter_session_events_total", "displaced"): 1,
        ("outfitter_session_events_total", "stopped"): 1,
        ("outfitter_session_events_total", "ended"): 2,
        ("outfitter_sessions", "attached"): 1,
        ("outfitter_sessions", "detached"): 4,
        ("outfitter_message_bytes_total", "in"): 10,
        ("outfitter_message_bytes_total", "out"): 20,
        ("outfitter_loop_stalls_total",): 1,
        ("outfitter_loop_stall_seconds_total",): 0.75,
    }


@given(st.lists(st.text() | st.sampled_from(sorted(METHODS)), min_size=1), st.floats(0, 1e6))
def test_labels_are_of_the_table_whatever_clients_send(methods: list[str], seconds: float) -> None:
    metrics = Metrics()
    for method in methods:
        metrics.answered(method, "ok", seconds)
        metrics.happened(method, method, method, method, reason=method)
        metrics.happened("session-closed", method, method, method, reason=method)
    allowed = {*METHODS, "unknown", "ok", "ended", "in", "out", "expired", "left"}
    for family in text_string_to_metric_families(metrics.registry.text()):
        for one in family.samples:
            assert {value for label, value in one.labels.items() if label != "le"} <= allowed


def test_bounds_are_in_order() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
