"""Messages ⇄ encrypted records of one stream, each direction on its own.

The plaintext of a direction is a stream of messages, each behind its length, cut into records. A record is
encrypted once and its number is its nonce, so a record that is changed, moved, repeated or left out is
noticed. What can still come in order is waited for; all else ends the stream.

A length of zero is an error to everybody. Between ends of ours it is a farewell: the body of a WebSocket's
close frame follows it, and nobody on the way can have written it, as a `reset` of the relay can be.
"""

from __future__ import annotations

from ..errors import RemoteProtocolError
from ..protocol.websocket import close_payload, parse_close
from .noise import cipher, nonce

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .noise import Channel

MAX_RECORD = 61_440  # bytes of plaintext; the reference ends the stream for one more
MAX_MESSAGE = 64 << 20  # as on a WebSocket of one's own
_TAG = 16
_LAST = (1 << 32) - 1  # numbers are not used twice: this one is never sent
# A relay does not reorder; who does is given this much patience, as by the reference.
_AHEAD = 64
_HELD_BYTES = 1 << 20
_FAREWELL = 125  # bytes that the body of a close frame may have


class Sealer:
    """What one end sends."""

    def __init__(self, channel: Channel) -> None:
        self._cipher = cipher(channel.sending)
        self._next = 0

    def seal(self, piece: bytes | memoryview) -> tuple[int, bytes]:
        """The record of a piece, and its number. Raises RemoteProtocolError when there are no numbers left:
        the stream has to end."""
        seq = self._next
        if seq >= _LAST:
            raise RemoteProtocolError("the stream has sent as many records as it may")
        self._next = seq + 1
        return seq, self._cipher.encrypt(nonce(seq), piece, None)


def cut(*messages: tuple[bytes, ...]) -> list[bytes | memoryview]:
    """The pieces of messages that are given in parts: small ones share a record."""
    parts: list[bytes] = []
    for message in messages:
        parts += (sum(map(len, message)).to_bytes(4, "big"), *message)
    plain = b"".join(parts)
    if len(plain) <= MAX_RECORD:
        return [plain]
    view = memoryview(plain)
    return [view[place : place + MAX_RECORD] for place in range(0, len(plain), MAX_RECORD)]


def farewell(code: int, reason: str) -> bytes:
    """The last piece of an end that says why it goes. To a peer that knows none, the stream is over too."""
    return bytes(4) + close_payload(code, reason)


class Opener:
    """What one end receives. `farewell` is set by the peer's last record, where it says why it goes."""

    farewell: tuple[int, str] | None = None

    def __init__(self, channel: Channel, limit: int = MAX_MESSAGE) -> None:
        from cryptography.exceptions import InvalidTag

        self._cipher = cipher(channel.receiving)
        self._wrong = InvalidTag
        self._limit = limit
        self._next = 0
        self._ahead: dict[int, bytes] = {}
        self._ahead_bytes = 0
        self._pieces: list[bytes] = []  # of the message under way, from its length on
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes kept for messages that are not complete."""
        return self._size + self._ahead_bytes

    def open(self, seq: int, record: bytes) -> list[bytes]:
        """The messages that are complete now. Raises RemoteProtocolError: then the stream is over."""
        ahead = seq - self._next
        if ahead < 0 or seq in self._ahead:
            return []  # seen before; the first one counts
        if ahead:
            if ahead > _AHEAD or self._ahead_bytes + len(record) > _HELD_BYTES:
                raise RemoteProtocolError(f"record {self._next} of the stream is missing")
            self._ahead[seq] = record
            self._ahead_bytes += len(record)
            return []
        messages = self._take(record)
        while self._ahead and self._next in self._ahead:
            record = self._ahead.pop(self._next)
            self._ahead_bytes -= len(record)
            messages += self._take(record)
        return messages

    def _take(self, record: bytes) -> list[bytes]:
        if not _TAG <= len(record) <= MAX_RECORD + _TAG:
            raise RemoteProtocolError(f"a record has {len(record)} bytes")
        if self._next >= _LAST:
            raise RemoteProtocolError("the stream has as many records as it may")
        try:
            plain = self._cipher.decrypt(nonce(self._next), record, None)
        except self._wrong:
            raise RemoteProtocolError("a record was not written by the peer of this stream") from None
        self._next += 1
        return self._messages(plain)

    def _messages(self, plain: bytes) -> list[bytes]:
        if not self._pieces and len(plain) >= 4 and int.from_bytes(plain[:4], "big") == len(plain) - 4 > 0:
            return [plain[4:]]  # as nearly always: one message, whole
        if plain:
            self._pieces.append(plain)
            self._size += len(plain)
        found: list[bytes] = []
        while self._size >= 4:
            first = self._head()
            length = int.from_bytes(first[:4], "big")
            if not length and 4 < self._size <= 4 + _FAREWELL:
                self.farewell = parse_close(b"".join(self._pieces)[4:])
                break
            if not 0 < length <= self._limit:
                raise RemoteProtocolError(f"a message of {length} bytes was announced")
            if self._size < 4 + length:
                break
            whole = first if len(self._pieces) == 1 else b"".join(self._pieces)
            found.append(whole[4 : 4 + length])
            rest = whole[4 + length :]
            self._pieces = [rest] if rest else []
            self._size = len(rest)
        return found

    def _head(self) -> bytes:
        """The first piece, which has the length whole."""
        if len(self._pieces[0]) < 4:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]
