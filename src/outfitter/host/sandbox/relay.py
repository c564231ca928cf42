"""Two connected sockets, and bytes from each to the other, until both have ended.

A little is copied through memory. Of a stream the kernel moves the pages itself (splice), through a pipe that
is held only while the receiver does not keep up.
"""

from __future__ import annotations

import os

from ...errors import Exhausted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...loop import Loop
    from ...stdlib import socket
    from ..descriptors import Descriptors

COPIED = 64 << 10  # bytes at a time, while little passes
_STREAM = 256 << 10  # from so many on it is a stream: below, a pipe costs more than it saves
MOVED = 1 << 20  # bytes at a time of a stream: what a pipe of an ordinary user may hold
_PIPES = 8  # kept open for streams, of all connections of a proxy; others copy
_SPLICE = 1 | 2  # SPLICE_F_MOVE, SPLICE_F_NONBLOCK
_F_SETPIPE_SZ = 1031
_SHUT_WR = 1
_ENDLESS = 1 << 62
_ENDED, _READ, _WRITE = range(3)  # what a direction waits for
# Of reading and writing, before others have their turn: 8 MiB, or 2 ms. With three it is 3 % slower.
_ROUNDS = 8


class StreamPipes:
    """Pipes for streams: each is empty when nobody has it."""

    def __init__(self, descriptors: Descriptors | None = None, principal: str = "") -> None:
        """`descriptors` are where theirs are counted, for a principal."""
        self._free: list[tuple[int, int]] = []
        self._open = 0
        self._descriptors = descriptors
        self._principal = principal

    def take(self) -> tuple[int, int] | None:
        """None when there is none: then bytes are copied."""
        if self._free:
            return self._free.pop()
        if self._open >= _PIPES:
            return None
        from fcntl import fcntl

        if self._descriptors is not None:
            try:
                self._descriptors.take(2, self._principal)
            except Exhausted:
                return None
        try:
            pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            self._give_back()
            return None
        self._open += 1
        try:
            fcntl(pipe[1], _F_SETPIPE_SZ, MOVED)
        except OSError:
            pass  # the user has pipes enough: a narrow one does it in more turns
        return pipe

    def give(self, pipe: tuple[int, int]) -> None:
        self._free.append(pipe)

    def drop(self, pipe: tuple[int, int]) -> None:
        """Closes one that something is left in."""
        self._open -= 1
        self._give_back()
        os.close(pipe[0])
        os.close(pipe[1])

    def _give_back(self) -> None:
        if self._descriptors is not None:
            self._descriptors.give_back(2, self._principal)

    def close(self) -> None:
        for pipe in self._free:
            self.drop(pipe)
        self._free.clear()


