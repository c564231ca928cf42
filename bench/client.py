"""The clients that drive every arm: a small websocket client, and one that speaks the bare program's lines.

They are hand-written on raw sockets so that the load costs a few microseconds per message: with a general
library the client would be most of what is measured. Masking uses the key zero, which RFC 6455 permits and
which leaves the payload as it is. Messages are searched for the few words that matter, not parsed; that is
sound because base64 has no quotation marks.

With `quickack` the client acknowledges every segment at once, so a server that lets small messages wait for
an acknowledgement is not charged for the wait. Both kinds set TCP_NODELAY on their own side.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench.errors import BenchError

__all__ = ["PATIENCE", "Address", "ExecClient", "Launch", "LineClient", "http_status"]

Address = tuple[str, int]

PATIENCE: Final = 20  # seconds without a byte before a server counts as stuck
BUFFER: Final = 256 * 1024  # holds a few of the largest usual messages and stays in the cache
LARGEST_FRAME: Final = 8 << 20
SMALL: Final = 1024  # anything longer than this is process/output: all else is ids and numbers

_process_numbers = itertools.count(1)


class Launch:
    """A process/start request, encoded but for its two ids."""

    def __init__(
        self,
        *argv: str,
        tty: bool = False,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        params = {
            "argv": list(argv),
            "cwd": "file:///tmp",
            "env": dict(env) if env is not None else {"PATH": "/usr/bin:/bin"},
            "tty": tty,
            **({"pipeStdin": True} if stdin else {}),
            **(more or {}),
        }
        self._rest = json.dumps(params, separators=(",", ":")).encode()[1:] + b"}"

    def frame(self, request: int, process: str) -> bytes:
        head = b'{"id":%d,"method":"process/start","params":{"processId":"%s",' % (request, process.encode())
        return _frame(head + self._rest)


class ExecClient:
    """One initialized connection to an exec-server."""

    def __init__(self, address: Address, *, quickack: bool) -> None:
        self._socket = _connect(address)
        self._quickack = quickack
        self._buffer = bytearray(BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._requests = itertools.count(1)
        try:
            self._upgrade(address)
            self._socket.sendall(
                _frame(
                    b'{"id":0,"method":"initialize","params":{"clientName":"bench","resumeSessionId":null}}'
                )
            )
            self.wait_results(1)
            self._socket.sendall(_frame(b'{"method":"initialized","params":{}}'))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ExecClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # Commands that end by themselves

    def one_shot(self, launch: Launch) -> float:
        """Seconds from sending process/start to process/closed."""
        frame = launch.frame(next(self._requests), _new_process())
        begin = time.perf_counter()
        self._socket.sendall(frame)
        self._wait_closed()
        return time.perf_counter() - begin

    def stream(self, launch: Launch) -> tuple[float, int]:
        """Seconds to process/closed, and the number of bytes of output on the way."""
        frame = launch.frame(next(self._requests), _new_process())
        begin = time.perf_counter()
        self._socket.sendall(frame)
        size = self._wait_closed()
        return time.perf_counter() - begin, size

    def parallel(self, launch: Launch, width: int, seconds: float) -> float:
        """Commands per second with `width` in flight."""
        begin = time.perf_counter()
        deadline = begin + seconds
        self._socket.sendall(
            b"".join(launch.frame(next(self._requests), _new_process()) for _ in range(width))
        )
        live, finished, end = width, 0, begin
        while live:
            self._wait_closed()
            finished += 1
            end = time.perf_counter()
            if end < deadline:
                self._socket.sendall(launch.frame(next(self._requests), _new_process()))
            else:
                live -= 1
        return finished / (end - begin)

    # Commands that stay

    def start(self, launch: Launch) -> str:
        process = _new_process()
        self._socket.sendall(launch.frame(next(self._requests), process))
        return process

    def start_all(self, launch: Launch, count: int, width: int) -> list[str]:
        """Starts `count` processes, at most `width` unanswered; returns when the last is answered."""
        processes = []
        for number in range(count):
            if number >= width:
                self.wait_results(1)
            processes.append(self.start(launch))
        self.wait_results(min(count, width))
        return processes

    def terminate_all(self, processes: Sequence[str], width: int) -> None:
        """Terminates them, at most `width` not yet closed; returns when the last has closed."""
        for number, process in enumerate(processes):
            if number >= width:
                self._wait_closed(clean=False)
            self.terminate(process)
        for _ in range(min(len(processes), width)):
            self._wait_closed(clean=False)

    def terminate(self, process: str) -> None:
        request = b'{"id":%d,"method":"process/terminate","params":{"processId":"%s"}}'
        self._socket.sendall(_frame(request % (next(self._requests), process.encode())))

    def end(self, process: str) -> None:
        self.terminate(process)
        self._wait_closed(clean=False)

    def echo(self, process: str, chunk: bytes) -> float:
        """Seconds from process/write to the first output after it; `chunk` is base64."""
        number = next(self._requests)
        request = (
            b'{"id":%d,"method":"process/write","params":{"processId":"%s","chunk":"%s","writeId":"w%d"}}'
        )
        frame = _frame(request % (number, process.encode(), chunk, number))
        begin = time.perf_counter()
        self._socket.sendall(frame)
        seconds = 0.0
        answered = False
        # The answer to the write comes before or after the output, and must not be left for the next echo.
        while not (seconds and answered):
            start, end = self._next()
            if self._buffer.find(b'"process/output"', start, end) >= 0:
                seconds = seconds or time.perf_counter() - begin
            elif self._is_result(start, end):
                answered = True
        return seconds

    def wait_output(self) -> int:
        """Skips to the next output; returns its size in bytes."""
        while True:
            start, end = self._next()
            if size := self._output_size(start, end):
                return size
            self._is_result(start, end)  # raises when it is a refusal

    # Other requests

    def call(self, method: str, params: Mapping[str, object]) -> float:
        """Seconds from a request to its answer, with nothing else going on."""
        request = {"id": next(self._requests), "method": method, "params": dict(params)}
        frame = _frames(json.dumps(request).encode())
        begin = time.perf_counter()
        self._socket.sendall(frame)
        start, end = self._next()
        seconds = time.perf_counter() - begin
        if self._buffer.find(b'"error":', start, min(end, start + SMALL)) >= 0:
            raise BenchError(f"refused: {self._text(start, end)}")
        return seconds

    def body(self, params: Mapping[str, object]) -> float:
        """Seconds from a streamed http/request to the last notice of its body."""
        seconds = self.call("http/request", params)
        begin = time.perf_counter()
        while True:
            start, end = self._next()
            # The flag stands at either end of a notice, wherever a server writes it.
            if self._buffer.find(b'"done":true', start, min(end, start + SMALL)) >= 0:
                return seconds + time.perf_counter() - begin

    def read_blocks(self, handle: str, size: int, block: int) -> float:
        """Seconds to read a whole file block by block, one after another."""
        begin = time.perf_counter()
        for offset in range(0, size, block):
            self.call("fs/readBlock", {"handleId": handle, "offset": offset, "len": block})
        return time.perf_counter() - begin

    # What arrives

    def wait_results(self, count: int) -> None:
        while count:
            count -= self._is_result(*self._next())

    def _wait_closed(self, *, clean: bool = True) -> int:
        """Skips to the next process/closed; returns how many bytes of output came before it.

        With `clean`, an exit code other than zero is an error: a command that failed early is not fast.
        """
        size = 0
        while True:
            start, end = self._next()
            find = self._buffer.find
            if end - start > SMALL or find(b'"process/output"', start, end) >= 0:
                size += self._output_size(start, end)
            elif find(b'"process/closed"', start, end) >= 0:
                return size
            elif find(b'"process/exited"', start, end) >= 0:
                if clean and find(b'"exitCode":0', start, end) < 0:
                    raise BenchError(f"command failed: {self._text(start, end)}")
            elif find(b'"error":', start, end) >= 0:
                raise BenchError(f"refused: {self._text(start, end)}")

    def _is_result(self, start: int, end: int) -> bool:
        if self._buffer.find(b'"method":', start, end) >= 0:
            return False
        if self._buffer.find(b'"error":', start, end) >= 0:
            raise BenchError(f"refused: {self._text(start, end)}")
        return True

    def _output_size(self, start: int, end: int) -> int:
        chunk = self._buffer.find(b'"chunk":"', start, end) + 9
        if chunk < 9:
            return 0
        stop = self._buffer.find(b'"', chunk, end)
        padding = self._buffer.count(b"=", max(chunk, stop - 2), stop)
        return (stop - chunk) // 4 * 3 - padding

    def _text(self, start: int, end: int) -> str:
        return bytes(self._view[start : min(end, start + 300)]).decode(errors="replace")

    # Frames

    def _next(self) -> tuple[int, int]:
        """Where the next message's payload lies in the buffer, until the next call."""
        while True:
            buffer, start = self._buffer, self._start
            have = self._end - start
            if have >= 2:
                length, head = buffer[start + 1], 2
                if length == 126:
                    length, head = (buffer[start + 2] << 8) | buffer[start + 3], 4
                elif length == 127:
                    length, head = int.from_bytes(buffer[start + 2 : start + 10], "big"), 10
                # A header that is not whole yet gives a nonsense length, but then `have` is too small for it.
                if have >= head and have >= head + length:
                    self._start = stop = start + head + length
                    if buffer[start] in (0x81, 0x80):  # whole, or the end of one that came in pieces
                        return start + head, stop
                    if buffer[start] in (0x01, 0x00):
                        continue  # a piece of a large answer: nobody here looks inside
                    self._control(buffer[start], bytes(self._view[start + head : stop]))
                    continue
                self._fill(head + length if have >= head else head)
            else:
                self._fill(2)

    def _control(self, first: int, payload: bytes) -> None:
        if first == 0x89:
            self._socket.sendall(_frame(payload, first=0x8A))
        elif first != 0x8A:
            raise BenchError(f"unexpected websocket frame {first:#x}")

    def _fill(self, need: int) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif len(self._buffer) - self._start < need or len(self._buffer) - self._end < SMALL:
            rest = bytes(self._view[self._start : self._end])
            if need > len(self._buffer):
                self._buffer = bytearray(2 * need)
                self._view = memoryview(self._buffer)
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        if self._quickack:
            # The kernel leaves quick mode again by itself, hence before every read.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self._end += _receive(self._socket, self._view[self._end :])

    def _upgrade(self, address: Address) -> None:
        host = f"{address[0]}:{address[1]}"
        self._socket.sendall(
            f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        while (stop := self._buffer.find(b"\r\n\r\n", 0, self._end)) < 0:
            self._end += _receive(self._socket, self._view[self._end :])
        if not self._buffer.startswith(b"HTTP/1.1 101"):
            raise BenchError(f"no websocket: {self._text(0, stop)}")
        self._start = stop + 4


class LineClient:
    """One connection to `bare rpc`."""

    def __init__(self, address: Address, *, quickack: bool) -> None:
        self._socket = _connect(address)
        self._quickack = quickack
        self._view = memoryview(bytearray(4096))

    def __enter__(self) -> LineClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def one_shot(self, line: bytes) -> float:
        begin = time.perf_counter()
        self._socket.sendall(line)
        if self._quickack:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        size = _receive(self._socket, self._view)
        seconds = time.perf_counter() - begin
        if bytes(self._view[:size]) != b"0\n":
            raise BenchError(f"bare answered {bytes(self._view[:size])!r}")
        return seconds


def http_status(address: Address, path: str, *, headers: str = "") -> int:
    """The status of one GET; 0 when nobody listens there yet."""
    try:
        with _connect(address) as sock:
            host = f"{address[0]}:{address[1]}"
            request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
            sock.sendall(request.encode())
            answer = sock.recv(4096)
    except OSError:
        return 0
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0


def _new_process() -> str:
    return f"bench-{os.getpid()}-{next(_process_numbers)}"


def _frame(payload: bytes, *, first: int = 0x81) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((first, 0x80 | size)) + b"\0\0\0\0" + payload
    if size < 65536:
        return struct.pack("!BBH", first, 0xFE, size) + b"\0\0\0\0" + payload
    return struct.pack("!BBQ", first, 0xFF, size) + b"\0\0\0\0" + payload


def _frames(payload: bytes) -> bytes:
    """A message in frames of at most 8 MiB: the reference takes no more than twice that in one."""
    if len(payload) <= LARGEST_FRAME:
        return _frame(payload)
    places = range(0, len(payload), LARGEST_FRAME)
    parts = [payload[place : place + LARGEST_FRAME] for place in places]
    firsts = [0x01, *[0x00] * (len(parts) - 2), 0x80]
    return b"".join(_frame(part, first=first) for part, first in zip(parts, firsts, strict=True))


def _connect(address: Address) -> socket.socket:
    sock = socket.create_connection(address, timeout=PATIENCE)
    # A timeout in the kernel: Python's own would add a poll() to every read.
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE, 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _receive(sock: socket.socket, into: memoryview) -> int:
    try:
        size = sock.recv_into(into)
    except BlockingIOError:
        raise BenchError(f"no answer within {PATIENCE} s") from None
    except OSError as error:
        raise BenchError(f"connection lost: {error}") from None
    if not size:
        raise BenchError("connection closed by the server")
    return size
