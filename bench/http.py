"""The server at the other end of http/request, as a program (`python -m bench.http`) that prints its port."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

from bench.arms import ROOT

__all__ = ["LARGE", "origin", "request"]

LARGE: Final = 64 << 20
_SMALL: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def request(port: int, path: str, *, stream: bool = False) -> dict[str, object]:
    """Params of http/request."""
    url = f"http://127.0.0.1:{port}/{path}"
    return {"method": "GET", "url": url, "requestId": "bench", "streamResponse": stream}


@contextmanager
def origin() -> Iterator[int]:
    """Its port."""
    command = [sys.executable, "-m", "bench.http"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _serve(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    block = bytes(1 << 20)
    with peer:
        while asked := peer.recv(65536):
            if asked.startswith(b"GET /large "):
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % LARGE)
                for _ in range(LARGE >> 20):
                    peer.sendall(block)
            else:
                peer.sendall(_SMALL)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