class _Flow:
    """One direction. It reads only while nothing waits to be written, and no more than `limit` bytes."""

    __slots__ = (
        "_awaits",
        "_inside",
        "_left",
        "_passed",
        "_pipe",
        "_relay",
        "_sink",
        "_source",
        "_waiting",
        "done",
    )

    def __init__(self, relay: Relay, source: socket, sink: socket, first: bytes, limit: int | None) -> None:
        self._relay = relay
        self._source = source
        self._sink = sink
        self._passed = 0
        self._left = _ENDLESS if limit is None else max(0, limit - len(first))
        self._waiting = memoryview(first if limit is None else first[:limit])
        self._pipe: tuple[int, int] | None = None  # while something is in it
        self._inside = 0  # bytes in it
        self._awaits = _ENDED  # nothing yet
        self.done = False

    @property
    def principal(self) -> str:
        return self._relay.principal

    def begin(self) -> None:
        self._relay.loop.add_writer(self._sink.fileno(), self._ready)
        self._awaits = _WRITE

    def _ready(self) -> None:
        """What it waited for is there. While the receiver is the slower one, only that is waited for."""
        relay = self._relay
        relay.stirred = True
        try:
            awaits = self._move()
        except OSError:
            relay.close()
            return
        if awaits == self._awaits:
            return
        before, self._awaits = self._awaits, awaits
        if before == _READ:
            relay.loop.remove_reader(self._source.fileno())
        else:
            relay.loop.remove_writer(self._sink.fileno())
        if awaits == _READ:
            relay.loop.add_reader(self._source.fileno(), self._ready)
        elif awaits == _WRITE:
            relay.loop.add_writer(self._sink.fileno(), self._ready)
        else:
            self._end()

    def _move(self) -> int:
        """Writes and reads in turn, as much as goes now but not for too long; what it waits for then. Raises
        OSError."""
        for _ in range(_ROUNDS):
            if self._waiting or self._inside:
                try:
                    self._write()
                except (BlockingIOError, InterruptedError):
                    return _WRITE
                if self._waiting or self._inside:
                    return _WRITE
            if not self._left:
                return _ENDED
            try:
                moved = self._read()
            except (BlockingIOError, InterruptedError):
                return _READ
            if not moved:
                return _ENDED
            self._passed += moved
            self._left -= moved
        return _WRITE  # which is most often possible at once

    def _read(self) -> int:
        """How many bytes came; 0 at the end. Raises OSError."""
        if self._passed >= _STREAM:
            pipe = self._relay.pipes.take()
            if pipe is not None:
                try:
                    self._inside = os.splice(
                        self._source.fileno(), pipe[1], min(MOVED, self._left), flags=_SPLICE
                    )
                finally:
                    if self._inside:
                        self._pipe = pipe
                    else:
                        self._relay.pipes.give(pipe)
                return self._inside
        data = self._source.recv(min(COPIED, self._left))
        self._waiting = memoryview(data)
        return len(data)

    def _write(self) -> None:
        """Raises OSError."""
        if self._pipe is None:
            self._waiting = self._waiting[self._sink.send(self._waiting) :]
            return
        self._inside -= os.splice(self._pipe[0], self._sink.fileno(), self._inside, flags=_SPLICE)
        if not self._inside:
            self._relay.pipes.give(self._pipe)
            self._pipe = None

    def _end(self) -> None:
        self.done = True
        try:
            self._sink.shutdown(_SHUT_WR)
        except OSError:
            pass  # it is gone: the other direction will see it
        self._relay.one_ended()

    def stop(self) -> None:
        if self._pipe is not None:
            self._relay.pipes.drop(self._pipe)
            self._pipe = None


class Relay:
    """Bytes between `near` and `far`, in both directions. `near_first` came from near already, `far_first`
    from far. With `both=False` bytes pass only from far to near, no more than `limit` of them, and somebody
    else reads what comes from near. `over` is called once both have ended, or one has failed; both sockets
    are closed by then.

    `stirred` is set when something passes: who looks for idle ones sets it back.
    """

    __slots__ = ("_far", "_flows", "_near", "_over", "loop", "pipes", "principal", "stirred")

    def __init__(
        self,
        near: socket,
        far: socket,
        over: Callable[[], None],
        *,
        loop: Loop,
        pipes: StreamPipes,
        principal: str = "",
        near_first: bytes = b"",
        far_first: bytes = b"",
        both: bool = True,
        limit: int | None = None,
    ) -> None:
        self.loop = loop
        self.pipes = pipes
        self.principal = principal
        self.stirred = True
        self._near = near
        self._far = far
        self._over = over
        self._flows = [_Flow(self, far, near, far_first, limit)]
        if both:
            self._flows.append(_Flow(self, near, far, near_first, None))
        for flow in self._flows:
            flow.begin()

    def one_ended(self) -> None:
        if all(flow.done for flow in self._flows):
            self.close()

    def close(self) -> None:
        if self._near.fileno() < 0:
            return
        for flow in self._flows:
            flow.stop()
        for sock in (self._near, self._far):
            self.loop.remove_reader(sock.fileno())
            self.loop.remove_writer(sock.fileno())
            sock.close()
        self._over()
