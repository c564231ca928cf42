"""HTTP/2 as a client reads it, as far as we do it ourselves: whether a server's farewell concerns a request.

httpcore and h2 take every GOAWAY for the end of all streams. Without an error it is the end of those that
come after the one it names: servers say it before the last answer on a connection, which has had its time or
its number of requests, and when they are about to stop.
"""

from __future__ import annotations

_HEAD = 9  # bytes before the payload of a frame: size, type, flags, stream
_GOAWAY = 7
_LARGEST = 16 << 10  # of a frame's payload: nobody has allowed more


class Farewells:
    """Takes them out of what comes, where the present stream may still end. `said` when there was one: no
    other request may follow."""

    def __init__(self) -> None:
        self.said = False
        self._kept = b""  # of a frame that is not whole
        self._left = 0  # of a frame that is none

    def feed(self, data: bytes, stream: int) -> bytes:
        """What is to be read of what came."""
        data, self._kept = self._kept + data, b""
        told: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                told.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            whole = _HEAD + int.from_bytes(data[at : at + 3], "big")
            known = len(data) - at >= _HEAD
            if known and (data[at + 3] != _GOAWAY or not _HEAD + 8 <= whole <= _HEAD + _LARGEST):
                self._left = whole
                continue
            if not known or len(data) - at < whole:
                self._kept = data[at:]
                break
            frame = data[at : at + whole]
            at += whole
            if _allows(frame[_HEAD:], stream):
                self.said = True
            else:
                told.append(frame)
        return b"".join(told)


def _allows(payload: bytes, stream: int) -> bool:
    """Whether a GOAWAY lets a stream end: it has no error, and names this stream or a later one."""
    last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
    return last >= stream and not any(payload[4:8])
