"""What a server tells of itself, and to whom: each watcher takes what it needs."""

from __future__ import annotations

from ..record import quick_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ..protocol.jsontext import Json

    class ProcessLog(Protocol):
        @property
        def exit_code(self) -> int | None: ...
        @property
        def total_bytes(self) -> int: ...

    class Process(Protocol):
        """A command, as far as watchers may know it."""

        @property
        def process_id(self) -> str: ...
        @property
        def pid(self) -> int: ...
        @property
        def mark(self) -> int: ...
        @property
        def killed_by(self) -> int | None: ...
        @property
        def log(self) -> ProcessLog: ...


@quick_record
class StartedCommand:
    """A command that has been started, and by whose request; `span` is that of the request, if it has one."""

    principal: str
    peer: str
    session: str
    process: Process
    argv: Sequence[str]
    cwd: str
    span: object = None


class Observer:
    """Called from the loop, `happened` from any thread; must not wait and must not raise.

    `principal` is whose act it was, `peer` where its connection comes from, `session` its session's id.
    """

    def happened(self, event: str, principal: str, peer: str, session: str, **facts: Json) -> None:
        """Something that the audit log has a line for."""

    def started(self, begun: StartedCommand) -> None:
        """A command has been started."""

    def ended(self, process: Process) -> None:
        """A command has closed."""

    def detached(self) -> None:
        """A session has lost its client, and is kept."""

    def leave(self) -> dict[str, str]:
        """What the next version of this server needs to go on, by the mark of a process."""
        return {}

    def take(self, process: Process, left: str) -> None:
        """Goes on with a process of the version before."""

    def reopen(self) -> None:
        """Uses the files that have the names now."""

    def flush(self) -> None:
        """Writes and sends what waits, in bounded time."""

    def close(self) -> None:
        """The same, at the end of the server."""
        self.flush()


class Several(Observer):
    """Tells each of them."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def happened(self, event: str, principal: str, peer: str, session: str, **facts: Json) -> None:
        for one in self._observers:
            one.happened(event, principal, peer, session, **facts)

    def started(self, begun: StartedCommand) -> None:
        for one in self._observers:
            one.started(begun)

    def ended(self, process: Process) -> None:
        for one in self._observers:
            one.ended(process)

    def detached(self) -> None:
        for one in self._observers:
            one.detached()

    def leave(self) -> dict[str, str]:
        left: dict[str, str] = {}
        for one in self._observers:
            left |= one.leave()
        return left

    def take(self, process: Process, left: str) -> None:
        for one in self._observers:
            one.take(process, left)

    def reopen(self) -> None:
        for one in self._observers:
            one.reopen()

    def flush(self) -> None:
        for one in self._observers:
            one.flush()

    def close(self) -> None:
        for one in self._observers:
            one.close()
