"""Many executors and harnesses at one rendezvous, as bare sockets: the service is what is measured.

Nothing is encrypted here, because the service cannot tell: frames have the size of a short command and its
answer. An executor answers each frame with one of the same stream.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from bench import procfs
from bench.errors import BenchError
from outfitter.protocol import relay
from outfitter.protocol import websocket as ws
from outfitter.protocol.registry import EXECUTE, PROFILE, USE, ConnectParams, KeyObject, RegisterParams
from outfitter.relay.authority import Authority
from outfitter.relay.keys import Keys
from outfitter.relay.store import SqliteStore

__all__ = ["Crowd", "Turns", "crowd", "turns_of", "upgraded"]

FRAME: Final = 300  # bytes: the request for a short command, encrypted
SETTLE: Final = 0.5


@dataclass(frozen=True)
class Turns:
    """What a busy time has brought: how many answers, how long they took, and how many times as many the
    executor and the stream with most got as those with least."""

    answers: int
    seconds: float
    executors: float
    streams: float
    p50: float
    p99: float


class Crowd:
    """Sockets of one service."""

    def __init__(self, port: int, pid: int, store: str, stack: ExitStack) -> None:
        self._pid = pid
        self._store = SqliteStore(store)
        stack.callback(self._store.close)
        self._authority = Authority(self._store, time.time, "ws://unused")
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(self._http.close)
        self._stack = stack
        public = Keys().public
        key = KeyObject(public.x25519, public.mlkem)
        self._register = json.dumps(RegisterParams(PROFILE, key).encode())
        self._connect = json.dumps(ConnectParams(key).encode())
        self.executors: list[socket.socket] = []
        self.harnesses: list[tuple[socket.socket, int, bytes]] = []  # each with its executor and a frame

    def memory(self) -> int:
        """Kilobytes of the service, when it has come to rest."""
        time.sleep(SETTLE)
        return procfs.rss_kb([self._pid])

    def attach(self, count: int) -> None:
        """So many more executors."""
        for number in range(len(self.executors), len(self.executors) + count):
            name = f"box{number}"
            self.executors.append(
                self._dial(self._ask("register", name, self._token(name, EXECUTE), self._register))
            )

    def join(self, each: int) -> None:
        """So many harnesses for each executor, a stream each."""
        for number in range(len(self.executors)):
            name = f"box{number}"
            token = self._token(name, USE)
            self._wait_for(name)
            for _ in range(each):
                stream = f"{len(self.harnesses):036d}"
                frame = relay.DataWriter(stream).head(0, FRAME) + bytes(FRAME)
                sock = self._dial(self._ask("connect", name, token, self._connect))
                self.harnesses.append((sock, number, b"".join(ws.sealed(frame))))

    def take_turns(self, seconds: float) -> Turns:
        """Each harness asks, and asks again when it is answered."""
        poll = select.epoll()
        try:
            return _Round(self.executors, self.harnesses).run(poll, seconds)
        finally:
            poll.close()

    def _token(self, name: str, role: str) -> str:
        return self._authority.enrol(self._authority.code("bench", name, role)).token

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while not self._store.rows("SELECT 1 FROM attachments WHERE environment = ?", name):
            if time.monotonic() > deadline:
                raise BenchError(f"{name} is not connected")
            time.sleep(0.001)

    def _ask(self, what: str, name: str, token: str, body: str) -> str:
        self._http.request(
            "POST", f"/cloud/environment/{name}/{what}", body, {"Authorization": f"Bearer {token}"}
        )
        response = self._http.getresponse()
        said: Any = json.loads(response.read())
        if response.status != 200:
            raise BenchError(f"{what}: {response.status} {said}")
        return str(said["url"])

    def _dial(self, url: str) -> socket.socket:
        return self._stack.enter_context(upgraded(url))


def upgraded(url: str) -> socket.socket:
    """A WebSocket to where a URL of a registry leads, on this machine."""
    parts = urlsplit(url)
    sock = socket.create_connection(("127.0.0.1", parts.port or 80), timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\n"
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = sock.recv(4096)
    if b" 101 " not in head:
        sock.close()
        raise BenchError(head.decode(errors="replace").partition("\r\n")[0])
    return sock


class _Round:
    def __init__(
        self, executors: list[socket.socket], harnesses: list[tuple[socket.socket, int, bytes]]
    ) -> None:
        self._executors = {
            sock.fileno(): (sock, ws.FrameReader(masked=False, limit=1 << 20)) for sock in executors
        }
        self._harnesses = {one[0].fileno(): one for one in harnesses}
        self._asked = {one[0].fileno(): 0.0 for one in harnesses}
        self._answers = {one[0].fileno(): 0 for one in harnesses}
        self._times: list[float] = []

    def run(self, poll: select.epoll, seconds: float) -> Turns:
        for fd in (*self._executors, *self._harnesses):
            poll.register(fd, select.EPOLLIN)
        begin = time.perf_counter()
        for fd in self._harnesses:
            self._say(fd)
        while (now := time.perf_counter()) - begin < seconds:
            for fd, _ in poll.poll(1.0, 256):
                if fd in self._executors:
                    self._execute(fd)
                else:
                    self._answered(fd)
        of_executors: Counter[int] = Counter()
        for fd, (_, executor, _) in self._harnesses.items():
            of_executors[executor] += self._answers[fd]
        return turns_of(self._times, now - begin, of_executors.values(), self._answers.values())

    def _say(self, fd: int) -> None:
        sock, _, frame = self._harnesses[fd]
        self._asked[fd] = time.perf_counter()
        sock.sendall(frame)

    def _execute(self, fd: int) -> None:
        sock, reader = self._executors[fd]
        said = [
            part
            for opcode, data in reader.feed(sock.recv(65536))
            if opcode == ws.BINARY and isinstance(data, bytes)
            for part in ws.sealed(data)
        ]
        if said:
            sock.sendall(b"".join(said))

    def _answered(self, fd: int) -> None:
        sock = self._harnesses[fd][0]
        if not sock.recv(65536):
            raise BenchError("a harness was let go")
        self._times.append(time.perf_counter() - self._asked[fd])
        self._answers[fd] += 1
        self._say(fd)


def turns_of(
    times: list[float], seconds: float, of_executors: Collection[int], of_streams: Collection[int]
) -> Turns:
    """From how long each answer took, and how many everybody got."""
    if not times:
        raise BenchError("nobody was answered")
    times = sorted(times)
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    return Turns(len(times), seconds, _spread(of_executors), _spread(of_streams), p50, p99)


def _spread(answers: Collection[int]) -> float:
    return max(answers) / max(1, min(answers))


@contextmanager
def crowd(port: int, pid: int, store: str) -> Iterator[Crowd]:
    """Nobody yet, at the service with this port, process and store."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        yield Crowd(port, pid, store, stack)
