"""A TCP proxy that cuts a connection after so many bytes, wherever that is, or loses one message."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from .servers import Server

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s, so that close sends a reset


class Cutter:
    """Forwards to a server. Each new connection takes the next budget of bytes (both ways together)."""

    def __init__(self, server: Server) -> None:
        self._target = ("127.0.0.1", server.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listening.getsockname()[1]}"
        self.budget: int | None = None  # of the next connection; None: never cut
        self.loses: Callable[[bytes], bool] | None = None  # which messages of the server it loses
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            link = _Link(near, far, self.budget)
            self._open |= {near, far}
            messages = None if self.loses is None else _Messages(self.loses)
            for one, other, through in ((near, far, None), (far, near, messages)):
                thread = threading.Thread(target=link.pump, args=(one, other, through))
                thread.start()
                self._threads.append(thread)

    def cut_all(self) -> None:
        """Cuts every connection that there is now."""
        for one in list(self._open):
            _cut(one)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()
        for one in self._open:
            _cut(one)
        for thread in self._threads:
            thread.join()
        for one in self._open:
            one.close()


class _Link:
    def __init__(self, near: socket.socket, far: socket.socket, budget: int | None) -> None:
        self._ends = (near, far)
        self._left = budget
        self._lock = threading.Lock()

    def pump(self, source: socket.socket, target: socket.socket, through: _Messages | None) -> None:
        while True:
            try:
                data = source.recv(65536)
                if data and through is not None:
                    target.sendall(through.feed(data))
                    continue
                with self._lock:
                    over = self._left is not None and len(data) >= self._left
                    if self._left is not None:
                        data = data[: self._left]
                        self._left -= len(data)
                target.sendall(data)
            except OSError:
                data, over = b"", True
            if not data or over:
                for one in self._ends:
                    _cut(one)
                source.close()  # the reset: an end that fills a closed window hears of nothing else
                return


class _Messages:
    """A server's WebSocket frames, unmasked and each whole, behind the answer to the upgrade."""

    def __init__(self, loses: Callable[[bytes], bool]) -> None:
        self._loses = loses
        self._data = b""
        self._upgraded = False

    def feed(self, data: bytes) -> bytes:
        """What goes on of all that has come."""
        self._data += data
        out = b""
        if not self._upgraded:
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                return b""
            out, self._data, self._upgraded = head + end, rest, True
        while len(self._data) >= 2:
            length, start = self._data[1], 2
            if length >= 126:
                start = 4 if length == 126 else 10
                length = int.from_bytes(self._data[2:start], "big")
            if len(self._data) < start + length:
                break
            frame, self._data = self._data[: start + length], self._data[start + length :]
            if not self._loses(frame[start:]):
                out += frame
        return out


def _cut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cutting(server: Server) -> Iterator[Cutter]:
    cutter = Cutter(server)
    try:
        yield cutter
    finally:
        cutter.close()
