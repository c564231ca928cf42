"""The events of one process as its caller sees them: in order, each once, none missing.

A client is pushed numbered events and, after a broken connection or when one did not come, reads what it
missed. Both come together here. An event is handed out when every earlier one has been; what cannot be had
any more is an error, never a silent hole.
"""

from __future__ import annotations

from ..errors import OutputLost
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.process import ReadResult

# What may come before an earlier event. The reference's client gives up at 256 events or 1 MiB, which a
# fast command passes while the answer to the catch-up read is under way; these are sixteen times that.
EARLY_EVENTS = 4096
EARLY_BYTES = 16 << 20


@record
class Output:
    """A piece of output; `stream` is "stdout", "stderr" or "pty".

        await client.run(["make"], on_output=lambda piece: print(piece.stream, piece.data))

    Pieces end anywhere, in the middle of a line or of a character.
    """

    stream: str
    data: bytes


@record
class Exited:
    """The command has exited. Output of its descendants may still follow.

        async for event in await client.start(["make"]):
            if isinstance(event, outfitter.Exited):
                print(event.code)  # 0

    `sandbox_denied` is None if the server did not report it. `signal` is the number of the one that ended the
    command, and `reason` is "out-of-memory" if the kernel did so for that, as far as the server says.
    """

    code: int
    sandbox_denied: bool | None = False
    signal: int | None = None
    reason: str | None = None


@record
class Closed:
    """The process has closed: no more output can come."""


Event = Output | Exited | Closed
CLOSED = Closed()


@record
class Missed:
    """The answer to a catch-up read: what is retained after a number, and how far the process is."""

    chunks: list[tuple[int, Output]]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    sandbox_denied: bool = False
    signal: int | None = None
    reason: str | None = None


def missed(result: ReadResult) -> Missed:
    """The same in a server's words."""
    chunks = [(seq, Output(stream, data)) for seq, stream, data in result.chunks]
    return Missed(
        chunks,
        result.next_seq,
        result.exited,
        result.exit_code,
        result.closed,
        result.sandbox_denied,
        result.signal,
        result.reason,
    )


class EventOrder:
    """Numbered events in, ordered events out."""

    __slots__ = ("_early", "_early_bytes", "exit_known", "last")

    def __init__(self, last: int = 0) -> None:
        self.last = last  # the number of the newest event handed out
        self.exit_known = False  # it has come, perhaps too early
        self._early: dict[int, Event] = {}
        self._early_bytes = 0

    @property
    def has_gap(self) -> bool:
        """Whether an event has come that an earlier one is missing for."""
        return bool(self._early)

    def receive(self, seq: int, event: Event) -> list[Event]:
        """The events that are due now. Raises OutputLost when too many wait for one that does not come."""
        if seq <= self.last or seq in self._early:
            return []
        if type(event) is Exited:
            self.exit_known = True
        if seq == self.last + 1 and not self._early:
            self.last = seq
            return [event]
        self._keep(seq, event)
        due = self._due()
        if len(self._early) > EARLY_EVENTS or self._early_bytes > EARLY_BYTES:
            raise OutputLost(
                f"event {self.last + 1} did not come, though {len(self._early)} later ones did: it is lost"
            )
        return due

    def merge(self, missed: Missed) -> list[Event]:
        """The events that a catch-up read makes due. Raises OutputLost when some are gone.

        Numbers below `missed.next_seq` must all be known then. One may be missing without loss: a read
        gives no event for the exit, only the code, so the hole is where the exit was.
        """
        for seq, output in missed.chunks:
            if seq > self.last and seq not in self._early:
                self._keep(seq, output)
        end = missed.next_seq - 1
        if end - self.last > len(self._early) + 2:  # more than an exit and a close: do not even count
            raise _gone(end)
        if missed.closed and end > self.last and end not in self._early:
            self._keep(end, CLOSED)
        holes = [seq for seq in range(self.last + 1, missed.next_seq) if seq not in self._early]
        if len(holes) == 1 and missed.exited and not self.exit_known and missed.exit_code is not None:
            self.exit_known = True
            exited = Exited(missed.exit_code, missed.sandbox_denied, missed.signal, missed.reason)
            self._keep(holes[0], exited)
        elif holes:
            raise _gone(end)
        return self._due()

    def skip_to(self, seq: int) -> None:
        """Begins at this number: what was before is not wanted, or not to be had."""
        self.last = max(self.last, seq - 1)
        for early in [early for early in self._early if early <= self.last]:
            self._early_bytes -= _size(self._early.pop(early))

    def _keep(self, seq: int, event: Event) -> None:
        self._early[seq] = event
        self._early_bytes += _size(event)

    def _due(self) -> list[Event]:
        due: list[Event] = []
        while (event := self._early.pop(self.last + 1, None)) is not None:
            self.last += 1
            self._early_bytes -= _size(event)
            due.append(event)
        return due


def _gone(end: int) -> OutputLost:
    # The reference's words.
    return OutputLost(f"process events are no longer retained while recovering through sequence {end}")


def _size(event: Event) -> int:
    return len(event.data) if isinstance(event, Output) else 0
