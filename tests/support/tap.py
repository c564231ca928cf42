"""A recording TCP proxy in front of an exec-server: keeps every message, cuts connections on demand.

Bytes pass through unchanged; the WebSocket frames are only read alongside. So what a test sees here is
what the two sides really said, and a cut can fall in the middle of a message.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

Message = dict[str, Any]  # test data is whatever JSON holds
SECONDS = 20.0  # how long a test waits for a message that must come


@dataclasses.dataclass(frozen=True)
class Heard:
    """One message: on which connection (from 0), from which side."""

    connection: int
    sender: Literal["client", "server"]
    message: Message

    @property
    def method(self) -> str | None:
        """None for an answer."""
        return self.message.get("method")


class Frames:
    """Reads one direction of a WebSocket connection: bytes in, text and binary messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._upgraded = False
        self._parts = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        if not self._upgraded:
            _, blank, rest = self._buffer.partition(b"\r\n\r\n")
            if not blank:
                return []
            self._buffer = rest
            self._upgraded = True
        messages = []
        while (frame := self._frame()) is not None:
            final, opcode, payload = frame
            if opcode > 2:  # close, ping, pong
                continue
            self._parts += payload
            if final:
                messages.append(bytes(self._parts))
                self._parts.clear()
        return messages

    def _frame(self) -> tuple[bool, int, bytes] | None:
        """The next whole frame, or None when more bytes are needed."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        at, length = 2, buffer[1] & 0x7F
        if length > 125:
            form = "!H" if length == 126 else "!Q"
            at += struct.calcsize(form)
            if len(buffer) < at:
                return None
            (length,) = struct.unpack_from(form, buffer, 2)
        mask = b""
        if buffer[1] & 0x80:
            mask = bytes(buffer[at : at + 4])
            at += 4
        if len(buffer) < at + length:
            return None
        payload = bytes(buffer[at : at + length])
        if mask:
            key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
            payload = (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[: at + length]
        return final, opcode, payload


class Tap:
    """The record, and the switch. `url` is what the client is pointed at."""

    def __init__(self, target: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[Heard] = []
        self.connections = 0
        self._target = target
        self._changed = threading.Condition()
        self._cuts: list[Callable[[Heard], bool]] = []
        self._links: list[_Link] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    # What was said

    def sent(self, method: str) -> list[Message]:
        """The params of every request or notification of this name, in order, from either side."""
        with self._changed:
            return [h.message["params"] for h in self.heard if h.method == method]

    def notices(self, process: str) -> list[tuple[str, Message]]:
        """What the server said about one process: method and params, sorted by seq.

        After a cut this lacks what only process/read has brought.
        """
        with self._changed:
            mine = [
                (h.method, h.message["params"])
                for h in self.heard
                if h.sender == "server" and h.method and h.message["params"].get("processId") == process
            ]
        return sorted(mine, key=lambda notice: notice[1]["seq"])

    def output(self, process: str) -> bytes:
        """The output pushed for one process."""
        return b"".join(
            base64.b64decode(params["chunk"])
            for method, params in self.notices(process)
            if method == "process/output"
        )

    def answers(self, method: str) -> list[Message]:
        """The answers to all requests of this name, in order of the requests."""
        with self._changed:
            told = {
                (h.connection, h.message["id"]): h.message
                for h in self.heard
                if h.sender == "server" and not h.method
            }
            asked = [
                (h.connection, h.message["id"])
                for h in self.heard
                if h.sender == "client" and h.method == method
            ]
            return [told[key] for key in asked if key in told]

    def until(self, wanted: Callable[[Heard], bool], seconds: float = SECONDS) -> Heard:
        """The first message, past or coming, for which `wanted` holds."""
        deadline = time.monotonic() + seconds
        looked = 0
        with self._changed:
            while True:
                for heard in self.heard[looked:]:
                    if wanted(heard):
                        return heard
                looked = len(self.heard)
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimeoutError(f"not heard in {seconds} s; last: {self.heard[-3:]}")

    # Cutting

    def cut_at(self, wanted: Callable[[Heard], bool]) -> None:
        """Cuts the connection at the first coming message for which `wanted` holds.

        Half of the bytes it came with are passed on before, so the receiver has a torn message and the
        sender believes it was delivered.
        """
        with self._changed:
            self._cuts.append(wanted)

    # Carrying

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # the listener was shut down
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the client sees a connection that ends at once
                client.close()
                continue
            link = _Link(client, server)
            with self._changed:
                number = self.connections
                self.connections += 1
                self._links.append(link)
            for sender, source, sink in (("client", client, server), ("server", server, client)):
                thread = threading.Thread(target=self._carry, args=(number, link, sender, source, sink))
                self._threads.append(thread)
                thread.start()

    def _carry(
        self,
        number: int,
        link: _Link,
        sender: Literal["client", "server"],
        source: socket.socket,
        sink: socket.socket,
    ) -> None:
        frames = Frames()
        try:
            while data := source.recv(65536):
                heard = [Heard(number, sender, json.loads(m)) for m in frames.feed(data)]
                if self._record(heard):
                    sink.sendall(data[: len(data) // 2])
                    link.cut()
                    break
                sink.sendall(data)
        except OSError:  # the other direction has ended the connection
            pass
        finally:
            link.leave()

    def _record(self, heard: list[Heard]) -> bool:
        """Keeps the messages; whether the connection is to be cut here."""
        with self._changed:
            self.heard += heard
            self._changed.notify_all()
            for wanted in self._cuts:
                if any(map(wanted, heard)):
                    self._cuts.remove(wanted)
                    return True
        return False

    def close(self) -> None:
        """Ends everything and waits for the threads."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for link in self._links:
            link.end()
        for thread in self._threads:
            thread.join()


class _Link:
    """The two sockets of one connection, closed by the second of its two carriers to leave."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._sockets = (client, server)
        self._carriers = 2
        self._lock = threading.Lock()
        for end in self._sockets:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cut(self) -> None:
        """Ends the server's half and waits for the server to end its own.

        Else the client could dial again before the server knows that it was gone, and be refused.
        """
        server = self._sockets[1]
        server.settimeout(SECONDS)
        server.shutdown(socket.SHUT_WR)
        while server.recv(65536):
            pass

    def end(self) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):  # closed already, or by the peer
                end.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        self.end()
        with self._lock:
            self._carriers -= 1
            if self._carriers == 0:
                for end in self._sockets:
                    end.close()


@contextlib.contextmanager
def tapping(port: int) -> Iterator[Tap]:
    """A tap in front of the server at this port of loopback."""
    tap = Tap(port)
    try:
        yield tap
    finally:
        tap.close()
