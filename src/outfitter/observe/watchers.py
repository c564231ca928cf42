"""Everybody who watches a server that listens: the audit log, metrics, spans."""

from __future__ import annotations

import os

from .observer import Several

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Protocol

    from ..loop import EpollLoop
    from .audit import Audit
    from .metrics import Metrics
    from .observer import Observer
    from .otlp import OtlpMetrics
    from .traces import Traces

    Opener = Callable[[], AbstractContextManager[None]]

    class Attempts(Protocol):
        refused: dict[str, int]

    class Listening(Protocol):
        """A listener, as far as it is watched."""

        metrics: Callable[[], str] | None
        on_refusal: Callable[[str, str], None] | None

        @property
        def attempts(self) -> Attempts: ...


class Watchers:
    """Each is None where nobody has asked for it; `served` says that metrics are told at /metrics."""

    def __init__(
        self,
        audit: Audit | None,
        metrics: Metrics | None,
        traces: Traces | None,
        export: OtlpMetrics | None,
        *,
        served: bool,
    ) -> None:
        self.audit = audit
        self.metrics = metrics
        self.traces = traces
        self._export = export
        self._served = served
        there = [one for one in (audit, metrics, traces, export) if one is not None]
        self.observer: Observer = there[0] if len(there) == 1 else Several(there)

    def watch_loop(self, loop: EpollLoop, opener: Opener | None = None) -> None:
        """With `opener`, the audit log is opened again so."""
        if self.audit is not None:
            self.audit.opener = opener
        if self.metrics is not None:
            loop.on_stall = self.metrics.stalled
        if self._export is not None:
            self._export.begin(loop)

    def watch_listener(self, loop: EpollLoop, listener: Listening, opener: Opener | None) -> None:
        """The same; also hears of refusals, and has /metrics answered."""
        self.watch_loop(loop, opener)
        audit, metrics = self.audit, self.metrics
        if audit is not None:
            listener.on_refusal = lambda peer, why: audit.happened("refused", "", peer, "", reason=why)
        if metrics is not None:
            metrics.count_refusals(listener.attempts.refused)
            if self._served:
                listener.metrics = metrics.registry.text


def watchers(audit: str | None, commands: str, *, metrics: bool) -> Watchers | None:
    """Those that flags and the variables of OpenTelemetry ask for; None where there are none.

    Raises SettingInvalid.
    """
    from . import otlp

    spans, sent = otlp.wanted(os.environ)
    spans, sent = spans and otlp.installed("TRACES"), sent and otlp.installed("METRICS")
    if audit is None and not (metrics or spans or sent):
        return None
    counting = None
    if metrics or sent:
        from .metrics import Metrics

        counting = Metrics()
    log = None
    if audit is not None:
        from .audit import Audit

        log = Audit(audit, commands)
    export = None
    if counting is not None and sent:
        export = otlp.metrics(counting.registry)
    return Watchers(log, counting, otlp.traces() if spans else None, export, served=metrics)
