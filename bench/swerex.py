"""The client for SWE-ReX: HTTP/1.1 by hand, on kept-alive connections, as cheap as the websocket client."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping, Sequence

from bench.client import PATIENCE, Address
from bench.errors import BenchError

__all__ = ["SwerexClient"]


class SwerexClient:
    def __init__(self, address: Address, token: str) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"Host: bench\r\nX-API-Key: {token}\r\nContent-Type: application/json\r\nContent-Length: "
        )

    def __enter__(self) -> SwerexClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def execute(self, *argv: str) -> tuple[float, int]:
        """Seconds for one command, and the size of the answer."""
        request = self._execution(argv)
        begin = time.perf_counter()
        self._socket.sendall(request)
        size, tail = self._receive()
        seconds = time.perf_counter() - begin
        _expect_success(tail)
        return seconds, size

    def read_file(self, path: str) -> tuple[float, int]:
        """Seconds to read a file, and the size of the answer."""
        request = self._request("/read_file", {"path": path})
        begin = time.perf_counter()
        self._socket.sendall(request)
        size, _ = self._receive()
        return time.perf_counter() - begin, size

    def _execution(self, argv: Sequence[str]) -> bytes:
        return self._request(
            "/execute", {"command": list(argv), "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/tmp"}
        )

    def _request(self, path: str, content: Mapping[str, object]) -> bytes:
        body = json.dumps(content)
        return f"POST {path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n{body}".encode()

    def _receive(self) -> tuple[int, bytes]:
        """Reads one answer; returns the size of its body, and the end of it."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._read(65536)
        head = data[:end].lower()
        if not head.startswith(b"http/1.1 200"):
            raise BenchError(f"swerex answered {data[:200]!r}")
        size = int(head.partition(b"content-length:")[2].split()[0])
        left = size - (len(data) - end - 4)
        tail = data[-64:]
        while left > 0:
            data = self._read(min(left, 1 << 20))
            left -= len(data)
            tail = (tail + data)[-64:]
        return size, tail

    def _read(self, size: int) -> bytes:
        try:
            data = self._socket.recv(size)
        except OSError as error:
            raise BenchError(f"swerex: {error}") from None
        if not data:
            raise BenchError("swerex closed the connection")
        return data

    @staticmethod
    def parallel(clients: Sequence[SwerexClient], seconds: float, *argv: str) -> float:
        """Commands per second with one in flight on each connection."""
        busy = {client._socket: client for client in clients}
        begin = time.perf_counter()
        deadline = begin + seconds
        for client in clients:
            client._socket.sendall(client._execution(argv))
        finished, end = 0, begin
        while busy:
            answered = select.select(list(busy), [], [], PATIENCE)[0]
            if not answered:
                raise BenchError(f"swerex: no answer within {PATIENCE} s")
            for ready in answered:
                client = busy[ready]
                _expect_success(client._receive()[1])
                finished += 1
                end = time.perf_counter()
                if end < deadline:
                    client._socket.sendall(client._execution(argv))
                else:
                    del busy[ready]
        return finished / (end - begin)


def _expect_success(tail: bytes) -> None:
    if b'"exit_code":0' not in tail:
        raise BenchError(f"swerex: command failed: {tail!r}")
