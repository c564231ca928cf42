"""What a rendezvous counts: registrations, sockets, streams, bytes, refusals.

The service keeps plain numbers; this names them. Labels are words of ours, never an id, a name or an address.
"""

from __future__ import annotations

from .registry import MetricRegistry, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from .registry import Labels

    class Counted(Protocol):
        """What a service has counted since it started."""

        calls: dict[str, int]
        refused: dict[str, int]
        validations_refused: int
        executors: int
        harnesses: int
        bytes: int

    class Routed(Protocol):
        streams_opened: int

        @property
        def counts(self) -> tuple[int, int, int]: ...

    class Relaying(Protocol):
        """What a service has now."""

        @property
        def counts(self) -> Counted: ...
        @property
        def routes(self) -> Routed: ...
        @property
        def open_sockets(self) -> dict[str, int]: ...
        @property
        def waiting(self) -> int: ...


def relay_metrics(service: Relaying) -> MetricRegistry:
    """The metrics of a service."""
    counts, routes = service.counts, service.routes
    registry = MetricRegistry()

    def add(
        kind: str, name: str, help: str, read: Callable[[], Mapping[Labels, float]], *labels: str
    ) -> None:
        registry.add(Reading(kind, f"outfitter_relay_{name}", help, read, *labels))

    add(
        "counter",
        "registrations_total",
        "Registrations of executors.",
        lambda: {(): counts.calls.get("register", 0)},
    )
    add(
        "counter",
        "calls_total",
        "Calls of the registry that were granted.",
        lambda: {(call,): number for call, number in counts.calls.items()},
        "call",
    )
    add(
        "counter",
        "refusals_total",
        "Calls and connections that were refused.",
        lambda: {(reason,): number for reason, number in counts.refused.items()},
        "reason",
    )
    add(
        "counter",
        "handshakes_failed_total",
        "Handshakes that an executor was told not to finish.",
        lambda: {(): counts.validations_refused},
    )
    add(
        "counter",
        "sockets_opened_total",
        "Connections to the rendezvous that were admitted.",
        lambda: {("executor",): counts.executors, ("harness",): counts.harnesses},
        "role",
    )
    add(
        "gauge",
        "sockets",
        "Open connections.",
        lambda: {(kind,): number for kind, number in service.open_sockets.items()},
        "kind",
    )
    add("counter", "streams_opened_total", "Streams that were begun.", lambda: {(): routes.streams_opened})
    add("gauge", "streams", "Streams that are open.", lambda: {(): routes.counts[2]})
    add("counter", "frame_bytes_total", "Bytes of frames that were passed on.", lambda: {(): counts.bytes})
    add("gauge", "store_waiting", "Questions that wait for the store.", lambda: {(): service.waiting})
    return registry
