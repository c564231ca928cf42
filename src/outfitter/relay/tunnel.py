"""A harness whose executor is connected to another service of the same store: bytes go there and back.

Nothing is read on the way: the other service sees the harness's own request, and answers it.
"""

from __future__ import annotations

from ..stdlib import start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from ..transport.sockets import Stream

_DIAL_SECONDS = 5.0  # services of one store are near each other
_READ_SIZE = 256 << 10
_HELD_BYTES = 1 << 20  # of one direction; then its source is not read
_LAST_SECONDS = 5.0  # for what an end has sent before it closed: who takes longer has most of it


def dial(loop: Loop, where: str, done: Callable[[Stream | None], None]) -> None:
    """A connection to a service at `HOST:PORT`, or None, on the loop; dialled in a thread."""

    def work() -> None:
        import socket

        found: Stream | None = None
        host, _, port = where.rpartition(":")
        try:
            made = socket.create_connection((host.strip("[]"), int(port)), timeout=_DIAL_SECONDS)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setblocking(False)
            found = made
        except (OSError, ValueError):
            pass  # it is gone: whoever asks comes again
        loop.call_soon_threadsafe(done, found)

    try:
        start_new_thread(work, ())
    except RuntimeError:
        loop.call_soon(done, None)


class Tunnel:
    """Two connections that are one; `gone` is called when they have ended."""

    def __init__(
        self, loop: Loop, near: Stream, far: Stream, said: bytes, gone: Callable[[Tunnel], None]
    ) -> None:
        """`said` is what has come from the near one so far."""
        self._loop = loop
        self._gone = gone
        self._over = False
        self._there = _Way(loop, near, far, self.close, self._last)
        self._back = _Way(loop, far, near, self.close, self._last)
        self._there.begin(said)
        self._back.begin(b"")

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._there.stop()
            self._back.stop()
            self._there.source.close()
            self._back.source.close()
            self._gone(self)

    def _last(self, way: _Way) -> None:
        """One end has closed, and what it has sent is on its way. Nothing can go to it any more."""
        other = self._back if way is self._there else self._there
        other.stop()
        self._loop.call_later(_LAST_SECONDS, self.close)


class _Way:
    """From one connection to another, with as much on the way as it may hold."""

    def __init__(
        self,
        loop: Loop,
        source: Stream,
        target: Stream,
        ended: Callable[[], None],
        last: Callable[[_Way], None],
    ) -> None:
        self._loop = loop
        self.source = source
        self._target = target
        self._ended = ended
        self._last = last
        self._held = b""
        self._reading = False
        self._closed = False  # the source: what is held goes first

    def begin(self, said: bytes) -> None:
        self._held = said
        self._watch(True)
        if said:
            self._loop.call_soon(self._write)

    def stop(self) -> None:
        self._watch(False)
        self._loop.remove_writer(self._target.fileno())
        self._held = b""

    def _watch(self, on: bool) -> None:
        if on and not self._reading:
            self._loop.add_reader(self.source.fileno(), self._readable)
        elif self._reading and not on:
            self._loop.remove_reader(self.source.fileno())
        self._reading = on

    def _readable(self) -> None:
        try:
            data = self.source.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        waits = bool(self._held)
        self._held += data
        if waits:
            self._watch(len(self._held) < _HELD_BYTES)
        else:
            self._write()

    def _end(self) -> None:
        if not self._held:
            self._ended()
            return
        self._closed = True
        self._watch(False)
        self._last(self)

    def _write(self) -> None:
        if not self._held:
            return
        try:
            sent = self._target.send(self._held)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._ended()
            return
        self._held = self._held[sent:]
        if self._held:
            self._loop.add_writer(self._target.fileno(), self._write)
        elif self._closed:
            self._ended()
            return
        else:
            self._loop.remove_writer(self._target.fileno())
        self._watch(not self._closed and len(self._held) < _HELD_BYTES)
