"""Which variables of OpenTelemetry ask for what, and what happens where it cannot be had."""

from __future__ import annotations

import logging
import sys

import pytest

from outfitter.observe import otlp
from outfitter.observe.metrics import Metrics
from outfitter.observe.watchers import watchers
from outfitter.stdlib import allocate_lock

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, (False, False)),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, (False, False)),
        (ENDPOINT, (True, True)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, (True, False)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/v1/metrics"}, (False, True)),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, (True, False)),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, (True, False)),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "console"}, (False, True)),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, (False, False)),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, (True, True)),
    ],
)
def test_variables_say_what_is_sent(environ: dict[str, str], wanted: tuple[bool, bool]) -> None:
    assert otlp.wanted(environ) == wanted


def test_server_goes_on_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(*next(iter(ENDPOINT.items())))
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with caplog.at_level(logging.INFO):
        assert watchers(None, "digest", metrics=False) is None
        found = watchers(None, "digest", metrics=True)
    assert found is not None and found.metrics is not None and found.traces is None
    assert "OpenTelemetry is configured, but not installed: pip install 'outfitter[otel]'" in caplog.text


def test_exporter_of_each_signal_is_that_of_its_protocol(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    with caplog.at_level(logging.INFO):
        assert (otlp.installed("TRACES"), otlp.installed("METRICS")) == (False, True)
    assert "pip install opentelemetry-exporter-otlp-proto-grpc, or use http/protobuf" in caplog.text


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "outfitter"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=other,a=b"}, "other"),
    ],
)
def test_service_has_the_name_that_the_variables_say(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert otlp._resource().attributes["service.name"] == name


def test_collector_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_FLUSH_SECONDS", 0.01)
    stuck = allocate_lock()
    stuck.acquire()

    class Stuck:
        exports = 0

        def export(self, data: object) -> None:
            self.exports += 1
            stuck.acquire()

    exporter = Stuck()
    sending = otlp.OtlpMetrics(Metrics().registry, exporter, otlp._resource(), 60)  # type: ignore[arg-type]
    sending.flush()
    sending._send(sending._data())
    sending._send(sending._data())  # is not sent: the one before is under way
    assert sending._sending.locked()
    stuck.release()
