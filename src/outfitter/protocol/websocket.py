"""RFC 6455 frames ⇄ messages, for both ends, with no socket in sight.

Owned rather than taken from a library because the framing is on every round trip: a general library
adds 50 us to each and 60 ms to start-up (`bench/` measures both). It is fuzzed against one in
`tests/protocol/test_websocket.py`.
"""

from __future__ import annotations

from ..refusals import RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Payload = str | bytes | tuple[bytes, ...]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

# The reference's peers take at most 16 MiB in one frame; half of that leaves room.
MAX_FRAME_OUT = 8 << 20
# A frame longer than this is taken as it comes; what comes is kept in pieces of at least a quarter of it.
_LONG = 256 << 10
_PIECE = 64 << 10
# Below this a mask is applied as one big integer, which needs no import; see `_load` for what is above it.
_SMALL = 4096


class FrameReader:
    """Bytes in, events out: (TEXT, str), (BINARY, bytes), (PING | PONG, bytes), (CLOSE, bytes).

    `masked` says which peer we read: a client must mask its frames, a server must not. `limit` bounds
    a whole message; a peer that exceeds it gets close code 1009. A message longer than `raw_above` is given
    as its bytes, in one piece or in a tuple of them as they came, for a receiver that checks them itself:
    it is mostly base64, which never becomes a str, and joining megabytes costs more than decoding them.
    """

    def __init__(self, *, masked: bool, limit: int, raw_above: int = 1 << 62) -> None:
        self.fault: RemoteProtocolError | None = None  # why nothing more is read; has the close code
        self._raw_above = raw_above
        self._masked = masked
        self._limit = limit
        self._usual = min(_SMALL, limit, raw_above) if masked else 0
        self._buffer = b""  # a frame that has not come whole
        # A frame too long to wait for is taken as it comes: its first byte, key, and how much is missing.
        self._body_first = 0
        self._body_key = b""
        self._body_left = 0
        # The message under way: pieces, and behind them one buffer for what is too short to be one.
        self._opcode = 0
        self._pieces: list[bytes] = []
        self._tail = bytearray()
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes kept for messages that are not complete."""
        return len(self._buffer) + self._size

    def feed(self, data: bytes) -> list[tuple[int, Payload]]:
        """The events completed by `data`, up to the first fault, which is then in `fault`."""
        if self.fault is not None:
            return []
        events: list[tuple[int, Payload]] = []
        try:
            if self._body_left:
                data = self._take_body(data, events)
            if data:
                if self._buffer:
                    data = self._buffer + data
                self._buffer = self._parse(data, events)
        except RemoteProtocolError as fault:
            # What came before it in the same read counts, wherever the network cut the stream.
            self.fault = fault
            self._buffer = b""
        return events

    def only(self, data: bytes) -> str | None:
        """The text of a message that came alone and whole, masked, in one short frame; None for all else.

        That is how nearly every request comes; `feed` reads it just so, in six times as many steps.
        """
        if self._buffer or self._opcode or self._body_left or self.fault is not None:
            return None
        if len(data) < 8 or data[0] != 0x80 | TEXT:
            return None
        length = data[1] - 0x80
        start = 6
        if length == 126:
            length = (data[2] << 8) | data[3]
            start = 8
        elif length == 127:
            return None
        if start + length != len(data) or not 0 < length <= self._usual:
            return None
        key = data[start - 4 : start]
        pad = (key * (length // 4 + 1))[:length]
        text = int.from_bytes(data[start:], "little") ^ int.from_bytes(pad, "little")
        try:
            return str(text.to_bytes(length, "little"), "utf-8")
        except UnicodeDecodeError:
            return None

    def _parse(self, data: bytes, events: list[tuple[int, Payload]]) -> bytes:
        """Appends the events of whole frames; returns what is left."""
        place, end = 0, len(data)
        while end - place >= 2:
            first, second = data[place], data[place + 1]
            length = second & 0x7F
            start = place + 2
            if length == 126:
                if end - start < 2:
                    break
                length = (data[start] << 8) | data[start + 1]
                start += 2
            elif length == 127:
                if end - start < 8:
                    break
                length = int.from_bytes(data[start : start + 8], "big")
                start += 8
            self._check_header(first, second, length)
            if self._masked:
                start += 4
            stop = start + length
            if stop > end:
                if length <= _LONG or start > end:
                    break
                self._body_first = first
                self._body_key = data[start - 4 : start] if self._masked else b""
                self._body_left = length
                self._begin(first)
                return self._take_body(data[start:], events)
            payload = data[start:stop]
            if self._masked and length:
                payload = mask(payload, data[start - 4 : start])
            place = stop
            event = self._frame(first, payload)
            if event is not None:
                events.append(event)
        return data[place:] if place else data

    def _check_header(self, first: int, second: int, length: int) -> None:
        opcode = first & 0x0F
        if first & 0x70:
            raise RemoteProtocolError("reserved bits are set and no extension was agreed on")
        if bool(second & 0x80) is not self._masked:
            raise RemoteProtocolError("client frames must be masked, server frames must not")
        if opcode in (TEXT, BINARY):
            if self._opcode:
                raise RemoteProtocolError("a new message began before the last one ended")
        elif opcode == CONTINUATION:
            if not self._opcode:
                raise RemoteProtocolError("continuation without a message to continue")
        elif opcode in (CLOSE, PING, PONG):
            if length > 125 or not first & 0x80:
                raise RemoteProtocolError("control frames must be short and whole")
            return
        else:
            raise RemoteProtocolError(f"unknown opcode {opcode}")
        if length + self._size > self._limit:
            raise RemoteProtocolError(f"message exceeds the limit of {self._limit} bytes", 1009)

    # Frames that came whole

    def _frame(self, first: int, payload: bytes) -> tuple[int, Payload] | None:
        opcode = first & 0x0F
        if opcode >= CLOSE:
            return opcode, payload
        if first & 0x80 and opcode != CONTINUATION:
            return opcode, self._whole(opcode, payload)  # the usual message: one frame
        self._begin(first)
        self._add(payload)
        return self._finish() if first & 0x80 else None

    # A message in pieces

    def _begin(self, first: int) -> None:
        if first & 0x0F != CONTINUATION:
            self._opcode = first & 0x0F

    def _take_body(self, data: bytes, events: list[tuple[int, Payload]]) -> bytes:
        """Takes what belongs to the long frame under way; returns what follows it."""
        count = min(len(data), self._body_left)
        if count:
            piece = data if count == len(data) else data[:count]
            if self._masked:
                piece = mask(piece, self._body_key)
                turn = count % 4
                self._body_key = self._body_key[turn:] + self._body_key[:turn]
            self._body_left -= count
            self._add(piece)
        if self._body_left:
            return b""
        if self._body_first & 0x80:
            events.append(self._finish())
        rest = data[count:]
        return self._parse(rest, events) if rest and not self._buffer else rest

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if len(piece) >= _PIECE and not self._tail:
            self._pieces.append(piece)
            return
        self._tail += piece
        if len(self._tail) >= _PIECE:
            self._pieces.append(bytes(self._tail))
            self._tail.clear()

    def _finish(self) -> tuple[int, Payload]:
        if self._tail or not self._pieces:
            self._pieces.append(bytes(self._tail))
            self._tail.clear()
        pieces, self._pieces = self._pieces, []
        opcode, self._opcode = self._opcode, 0
        size, self._size = self._size, 0
        if size > self._raw_above and len(pieces) > 1:
            return opcode, tuple(pieces)
        return opcode, self._whole(opcode, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _whole(self, opcode: int, payload: bytes) -> str | bytes:
        if opcode == BINARY or len(payload) > self._raw_above:
            return payload
        try:
            return str(payload, "utf-8")
        except UnicodeDecodeError:
            raise RemoteProtocolError("text message is not UTF-8", 1007) from None


def header(length: int, opcode: int = TEXT, *, final: bool = True) -> bytes:
    """The header of an unmasked frame."""
    first = opcode | (0x80 if final else 0)
    if length < 126:
        return bytes((first, length))
    if length < 0x10000:
        return bytes((first, 126, length >> 8, length & 0xFF))
    return bytes((first, 127)) + length.to_bytes(8, "big")


def framed(message: bytes) -> bytes:
    """A text message as one frame, for a short one."""
    length = len(message)
    # As `header` has it: said here, a call less for every answer.
    if length < 126:
        return bytes((0x81, length)) + message
    if length < 0x10000:
        return bytes((0x81, 126, length >> 8, length & 0xFF)) + message
    return header(length) + message


def pieces(message: bytes) -> list[bytes | memoryview]:
    """A text message as headers and payloads to be written in order, split into frames if it is large."""
    if len(message) <= MAX_FRAME_OUT:
        return [header(len(message)), message]
    out: list[bytes | memoryview] = []
    for part, opcode, final in frames(message):
        out += (header(len(part), opcode, final=final), part)
    return out


def frames(message: bytes) -> list[tuple[memoryview, int, bool]]:
    """The parts of a large text message, each with its opcode and whether it is the last one."""
    view, size = memoryview(message), len(message)
    return [
        (view[place : place + MAX_FRAME_OUT], CONTINUATION if place else TEXT, place + MAX_FRAME_OUT >= size)
        for place in range(0, size, MAX_FRAME_OUT)
    ]


def masked(message: bytes | memoryview, key: bytes, opcode: int = TEXT, *, final: bool = True) -> bytes:
    """A frame as a client must send it: XORed with a key that whoever wrote the message cannot know."""
    head = bytearray(header(len(message), opcode, final=final))
    head[1] |= 0x80
    return b"".join((head, key, mask(bytes(message), key)))


def sealed(*parts: bytes) -> tuple[bytes, ...]:
    """A client's binary message of ciphertext: masked with a key that leaves it as it is.

    A mask hides from proxies what a hostile program has the client send. Nobody can choose ciphertext, and to
    mask it again would cost both ends a pass over it.
    """
    head = bytearray(header(sum(map(len, parts)), BINARY))
    head[1] |= 0x80
    return bytes(head) + _NO_KEY, *parts


def close_payload(code: int, reason: str) -> bytes:
    """The body of a close frame; the reason is cut to what fits."""
    return (
        code.to_bytes(2, "big") + reason.encode("utf-8", "replace")[:123].decode("utf-8", "ignore").encode()
    )


def parse_close(payload: bytes) -> tuple[int, str]:
    """Code and reason of a close frame. Raises RemoteProtocolError when it has none that may be sent."""
    if not payload:
        return 1005, ""
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise RemoteProtocolError("invalid close frame")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("close reason is not UTF-8", 1007) from None


def mask(payload: bytes, key: bytes) -> bytes:
    """The payload XORed with the repeated key: masks and unmasks."""
    if key == _NO_KEY:
        return payload
    if len(payload) > _SMALL:
        return (_large or _load())(payload, key)
    return _mask_small(payload, key)


def _mask_small(payload: bytes, key: bytes) -> bytes:
    length = len(payload)
    pad = (key * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(pad, "little")).to_bytes(length, "little")


def _mask_large(payload: bytes, key: bytes) -> bytes:
    # Four table look-ups over every fourth byte, all in C loops: twice as fast as one big integer.
    out = bytearray(len(payload))
    for place in range(4):
        table = _mask_small(_EVERY_BYTE, key[place : place + 1] * 4)
        out[place::4] = payload[place::4].translate(table)
    return bytes(out)


_EVERY_BYTE = bytes(range(256))
_NO_KEY = bytes(4)
_large: Callable[[bytes, bytes], bytes] | None = None


def _load() -> Callable[[bytes, bytes], bytes]:
    """How large payloads are masked: by the C function of the `speed` extra (50 times as fast) or by ours.

    The function is loaded without its package, whose import costs 60 ms.
    """
    global _large
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    _large = _mask_large
    package = PathFinder.find_spec("websockets")
    places = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec("speedups", places) if places else None
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        found.loader.exec_module(module)
        _large = getattr(module, "apply_mask", _mask_large)
    return _large
