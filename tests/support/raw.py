"""A peer that speaks just enough WebSocket to misbehave: never reads, cuts frames, sends garbage."""

from __future__ import annotations

import json
import socket
from typing import Any

from .machine import SECOND
from .servers import Server

UPGRADE = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
ACCEPT = "ICX+Yqv66kxgM0FcWaLWlFLwTAI="  # what RFC 6455 says for that key


def unconnected(url: str) -> socket.socket:
    return socket.socket(socket.AF_UNIX if url.startswith("unix:") else socket.AF_INET)


def address(url: str) -> str | tuple[str, int]:
    """What to connect to, for a server on loopback or on a unix socket."""
    if url.startswith("unix:"):
        return url.removeprefix("unix:")
    return "127.0.0.1", int(url.rpartition(":")[2])


class Raw:
    """One connection. Nothing is read unless a method says so."""

    def __init__(self, server: Server, *, receive_buffer: int | None = None) -> None:
        self.socket = unconnected(server.url)
        if receive_buffer is not None:  # a small window fills at once
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20 * SECOND)
        self.socket.connect(address(server.url))
        self._read = b""
        self._next = 1

    # HTTP

    def request(self, line: str = "GET / HTTP/1.1", headers: dict[str, str] | None = None) -> bytes:
        """Sends a request head and returns the whole response head."""
        given = UPGRADE if headers is None else headers
        head = "\r\n".join([line, *(f"{name}: {value}" for name, value in given.items()), "", ""])
        self.socket.sendall(head.encode("latin-1"))
        return self.head()

    def head(self) -> bytes:
        """Reads up to the empty line; empty bytes when the connection ends first."""
        while b"\r\n\r\n" not in self._read:
            more = self.socket.recv(4096)
            if not more:
                return b""
            self._read += more
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        return head

    def body(self) -> bytes:
        """The rest, up to the end of the connection."""
        while more := self.socket.recv(65536):
            self._read += more
        body, self._read = self._read, b""
        return body

    # WebSocket

    def upgrade(self, headers: dict[str, str] | None = None) -> None:
        head = self.request(headers={**UPGRADE, **(headers or {})})
        assert head.startswith(b"HTTP/1.1 101 "), head

    def send(self, message: dict[str, Any]) -> None:
        """A whole JSON message as one masked text frame."""
        self.socket.sendall(frame(json.dumps(message).encode()))

    def call_unread(self, method: str, params: Any = None) -> int:
        """Sends a request and leaves its answer where it is."""
        ident = self._next
        self._next += 1
        self.send({"id": ident, "method": method, "params": params})
        return ident

    def handshake_unread(self) -> None:
        self.upgrade()
        self.call_unread("initialize", {"clientName": "raw"})
        self.send({"method": "initialized"})

    def frame(self) -> tuple[int, bytes]:
        """Reads one frame of the server: its first byte and its payload."""
        first, length = self._take(2)
        if length == 126:
            length = int.from_bytes(self._take(2), "big")
        elif length == 127:
            length = int.from_bytes(self._take(8), "big")
        return first, self._take(length)

    def close_frame(self) -> tuple[int, str]:
        """Reads up to the server's close frame; returns code and reason."""
        while True:
            first, payload = self.frame()
            if first == 0x88:
                return int.from_bytes(payload[:2], "big"), payload[2:].decode()

    def _take(self, count: int) -> bytes:
        while len(self._read) < count:
            more = self.socket.recv(1 << 20)
            assert more, "the server ended the connection"
            self._read += more
        taken, self._read = self._read[:count], self._read[count:]
        return taken

    def ended(self) -> bool:
        """Reads to the end of the connection, however it comes."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(payload: bytes, first: int = 0x81, *, masked: bool = True, length: int | None = None) -> bytes:
    """A frame of a client, masked with zeros; `length` may lie."""
    declared = len(payload) if length is None else length
    mask = 0x80 if masked else 0
    if declared < 126:
        head = bytes((first, mask | declared))
    elif declared < 1 << 16:
        head = bytes((first, mask | 126)) + declared.to_bytes(2, "big")
    else:
        head = bytes((first, mask | 127)) + declared.to_bytes(8, "big")
    return head + (bytes(4) if masked else b"") + payload
