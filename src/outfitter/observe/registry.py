"""Metrics of one process, of whatever kind: counters, gauges, histograms, and their text for Prometheus.

The number of series is bounded: a family that has `SERIES` of them counts all further ones under "other". All
of it belongs to one thread.
"""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    F = TypeVar("F", bound="MetricFamily")
    Labels = tuple[str, ...]

SERIES = 2048  # of a family: fifty methods with forty outcomes. Each takes some 300 bytes, and a line of text
OTHER = "other"


class MetricFamily:
    """Series with one name, told apart by the values of `labels`. `kind` is Prometheus's word for it."""

    kind = ""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name = name
        self.help = help
        self.labels = labels

    def lines(self) -> Iterable[str]:
        """The series as lines of text."""
        raise NotImplementedError

    def text(self) -> str:
        head = f"# HELP {self.name} {_escaped(self.help)}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(self.lines())


class Counter(MetricFamily):
    kind = "counter"

    def __init__(self, name: str, help: str, *labels: str) -> None:
        super().__init__(name, help, *labels)
        self.series: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        series = self.series
        if values not in series:
            values = _admitted(series, values)
            series.setdefault(values, 0)
        series[values] += by

    def lines(self) -> Iterable[str]:
        return _lines(self.name, self.labels, self.series)


class Reading(MetricFamily):
    """Numbers that somebody else keeps, asked for when they are wanted."""

    def __init__(
        self, kind: str, name: str, help: str, read: Callable[[], Mapping[Labels, float]], *labels: str
    ) -> None:
        super().__init__(name, help, *labels)
        self.kind = kind
        self.read = read

    def lines(self) -> Iterable[str]:
        return _lines(self.name, self.labels, self.read())


class Histogram(MetricFamily):
    """How many values were at most as large as each of `bounds`."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], *labels: str) -> None:
        super().__init__(name, help, *labels)
        self.bounds = bounds
        self.series: dict[Labels, list[float]] = {}  # how many in each, then those above, then the sum

    def observe(self, value: float, *values: str) -> None:
        counts = self.series.get(values)
        if counts is None:
            values = _admitted(self.series, values)
            counts = self.series.setdefault(values, [0] * (len(self.bounds) + 1) + [0.0])
        counts[bisect_left(self.bounds, value)] += 1
        counts[-1] += value

    def lines(self) -> Iterable[str]:
        for values, (*counts, total) in self.series.items():
            labels = _pairs(self.labels, values)
            count = 0.0
            for bound, more in zip((*map(_number, self.bounds), "+Inf"), counts, strict=True):
                count += more
                told = ",".join([*labels, f'le="{bound}"'])
                yield f"{self.name}_bucket{{{told}}} {_number(count)}\n"
            told = _braced(labels)
            yield f"{self.name}_sum{told} {_number(total)}\n{self.name}_count{told} {_number(count)}\n"


class MetricRegistry:
    """The metrics of a process."""

    def __init__(self) -> None:
        self.families: list[MetricFamily] = []

    def add(self, family: F) -> F:
        assert all(family.name != one.name for one in self.families), family.name
        self.families.append(family)
        return family

    def text(self) -> str:
        """All of them, in Prometheus's text format 0.0.4."""
        return "".join([family.text() for family in self.families])


def _admitted(series: Mapping[Labels, object], values: Labels) -> Labels:
    """The labels of a new series: as they are, or "other" where there are too many."""
    return values if len(series) < SERIES else (OTHER,) * len(values)


def _lines(name: str, labels: Labels, series: Mapping[Labels, float]) -> list[str]:
    return [
        f"{name}{_braced(_pairs(labels, values))} {_number(number)}\n" for values, number in series.items()
    ]


def _pairs(labels: Labels, values: Labels) -> list[str]:
    return [f'{label}="{_escaped(value, quote=True)}"' for label, value in zip(labels, values, strict=True)]


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
