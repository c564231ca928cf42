"""What watching a server costs: the same requests without it, with /metrics, and with spans, in turn.

Run as a program (`python -m bench.observe`), this is the collector that takes the spans and forgets them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from bench.arms import ROOT, ExecArm
from bench.client import Address, ExecClient, Launch

__all__ = ["WAYS", "requests"]

WAYS: Final = ("off", "metrics", "spans")
_BLOCK: Final = 20  # commands in a row: a series, as a client runs them
_TRUE: Final = Launch("true")
_PATH: Final = {"path": "file:///tmp"}


def requests(arm: ExecArm, samples: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of commands, and of what a path is, by how the server is watched."""
    found: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in WAYS}
    with _collector() as endpoint, ExitStack() as stack:
        spans = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}
        servers: dict[str, Address] = {}
        for way, flags, env in (("off", (), {}), ("metrics", ("--metrics",), {}), ("spans", (), spans)):
            servers[way] = stack.enter_context(arm.fresh(*flags, env=env)).announced()
        clients = {
            way: stack.enter_context(ExecClient(address, quickack=True)) for way, address in servers.items()
        }
        for turn in range(samples // _BLOCK):
            first = turn % len(WAYS)  # so that none is always the one after the spans
            for way in WAYS[first:] + WAYS[:first]:
                client, (commands, paths) = clients[way], found[way]
                commands += [client.one_shot(_TRUE) for _ in range(_BLOCK)]
                paths += [client.call("fs/getMetadata", _PATH) for _ in range(4 * _BLOCK)]
    return found


@contextmanager
def _collector() -> Iterator[str]:
    command = [sys.executable, "-m", "bench.observe"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1/traces"
        finally:
            process.kill()


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as http:
        print(http.server_address[1], flush=True)
        http.serve_forever()
