"""A web server on loopback, for whoever asks through a proxy: it says what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BIG = bytes(range(256)) * 4096  # a megabyte


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self._chunks() if self.headers.get("transfer-encoding") else self.rfile.read(length)
        said = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("latin-1") if len(body) < 1000 else len(body),
        }
        data = BIG if self.path.startswith("/big") else json.dumps(said).encode()
        self.send_response(204 if self.path == "/nothing" else 200)
        if self.path.endswith("chunked"):
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for start in range(0, len(data), 50_000):
                piece = data[start : start + 50_000]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif self.path.endswith("close"):
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True
        elif self.path == "/nothing":
            self.end_headers()
        else:
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_OPTIONS = _answer

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def origin(host: str = "127.0.0.1") -> Iterator[int]:
    """Its port."""
    server = ThreadingHTTPServer((host, 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
