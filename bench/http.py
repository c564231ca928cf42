"""What http/request costs. Run as a program (`python -m bench.http`), this is the server at the other end."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from threading import Thread
from typing import Final

from bench.arms import ROOT, ExecArm
from bench.client import ExecClient
from bench.measure import Effort, Metric, Values, Workload, percentile, samples

__all__ = ["WORKLOAD"]

_LARGE: Final = 64 << 20
_SMALL: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def _request(port: int, path: str, *, stream: bool = False) -> dict[str, object]:
    """Params of http/request."""
    url = f"http://127.0.0.1:{port}/{path}"
    return {"method": "GET", "url": url, "requestId": "bench", "streamResponse": stream}


@contextmanager
def _origin() -> Iterator[int]:
    """The port of the server."""
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
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % _LARGE)
                for _ in range(_LARGE >> 20):
                    peer.sendall(block)
            else:
                peer.sendall(_SMALL)


def _http(arm: ExecArm, effort: Effort) -> Values:
    with _origin() as port, ExecClient(arm.address, quickack=True) as client:
        small = samples(lambda: client.call("http/request", _request(port, "small")), effort)
        large = [client.body(_request(port, "large", stream=True)) for _ in range(effort.streams)]
    return {"http.small": percentile(small, 50) * 1e3, "http.large": median(large) * 1e3}


WORKLOAD: Final = Workload(
    "http",
    ("P22",),
    (
        Metric("http.small", "`http/request` of a small answer", "ms"),
        Metric("http.large", "`http/request`, 64 MiB streamed", "ms"),
    ),
    _http,
)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
