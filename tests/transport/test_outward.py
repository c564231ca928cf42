"""Dialling a WebSocket from our own loop: servers that are slow, silent or none."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from outfitter.errors import DialFailed
from outfitter.loop import EpollLoop
from outfitter.protocol import websocket as ws
from outfitter.transport.address import Address
from outfitter.transport.outward import OutwardSocket, dial_outward


@contextlib.contextmanager
def answering(*pieces: bytes) -> Iterator[Address]:
    """A server that takes one connection, says this, and waits until it is left."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            peer, _ = listening.accept()
            with peer, contextlib.suppress(OSError):
                for piece in pieces:
                    peer.sendall(piece)
                while peer.recv(65536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(f"ws://127.0.0.1:{port}/", "127.0.0.1", port, "/", secure=False)
        thread.join()


def refusal(*pieces: bytes, seconds: float = 20.0) -> DialFailed:
    with answering(*pieces) as address, pytest.raises(DialFailed) as caught:
        dial_outward(EpollLoop(), address, [], seconds, None)
    return caught.value


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 101 Swit"])
def test_who_does_not_answer_in_time_is_given_up(said: bytes) -> None:
    error = refusal(said, seconds=0.2)
    assert error.retryable and "did not answer within 0.2 s" in str(error)


@pytest.mark.parametrize(("status", "again"), [(401, False), (404, False), (429, True), (503, True)])
def test_a_refusal_has_its_status_and_text(status: int, again: bool) -> None:
    error = refusal(f"HTTP/1.1 {status} No\r\n\r\nbecause".encode())
    assert (error.status, error.retryable) == (status, again)
    assert f"{status} No: because" in str(error)


def test_a_refusal_cannot_write_over_a_terminal() -> None:
    assert "\x1b" not in str(refusal(b"HTTP/1.1 403 \x1b[2J\r\n\r\n\x1b[2J"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 101 Yes\r\n\r\n", "does not match the request"),
        (b"HTTP/1.1 101 Yes\r\nSec-WebSocket-Accept: x\r\n\r\n", "does not match the request"),
        (b"HTTP/1.1 101 Yes\r\n" + b"X: y\r\n" * 20_000, "not that of a WebSocket server"),
    ],
)
def test_what_is_no_websocket_server_is_left(said: bytes, why: str) -> None:
    assert why in str(refusal(said))


class Dialled:
    """A connection, and what happens on it: frames that come, and acknowledgements."""

    def __init__(self, sock: socket.socket, loop: EpollLoop) -> None:
        self._sock = sock
        self._loop = loop
        self.happened: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def acknowledge(self) -> None:
        self.happened.append("acknowledged")
        self._loop.stop()

    def frame(self, data: bytes) -> None:
        self.happened.append(data.decode())

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None: ...


def test_what_came_is_handled_and_then_acknowledged() -> None:
    loop = EpollLoop()
    ours, theirs = socket.socketpair()
    with contextlib.closing(loop), ours, theirs:
        dialled = Dialled(ours, loop)
        outward = OutwardSocket(loop, dialled, 1024, dialled)
        outward.begin(b"")
        theirs.sendall(ws.header(5, ws.BINARY) + b"first" + ws.header(6, ws.BINARY) + b"second")
        loop.run()
        outward.close(1000, "")
    assert dialled.happened == ["first", "second", "acknowledged"]
