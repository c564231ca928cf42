"""A proxy on loopback that connects to wherever it is asked to, and keeps what it was asked."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator


class TunnelProxy:
    """`seen` has the heads of requests; `answer` is what it says before it passes bytes on."""

    def __init__(self) -> None:
        self.seen: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(near)
            self._run(self._serve, near)

    def _run(self, work: object, *args: socket.socket) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._answer(near)

    def _answer(self, near: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = near.recv(65536)
            if not data:
                return
            head += data
        self.seen.put(head)
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        answer = self.answer  # a test changes it when it has seen it
        near.sendall(answer)
        if b" 200 " not in answer:
            near.shutdown(socket.SHUT_RDWR)
            return
        far = socket.create_connection((host, int(port)))
        self._open.append(far)
        self._run(_pump, far, near)
        _pump(near, far)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for one in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._socket, *self._open):
            one.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def tunnel_proxy() -> Iterator[TunnelProxy]:
    made = TunnelProxy()
    try:
        yield made
    finally:
        made.close()
