"""An HTTP/1.1 origin on loopback that answers byte by byte what a test wrote, and keeps what it was asked."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Iterator

GATE = b"\0gate"  # in an answer: what follows is sent when the test opens the gate
HOLD = b"\0hold"  # in an answer: the origin sends nothing more until the peer goes away
CLOSE = b"\0close"


class RawOrigin:
    """`answers` are by path; a path that is not there is answered with the request as the body."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, list[bytes]] = {}
        self.seen: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.gate = threading.Event()
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def asked(self) -> list[bytes]:
        """The requests since the last call."""
        found = []
        while not self.seen.empty():
            found.append(self.seen.get())
        return found

    def close(self) -> None:
        self.gate.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._open.copy():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        self._open.add(peer)
        try:
            if self._context is not None:
                plain = peer
                peer = self._context.wrap_socket(peer, server_side=True)
                self._open.discard(plain)
                self._open.add(peer)
            with peer, peer.makefile("rb") as reader:
                while self._answer(peer, reader):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            self._open.discard(peer)
            peer.close()

    def _answer(self, peer: socket.socket, reader: object) -> bool:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = reader.readline(1 << 16)  # type: ignore[attr-defined]
            if not line:
                return False
            head += line
        lower = head.lower()
        body = b""
        if b"content-length:" in lower:
            body = reader.read(int(lower.split(b"content-length:")[1].split(b"\r\n")[0]))  # type: ignore[attr-defined]
        request = head.replace(b":%d" % self.port, b":PORT") + body
        self.seen.put(request)
        if head.count(b" ") < 2:
            return True  # the body of one that was sent in chunks
        path = head.split(b" ")[1].decode("latin-1").partition("?")[0]
        for piece in self.answers.get(path, []):
            if piece == HOLD:
                reader.read(1)  # type: ignore[attr-defined]
                return False
            if piece == CLOSE:
                return False
            if piece == GATE:
                self.gate.wait()
                continue
            peer.sendall(piece.replace(b":PORT", b":%d" % self.port))
        if path not in self.answers:
            length = b"" if head.startswith(b"HEAD ") else request
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(request), length))
        return True


@contextlib.contextmanager
def raw_origin(context: ssl.SSLContext | None = None) -> Iterator[RawOrigin]:
    made = RawOrigin(context)
    try:
        yield made
    finally:
        made.close()
