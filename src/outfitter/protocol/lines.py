"""Newline framing for stdio: one JSON message per line, bounded.

A carriage return before the newline is dropped, blank lines are skipped, and an unfinished last line
counts when the stream ends.
"""

from __future__ import annotations

from ..errors import RemoteProtocolError


class LineReader:
    """Bytes in, lines out. Holds at most `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines completed by `data`. Raises RemoteProtocolError when one is too long."""
        newline = data.find(b"\n")
        if newline < 0:
            self._extend(data)
            return []
        self._extend(data[:newline])
        lines = [bytes(self._partial)]
        self._partial.clear()
        rest = data[newline + 1 :].split(b"\n")
        lines += rest[:-1]
        self._extend(rest[-1])
        return self._finish(lines)

    def end(self) -> list[bytes]:
        """The unfinished last line, if there is one."""
        line = bytes(self._partial)
        self._partial.clear()
        return self._finish([line])

    def _extend(self, data: bytes) -> None:
        if len(self._partial) + len(data) > self._limit + 1:  # a carriage return may still be dropped
            raise self._too_long()
        self._partial += data

    def _finish(self, lines: list[bytes]) -> list[bytes]:
        whole = [line for raw in lines if (line := raw.removesuffix(b"\r"))]
        if any(len(line) > self._limit for line in whole):
            raise self._too_long()
        return whole

    def _too_long(self) -> RemoteProtocolError:
        return RemoteProtocolError(f"message exceeds the limit of {self._limit} bytes", 1009)
