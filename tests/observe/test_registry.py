"""The registry of metrics: what it writes, Prometheus's own parser reads; and it stays bounded."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from outfitter.observe.registry import OTHER, SERIES, Counter, Histogram, MetricRegistry, Reading


def parsed(registry: MetricRegistry) -> dict[str, tuple[str, dict[Any, float]]]:
    """Families by name: their type, and each sample by its name and labels."""
    return {
        family.name: (
            family.type,
            {(one.name, tuple(sorted(one.labels.items()))): one.value for one in family.samples},
        )
        for family in text_string_to_metric_families(registry.text())
    }


def test_every_kind_is_read_by_the_parser_of_prometheus() -> None:
    registry = MetricRegistry()
    plain = registry.add(Counter("relay_registrations_total", "Executors that came."))
    registry.add(Counter("relay_idle_total", "Nothing yet."))
    failed = registry.add(Counter("relay_handshakes_failed_total", "By reason.", "reason"))
    registry.add(Reading("gauge", "relay_streams", "Open ones.", lambda: {("up",): 2, ("down",): 0.5}, "way"))
    took = registry.add(Histogram("relay_seconds", "How long.", (0.1, 1.0), "step"))
    plain.add()
    plain.add(by=2.5)
    failed.add("noise")
    for seconds in (0.1, 0.5, 7):
        took.observe(seconds, "dial")
    assert parsed(registry) == {
        "relay_registrations": ("counter", {("relay_registrations_total", ()): 3.5}),
        "relay_idle": ("counter", {("relay_idle_total", ()): 0}),
        "relay_handshakes_failed": (
            "counter",
            {("relay_handshakes_failed_total", (("reason", "noise"),)): 1},
        ),
        "relay_streams": (
            "gauge",
            {("relay_streams", (("way", "up"),)): 2, ("relay_streams", (("way", "down"),)): 0.5},
        ),
        "relay_seconds": (
            "histogram",
            {
                ("relay_seconds_bucket", (("le", "0.1"), ("step", "dial"))): 1,
                ("relay_seconds_bucket", (("le", "1"), ("step", "dial"))): 2,
                ("relay_seconds_bucket", (("le", "+Inf"), ("step", "dial"))): 3,
                ("relay_seconds_sum", (("step", "dial"),)): 7.6,
                ("relay_seconds_count", (("step", "dial"),)): 3,
            },
        ),
    }


@given(st.text(), st.text(alphabet='\\"n\n{},= '), st.floats(0, 1e18))
def test_any_label_help_and_number_come_back_as_they_were(value: str, help: str, amount: float) -> None:
    value = value.replace("\r", "")  # the parser takes it for the end of a line; no word of ours has one
    registry = MetricRegistry()
    registry.add(Counter("a_total", help, "one", "two")).add(value, help, by=amount)
    [family] = text_string_to_metric_families(registry.text())
    [sample] = family.samples
    assert (sample.labels, sample.value) == ({"one": value, "two": help}, amount)
    assert family.documentation.strip() == help.strip() or "\\" in help


@given(st.lists(st.floats(0, 100), max_size=50))
def test_histogram_counts_each_value_once(values: list[float]) -> None:
    histogram = Histogram("h", "", (0.5, 1, 10), "x")
    for value in values:
        histogram.observe(value, "y")
    if values:
        [(*counts, total)] = histogram.series.values()
        below = [sum(one <= bound for one in values) for bound in (0.5, 1, 10, math.inf)]
        assert [sum(counts[: place + 1]) for place in range(4)] == below
        assert math.isclose(total, sum(values))


def test_what_does_not_fit_is_counted_as_other() -> None:
    counter, histogram = Counter("a_total", "", "x", "y"), Histogram("b", "", (1,), "x")
    for number in range(SERIES + 500):
        counter.add(str(number), "z")
        histogram.observe(1, str(number))
    assert (len(counter.series), len(histogram.series)) == (SERIES + 1, SERIES + 1)
    assert counter.series[OTHER, OTHER] == 500
    assert histogram.series[OTHER,] == [500, 0, 500]
