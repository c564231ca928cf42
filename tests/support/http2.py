"""An HTTP/2 origin on loopback, one connection at a time, which says what it was asked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import h2.config
import h2.connection
import h2.events

from .certificates import server_pair

LARGE = 3 << 20


def goaway(last: int, code: int = 0, more: bytes = b"") -> bytes:
    """The frame that says that streams after the `last` are not answered."""
    payload = last.to_bytes(4, "big") + code.to_bytes(4, "big") + more
    return len(payload).to_bytes(3, "big") + b"\x07\0\0\0\0\0" + payload


class Http2Origin:
    """`/large` has LARGE bytes, any other path the names and values of the request's headers. Before it
    answers to `/last`, it says that this is the last answer on its connection; `/refused` and `/reset` it
    answers, or not, before it has a body. It takes no more than 65,535 bytes of one.
    `/status/N` has the status N."""

    def __init__(self) -> None:
        pair = server_pair()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        self._context.set_alpn_protocols(["h2"])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._peer: ssl.SSLSocket | None = None
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        peer = self._peer
        if peer is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(peer, socket.SHUT_RDWR)
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as peer:
                self._peer = peer
                self.connections += 1
                self._serve(peer)

    def _serve(self, peer: ssl.SSLSocket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        waiting: dict[int, bytes] = {}
        asked: dict[int, Any] = {}
        peer.sendall(state.data_to_send())
        while data := peer.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    asked[event.stream_id] = event.headers
                    early = dict(event.headers)[b":path"]
                    if early == b"/refused":
                        state.send_headers(event.stream_id, [(":status", "413")], end_stream=True)
                    elif early == b"/reset":
                        state.reset_stream(event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    headers = asked.pop(event.stream_id)
                    path = dict(headers)[b":path"]
                    if path == b"/last":
                        peer.sendall(state.data_to_send() + goaway(event.stream_id))
                    text = b"".join(b"%b: %b\n" % (name, value) for name, value in headers)
                    body = bytes(LARGE) if path == b"/large" else text
                    status = path.decode().partition("/status/")[2] or "200"
                    state.send_headers(event.stream_id, [(":status", status), ("x-a", "1"), ("x-a", "2")])
                    waiting[event.stream_id] = body
            for stream, body in list(waiting.items()):
                while body and (room := min(state.local_flow_control_window(stream), 16384)) > 0:
                    state.send_data(stream, body[:room])
                    body = body[room:]
                waiting[stream] = body
                if not body:
                    state.end_stream(stream)
                    del waiting[stream]
            peer.sendall(state.data_to_send())


@contextlib.contextmanager
def http2_origin() -> Iterator[Http2Origin]:
    made = Http2Origin()
    try:
        yield made
    finally:
        made.close()
