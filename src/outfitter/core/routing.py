"""Which frame goes to which socket: all that a rendezvous decides, with no socket in sight.

It reads the name of a frame's stream and nothing else, and passes the bytes on as they are. One socket per
executor: a new one replaces the old. A stream belongs to the harness's socket that first named it.
"""

from __future__ import annotations

from ..protocol import relay
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

STREAMS_PER_HARNESS = 8  # the reference uses one for each socket
# An executor of the reference takes 128 at a time.
STREAMS_PER_EXECUTOR = 128
LONGEST_NAME = 128  # of a stream: a UUID has 36 characters; names are kept
GONE = 1012  # "service restart": clients come back at once


@record
class Pass:
    """A message for a socket, as it came."""

    socket: int
    data: bytes


@record
class Close:
    """A socket has to end."""

    socket: int
    code: int
    reason: str


Step: TypeAlias = "Pass | Close"


class _Executor:
    def __init__(self, socket: int) -> None:
        self.socket = socket
        self.harnesses: dict[int, set[str]] = {}  # each with its streams
        self.streams: dict[str, int] = {}


class Routes:
    """The sockets of one rendezvous, by number; no number is used twice."""

    def __init__(self) -> None:
        self._executors: dict[str, _Executor] = {}
        self._environments: dict[int, str] = {}  # of every socket
        self.streams_opened = 0

    def online(self, environment_id: str) -> bool:
        return environment_id in self._executors

    @property
    def counts(self) -> tuple[int, int, int]:
        """Executors, harnesses and streams."""
        executors = self._executors.values()
        streams = sum(len(one.streams) for one in executors)
        return len(executors), sum(len(one.harnesses) for one in executors), streams

    def attach(self, environment_id: str, socket: int) -> list[Step]:
        """An executor has come; whoever had its place goes, and its harnesses with it."""
        steps = self._end(environment_id, "another executor took this one's place")
        old = self._executors.get(environment_id)
        if old is not None:
            self._environments.pop(old.socket, None)
            steps.append(Close(old.socket, 1000, "another executor took this one's place"))
        self._executors[environment_id] = _Executor(socket)
        self._environments[socket] = environment_id
        return steps

    def join(self, environment_id: str, socket: int) -> list[Step]:
        """A harness has come. Without an executor it goes again: it would wait for ever."""
        executor = self._executors.get(environment_id)
        if executor is None:
            return [Close(socket, GONE, "the executor is not connected")]
        executor.harnesses[socket] = set()
        self._environments[socket] = environment_id
        return []

    def target(self, socket: int, data: bytes) -> int | None:
        """The socket for a message of a stream that is known; None where `received` has to decide."""
        environment_id = self._environments.get(socket)
        executor = None if environment_id is None else self._executors.get(environment_id)
        stream = relay.stream_of(data)
        if executor is None or stream is None:
            return None
        holder = executor.streams.get(stream)
        if socket == executor.socket:
            return holder
        return executor.socket if holder == socket else None

    def received(self, socket: int, data: bytes) -> list[Step]:
        """Where a message goes that a socket has brought."""
        executor = self._executor_of(socket)
        stream = relay.stream_of(data)
        if executor is None or stream is None or len(stream) > LONGEST_NAME:
            return []
        if socket == executor.socket:
            target = executor.streams.get(stream)
            return [] if target is None else [Pass(target, data)]
        holder = executor.streams.get(stream)
        if holder is None:
            mine = executor.harnesses[socket]
            if len(mine) >= STREAMS_PER_HARNESS or len(executor.streams) >= STREAMS_PER_EXECUTOR:
                return [Pass(socket, relay.reset(stream))]
            mine.add(stream)
            executor.streams[stream] = socket
            self.streams_opened += 1
        elif holder != socket:
            return [Close(socket, 1008, "the stream belongs to another connection")]
        return [Pass(executor.socket, data)]

    def lost(self, socket: int) -> list[Step]:
        """A socket has gone, from whichever end."""
        environment_id = self._environments.pop(socket, None)
        executor = None if environment_id is None else self._executors.get(environment_id)
        if executor is None or environment_id is None:
            return []
        if socket == executor.socket:
            steps = self._end(environment_id, "the executor's connection was lost")
            del self._executors[environment_id]
            return steps
        # Else the executor would count its streams for ever, and keep their sessions attached.
        steps = []
        for stream in executor.harnesses.pop(socket, set()):
            del executor.streams[stream]
            steps.append(Pass(executor.socket, relay.reset(stream)))
        return steps

    def _end(self, environment_id: str, why: str) -> list[Step]:
        """Ends an executor's harnesses: the service answers their pings, so nothing else would tell them."""
        executor = self._executors.get(environment_id)
        if executor is None:
            return []
        for socket in executor.harnesses:
            self._environments.pop(socket, None)
        return [Close(socket, GONE, why) for socket in executor.harnesses]

    def _executor_of(self, socket: int) -> _Executor | None:
        environment_id = self._environments.get(socket)
        return None if environment_id is None else self._executors.get(environment_id)
