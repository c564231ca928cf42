"""What the proxy of a managed network costs: a connection, and a large download, beside the same without.

A command measures both, through a proxy that its server gave it, and writes down what it found. Run as a
program (`python -m bench.network`), this is the server at the other end.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from threading import Thread
from typing import Final

from bench.arms import ROOT, ExecArm
from bench.client import ExecClient, Launch
from bench.errors import BenchError
from bench.measure import Effort, Metric, Values, Workload

__all__ = ["WORKLOAD"]

LARGE: Final = 512 << 20
_PROXY: Final = {
    "enabled": True,
    "enableSocks5": True,
    "enableSocks5Udp": False,
    "allowUpstreamProxy": False,
    "dangerouslyAllowAllUnixSockets": False,
    "mode": "full",
    "domains": {"127.0.0.1": "allow"},
    "unixSockets": None,
    "allowLocalBinding": False,
}

# Inside the command. Both ways in turn, so that both meet the same machine.
_SCRIPT: Final = r"""
import json, os, socket, subprocess, sys, time
port, samples, downloads, file = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
proxy = os.environ["HTTP_PROXY"]
there = b"127.0.0.1:%d" % port

def connected(through):
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", int(proxy.rpartition(":")[2]) if through else port)) as sock:
        if through:
            sock.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (there, there))
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(4096)
        sock.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        while sock.recv(4096):
            pass
    return time.perf_counter() - begin

def downloaded(through):
    words = ["-p", "-x", proxy] if through else ["--noproxy", "*"]
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{speed_download}", *words, f"http://127.0.0.1:{port}/large"]
    return float(subprocess.run(argv, capture_output=True, check=True).stdout)

found = {"direct": [], "proxied": [], "direct-rate": [], "proxied-rate": []}
for _ in range(samples):
    found["direct"].append(connected(False))
    found["proxied"].append(connected(True))
for _ in range(downloads):
    found["direct-rate"].append(downloaded(False))
    found["proxied-rate"].append(downloaded(True))
with open(file, "w") as out:
    json.dump(found, out)
"""


def _launch(port: int, samples: int, downloads: int, file: str) -> Launch:
    """The command that measures."""
    argv = ["/usr/bin/python3", "-c", _SCRIPT, str(port), str(samples), str(downloads), file]
    return Launch(*argv, more={"networkProxy": {"proxy": _PROXY}})


def _read(file: str) -> dict[str, list[float]]:
    """What it found: seconds, and bytes per second."""
    try:
        with open(file) as said:
            found: dict[str, list[float]] = json.load(said)
    except FileNotFoundError:
        raise BenchError("the command found no proxy, or curl is missing") from None
    return found


@contextmanager
def _origin() -> Iterator[int]:
    """The port of a web server on loopback, in a process of its own."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "bench.network"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert popen.stdout is not None
    try:
        yield int(popen.stdout.readline())
    finally:
        popen.kill()
        popen.wait()
        popen.stdout.close()


def _network(arm: ExecArm, effort: Effort) -> Values:
    """A connection and a download through a command's proxy, beside the same without."""
    with (
        _origin() as port,
        tempfile.TemporaryDirectory() as folder,
        ExecClient(arm.address, quickack=True) as client,
    ):
        file = os.path.join(folder, "found")
        client.one_shot(_launch(port, effort.samples, effort.streams, file))
        found = _read(file)
    more = (one - less for one, less in zip(found["proxied"], found["direct"], strict=True))
    times = (less / one for one, less in zip(found["proxied-rate"], found["direct-rate"], strict=True))
    return {
        "network.connection": median(more) * 1e3,
        "network.rate": median(found["proxied-rate"]) / 1e6,
        "network.slower": median(times),
    }


WORKLOAD: Final = Workload(
    "network",
    ("P21",),
    (
        Metric("network.connection", "a connection through the proxy, more than without", "ms"),
        Metric("network.rate", "a download of 512 MiB through the proxy", "MB/s", "higher"),
        Metric("network.slower", "the same, times as long as without", "x"),
    ),
    _network,
)


def main() -> None:
    content = os.memfd_create("content")
    os.posix_fallocate(content, 0, LARGE)

    def serve(sock: socket.socket) -> None:
        with sock, os.fdopen(os.open(f"/proc/self/fd/{content}", os.O_RDONLY), "rb") as file:
            small = sock.recv(65536).startswith(b"GET /small")
            size = 1 if small else LARGE
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
            try:
                sock.sendfile(file, count=size)
            except OSError:
                pass  # the client has enough

    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
