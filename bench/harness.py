"""A harness on a blocking socket, for the same reason as `bench.client`: the load should cost little.

Both executors are driven by it, through the same service. It acknowledges every segment at once.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
import uuid
from collections import deque
from typing import Final

from bench.crowd import upgraded
from bench.errors import BenchError
from outfitter.core.calling import Calling, Invitation
from outfitter.core.noise import PublicKey
from outfitter.core.records import cut
from outfitter.protocol import websocket as ws
from outfitter.protocol.registry import KeyObject
from outfitter.protocol.relay import MAX_FRAME, DataWriter
from outfitter.relay.keys import Keys, encapsulate
from outfitter.relay.registry import Registry

__all__ = ["RawHarness"]

# One for all reads: a new one of this size is mapped and faulted in each time, which takes 0.05 ms.
_BUFFER: Final = memoryview(bytearray(1 << 18))
_HELLO: Final = b'{"id":0,"method":"initialize","params":{"clientName":"bench","resumeSessionId":null}}'


class RawHarness:
    """One initialized stream to an executor."""

    def __init__(self, url: str, environment_id: str, token: str) -> None:
        registry = Registry(url, environment_id, lambda: {"Authorization": f"Bearer {token}"})
        keys = Keys()
        told = registry.connect(KeyObject(keys.public.x25519, keys.public.mlkem))
        executor = PublicKey(told.executor.x25519, told.executor.mlkem)
        invitation = Invitation(
            told.environment_id, told.registration_id, executor, told.url, told.authorization
        )
        self._calling = Calling(invitation, str(uuid.uuid4()), keys, Keys(), encapsulate)
        self._writer = DataWriter(self._calling.stream)
        self._frames = ws.FrameReader(masked=False, limit=MAX_FRAME)
        self._inbox: deque[bytes] = deque()
        self._numbers = itertools.count(1)
        self._socket = upgraded(told.url)
        try:
            for frame in self._calling.opening:
                self._socket.sendall(b"".join(ws.sealed(frame)))
            while not self._calling.is_open:
                self._read()
            self._send(_HELLO)
            self._until(b'"sessionId"')
            self._send(b'{"method":"initialized","params":{}}')
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawHarness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def one_shot(self, *argv: str) -> float:
        """Seconds from sending process/start to process/closed."""
        begin = time.perf_counter()
        self.begin(*argv)
        self._until(b'"process/closed"')
        return time.perf_counter() - begin

    def begin(self, *argv: str) -> None:
        """Starts a command."""
        number = next(self._numbers)
        params = {
            "processId": f"bench-{os.getpid()}-{number}",
            "argv": argv,
            "cwd": "file:///tmp",
            "env": {"PATH": "/usr/bin:/bin"},
            "tty": False,
        }
        self._send(json.dumps({"id": number, "method": "process/start", "params": params}).encode())

    def has_ended(self) -> bool:
        """Reads what is there; whether the command has ended."""
        self._read()
        return self._look_for(b'"process/closed"')

    def fileno(self) -> int:
        return self._socket.fileno()

    def _send(self, message: bytes) -> None:
        assert self._calling.sealer is not None
        for piece in cut((message,)):
            seq, record = self._calling.sealer.seal(piece)
            self._socket.sendall(b"".join(ws.sealed(self._writer.head(seq, len(record)), record)))

    def _until(self, word: bytes) -> None:
        while not self._look_for(word):
            self._read()

    def _look_for(self, word: bytes) -> bool:
        while self._inbox:
            message = self._inbox.popleft()
            if b'"error":{' in message:
                raise BenchError(message.decode(errors="replace")[:200])
            if word in message:
                return True
        return False

    def _read(self) -> None:
        try:
            size = self._socket.recv_into(_BUFFER)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except TimeoutError:
            raise BenchError("no answer through the relay") from None
        if not size:
            raise BenchError("the relay closed the connection")
        for opcode, payload in self._frames.feed(bytes(_BUFFER[:size])):
            if opcode == ws.BINARY and isinstance(payload, bytes):
                self._inbox += self._calling.receive(payload)
