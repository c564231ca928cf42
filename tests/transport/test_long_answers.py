"""An answer that is too long for one system call reaches whoever reads it, and holds up nobody else."""

from __future__ import annotations

import socket
import threading

from outfitter.loop import EpollLoop
from outfitter.server.auth import gate
from outfitter.transport.listener import Listener
from outfitter.transport.sockets import listen
from tests.support.machine import SECOND

BODY = "0123456789abcde\n" * (1 << 19)  # 8 MiB: more than any socket takes


def test_long_answer_arrives_whole_while_others_are_served() -> None:
    loop = EpollLoop()
    sock = listen("127.0.0.1", 0)
    address = sock.getsockname()
    listener = Listener(loop, sock, gate(frozenset(), None, None), lambda transport: None, 10)
    listener.metrics = lambda: BODY
    serves = threading.Thread(target=loop.run)
    serves.start()
    try:
        with socket.create_connection(address, 20 * SECOND) as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            said = slow.recv(17)
            with socket.create_connection(address, 20 * SECOND) as other:
                other.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert other.recv(17) == b"HTTP/1.1 200 OK\r\n"
            while more := slow.recv(1 << 16):
                said += more
        head, _, body = said.partition(b"\r\n\r\n")
        assert f"content-length: {len(BODY)}".encode() in head
        assert body == BODY.encode()
        with socket.create_connection(address, 20 * SECOND) as gone:  # before it has read all
            gone.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert gone.recv(17) == b"HTTP/1.1 200 OK\r\n"
        with socket.create_connection(address, 20 * SECOND) as other:
            other.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(17) == b"HTTP/1.1 200 OK\r\n"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        serves.join()
        listener.stop()
        for one in list(listener.open):
            one.abort()  # type: ignore[union-attr]
        loop.close()
