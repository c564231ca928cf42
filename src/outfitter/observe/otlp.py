"""Spans and metrics by OTLP, through the OpenTelemetry SDK, as its own environment variables say.

The variables are OpenTelemetry's, and so are their meanings and defaults. Nothing of it is imported unless
they ask for something.
"""

from __future__ import annotations

import os
import time

from .. import VERSION
from ..log import fault, tell
from ..stdlib import allocate_lock, start_new_thread
from .observer import Observer
from .registry import Counter, Histogram, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData
    from opentelemetry.sdk.resources import Resource

    from ..loop import Loop
    from .registry import Labels, MetricFamily, MetricRegistry
    from .traces import Traces

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
# For a collector that does not answer, at the end or before an upgrade, unless OTEL_BSP_EXPORT_TIMEOUT says
# otherwise: its own default of 30 s is longer than anybody waits for a server to end.
_FLUSH_SECONDS = 2.0
_INTERVAL_SECONDS = 60.0  # between two exports of metrics: the default of OpenTelemetry
_GRPC = "opentelemetry-exporter-otlp-proto-grpc, or use http/protobuf"


def wanted(environ: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether spans and metrics are to be sent: an endpoint or the exporter `otlp` is named, and no other."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False, False
    spans, metrics = (_sends(environ, signal) for signal in ("TRACES", "METRICS"))
    return spans, metrics


def _sends(environ: Mapping[str, str], signal: str) -> bool:
    exporter = environ.get(f"OTEL_{signal}_EXPORTER", "").strip()
    if exporter:
        return exporter == "otlp"
    return bool(environ.get(_ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def installed(signal: str) -> bool:
    """Whether the SDK and its exporter for TRACES or METRICS are there; says what to do if they are not."""
    from importlib import import_module

    place = _exporters(signal)
    try:
        import_module("opentelemetry.sdk")
        import_module(place)
    except ImportError:
        missing = _GRPC if place.endswith("grpc") else "'outfitter[otel]'"
        tell("server", "=", "OpenTelemetry is configured, but not installed: pip install %s", missing)
        return False
    return True


def _exporters(signal: str) -> str:
    """The package of the exporters for the protocol that is configured; http/protobuf unless it is grpc."""
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", general).strip()
    return f"opentelemetry.exporter.otlp.proto.{'grpc' if protocol == 'grpc' else 'http'}"


def traces() -> Traces:
    """Spans that are sent in batches."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from .traces import Traces

    exporter = _exporter("trace_exporter", "OTLPSpanExporter", "TRACES")
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("outfitter", VERSION)
    return Traces(tracer, lambda: _in_time(provider.force_flush))


def metrics(registry: MetricRegistry) -> OtlpMetrics:
    """The metrics of a process, sent now and then."""
    exporter = _exporter("metric_exporter", "OTLPMetricExporter", "METRICS")
    interval = _seconds("OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_SECONDS)
    return OtlpMetrics(registry, exporter, _resource(), interval)


def _seconds(variable: str, default: float) -> float:
    """What a variable says in milliseconds."""
    said = os.environ.get(variable, "").strip()
    return int(said) / 1000 if said.isdecimal() and int(said) > 0 else default


def _exporter(module: str, name: str, signal: str) -> Any:
    """OpenTelemetry's exporter for a signal, which reads its variables itself."""
    from importlib import import_module

    return getattr(import_module(f"{_exporters(signal)}.{module}"), name)()


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    said = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = said or os.environ.get("OTEL_SERVICE_NAME")
    return Resource.create({} if named else {"service.name": "outfitter"})


class OtlpMetrics(Observer):
    """Sends a registry every `interval` seconds: read on the loop, sent from a thread, one at a time."""

    def __init__(
        self, registry: MetricRegistry, exporter: MetricExporter, resource: Resource, interval: float
    ) -> None:
        self._registry = registry
        self._exporter = exporter
        self._resource = resource
        self._interval = interval
        self._since = time.time_ns()
        self._sending = allocate_lock()

    def begin(self, loop: Loop) -> None:
        def due() -> None:
            self._send(self._data())
            loop.call_later(self._interval, due)

        loop.call_later(self._interval, due)

    def flush(self) -> None:
        data = self._data()
        _in_time(lambda: self._exporter.export(data))

    def _send(self, data: MetricsData) -> None:
        if not self._sending.acquire(blocking=False):
            return  # the last ones are under way still: these will be in the next

        def send() -> None:
            try:
                self._exporter.export(data)
            except Exception as error:
                fault("server", "metrics could not be sent", error)
            finally:
                self._sending.release()

        try:
            start_new_thread(send, ())
        except RuntimeError:  # the machine has no room for a thread now
            self._sending.release()

    def _data(self) -> MetricsData:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        now = time.time_ns()
        told = [_metric(family, self._since, now) for family in self._registry.families]
        scope = ScopeMetrics(InstrumentationScope("outfitter", VERSION), told, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])


def _metric(family: MetricFamily, since: int, now: int) -> Any:
    """A family as OpenTelemetry has it."""
    from opentelemetry.sdk.metrics import export

    cumulative = export.AggregationTemporality.CUMULATIVE
    data: Any
    if isinstance(family, Histogram):
        data = export.Histogram(list(_buckets(family, since, now)), cumulative)
    else:
        assert isinstance(family, Counter | Reading)
        series = family.read() if isinstance(family, Reading) else family.series
        points = [
            export.NumberDataPoint(_attributes(family, values), since, now, number)
            for values, number in series.items()
        ]
        is_gauge = family.kind == "gauge"
        data = export.Gauge(points) if is_gauge else export.Sum(points, cumulative, is_monotonic=True)
    # The ending is what Prometheus wants of a counter; OpenTelemetry adds it for Prometheus itself.
    return export.Metric(family.name.removesuffix("_total"), family.help, _unit(family.name), data)


def _buckets(family: Histogram, since: int, now: int) -> Iterable[Any]:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    for values, (*counts, total) in family.series.items():
        whole = [int(count) for count in counts]
        # Nobody keeps the smallest and the largest.
        yield HistogramDataPoint(
            _attributes(family, values),
            since,
            now,
            sum(whole),
            total,
            whole,
            family.bounds,
            float("inf"),
            float("-inf"),
        )


def _attributes(family: MetricFamily, values: Labels) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))


def _unit(name: str) -> str:
    return "s" if "seconds" in name else "By" if "bytes" in name else "1"


def _in_time(work: Callable[[], object]) -> None:
    """Does it in a thread, and waits for it as long as a collector may take."""
    done = allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            work()
        except Exception as error:
            fault("server", "telemetry could not be sent", error)
        finally:
            done.release()

    try:
        start_new_thread(run, ())
    except RuntimeError:
        return  # the machine has no room for a thread now
    done.acquire(timeout=_seconds("OTEL_BSP_EXPORT_TIMEOUT", _FLUSH_SECONDS))
