"""A registry that answers whatever a test wants, byte by byte: over real sockets, one thread."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

Answer = Callable[[bytes, bytes], bytes | None]  # from head and body; None: no answer, ever


class FakeRegistry:
    """`asked` has the heads and bodies of all requests."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._kept: list[socket.socket] = []
        self._tls = tls
        place = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.url = f"http://{place}" if tls is None else f"https://{place}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self._tls is not None:
                    peer = self._tls.wrap_socket(peer, server_side=True)
                self._one(peer)
            except OSError:
                peer.close()

    def _one(self, peer: socket.socket) -> None:
        peer.settimeout(20)
        said = b""
        while b"\r\n\r\n" not in said:
            more = peer.recv(65536)
            if not more:
                peer.close()
                return
            said += more
        head, _, body = said.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
        while len(body) < int(fields.get("content-length", 0)):
            body += peer.recv(65536)
        self.asked.append((head.decode(), json.loads(body)))
        answer = self._answer(head, body)
        if answer is None:
            self._kept.append(peer)
            return
        with contextlib.suppress(OSError):
            peer.sendall(answer)
        peer.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        for peer in self._kept:
            peer.close()


def reply(body: bytes | object, status: int = 200, *more: str) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(raw)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + raw


@contextlib.contextmanager
def answering(answer: Answer | bytes | None, tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    made = FakeRegistry(answer if callable(answer) else lambda *_: answer, tls)
    try:
        yield made
    finally:
        made.close()
