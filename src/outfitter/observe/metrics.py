"""What a server counts: connections, requests, processes, sessions, bytes, stalls.

Labels are words of ours, never a client's: no id, no path, no name. Counters begin at zero with each version
of a server; what there is now is asked of the server itself, so it is right after an upgrade.
"""

from __future__ import annotations

from ..protocol.methods import METHODS
from .observer import Observer
from .registry import Counter, Histogram, MetricRegistry, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from ..protocol.jsontext import Json
    from .observer import Process, StartedCommand
    from .registry import Labels

    class Watched(Protocol):
        """What a server has now."""

        @property
        def connected(self) -> int: ...
        @property
        def running(self) -> int: ...
        @property
        def attached(self) -> int: ...
        @property
        def detached(self) -> int: ...


# Seconds. What a path is takes 0.07 ms, a start 0.5, a command 0.9: there they are closest. 0.25 is a stall
# of the loop, and 30 the longest that a client usually waits in a process/read.
BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
UNKNOWN = "unknown"  # every method that is not in the table
OK = "ok"
LOST = "lost"  # the connection was, before the answer
# Why sessions end, in a word each; "ended" for every other reason.
_ENDS = {"expired": "expired", "left": "left", "made room": "displaced", "the server ends": "stopped"}
_EVENTS = {"session-opened": "opened", "session-resumed": "resumed", "session-taken-over": "taken-over"}


def known(method: str) -> str:
    """The name of a method as a label."""
    return method if method in METHODS else UNKNOWN


class Metrics(Observer):
    """The metrics of a server."""

    def __init__(self) -> None:
        self.registry = MetricRegistry()
        add = self.registry.add
        self._opened = add(Counter("outfitter_connections_opened_total", "Connections that were admitted."))
        self._requests = add(
            Counter(
                "outfitter_requests_total",
                "Requests that were answered, or lost with their connection.",
                "method",
                "outcome",
            )
        )
        self._seconds = add(
            Histogram(
                "outfitter_request_seconds",
                "From a request to its answer; a process/read waits as long as its client asks for.",
                BOUNDS,
                "method",
            )
        )
        self._started = add(Counter("outfitter_processes_started_total", "Commands that were started."))
        self._ended = add(
            Counter(
                "outfitter_processes_ended_total", "Commands that have closed, by how they ended.", "kind"
            )
        )
        self._sessions = add(Counter("outfitter_session_events_total", "What became of sessions.", "event"))
        # Added to for every message, hence plain numbers.
        self.bytes_in = self.bytes_out = 0
        add(
            Reading(
                "counter",
                "outfitter_message_bytes_total",
                "Bytes of messages.",
                lambda: {("in",): self.bytes_in, ("out",): self.bytes_out},
                "direction",
            )
        )
        self._stalls = add(
            Counter("outfitter_loop_stalls_total", "Turns of the loop in which nobody was served for 0.25 s.")
        )
        self._stalled = add(Counter("outfitter_loop_stall_seconds_total", "How long those turns took."))

    def watch(self, server: Watched) -> None:
        """Also tells what the server has now."""
        add = self.registry.add
        add(_gauge("outfitter_connections", "Open connections.", lambda: {(): server.connected}))
        add(_gauge("outfitter_processes", "Commands that run.", lambda: {(): server.running}))
        add(
            _gauge(
                "outfitter_sessions",
                "Sessions with a client, and those that wait for theirs.",
                lambda: {("attached",): server.attached, ("detached",): server.detached},
                "state",
            )
        )

    def count_refusals(self, refused: Mapping[str, int]) -> None:
        """Also tells how many connections were refused, by the cause that a listener counts them under."""
        help = "Connections that were refused, or given up before they were admitted."
        self.registry.add(
            Reading(
                "counter",
                "outfitter_connections_refused_total",
                help,
                lambda: {(cause,): count for cause, count in refused.items()},
                "reason",
            )
        )

    # Connections and requests

    def connected(self) -> None:
        self._opened.add()

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """`outcome` is "ok", "lost", or the code of an error."""
        method = method if method in METHODS else UNKNOWN
        self._requests.add(method, outcome)
        self._seconds.observe(seconds, method)

    def malformed(self, outcome: str) -> None:
        """A message that could not be read."""
        self._requests.add(UNKNOWN, outcome)

    def stalled(self, seconds: float) -> None:
        self._stalls.add()
        self._stalled.add(by=seconds)

    # What happens (Observer)

    def happened(self, event: str, principal: str, peer: str, session: str, **facts: Json) -> None:
        word = _EVENTS.get(event)
        if word is None and event == "session-closed":
            word = _ENDS.get(str(facts.get("reason")), "ended")
        if word is not None:
            self._sessions.add(word)

    def detached(self) -> None:
        self._sessions.add("detached")

    def started(self, begun: StartedCommand) -> None:
        self._started.add()

    def ended(self, process: Process) -> None:
        kind = "success" if process.log.exit_code == 0 else "failure"
        self._ended.add("signal" if process.killed_by is not None else kind)


def _gauge(name: str, help: str, read: Callable[[], Mapping[Labels, float]], *labels: str) -> Reading:
    return Reading("gauge", name, help, read, *labels)
