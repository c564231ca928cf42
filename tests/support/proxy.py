"""A TCP proxy that cuts a connection after so many bytes, wherever that is."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

from .servers import Server

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s, so that close sends a reset


class Cutter:
    """Forwards to a server. Each new connection takes the next budget of bytes (both ways together)."""

    def __init__(self, server: Server) -> None:
        self._target = ("127.0.0.1", server.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listening.getsockname()[1]}"
        self.budget: int | None = None  # of the next connection; None: never cut
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
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=link.pump, args=(one, other))
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

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        while True:
            try:
                data = source.recv(65536)
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
