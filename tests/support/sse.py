"""An API that answers every request with server-sent events, on loopback: what a scripted model is behind."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]  # test data is whatever JSON holds


@contextlib.contextmanager
def answering(path: str, respond: Callable[[Message], list[Message]]) -> Iterator[str]:
    """The URL of a server with this path. `respond` has the events for a request; what it raises is a 500."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(path, respond))
    server.daemon_threads = False  # joined by server_close
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(path: str, respond: Callable[[Message], list[Message]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30  # a silent peer does not keep the server from being joined

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.partition("?")[0] != path:
                self.send_error(404)
                return
            try:
                events = respond(json.loads(body))
            except Exception:
                self.send_error(500)
                raise
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
