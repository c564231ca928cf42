"""RFC 6455 frames ⇄ messages, for both ends, with no socket in sight.

Owned rather than taken from a library because the framing is on every round trip: a general library
adds 50 us to each and 60 ms to start-up (`bench/` measures both). It is fuzzed against one in
`tests/protocol/test_websocket.py`.
"""

from __future__ import annotations

import struct

from ..errors import RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

# The reference's peers take at most 16 MiB in one frame; half of that leaves room.
MAX_FRAME_OUT = 8 << 20
# Below this a mask is applied as one big integer, which needs no import; above it, in C.
_SMALL = 4096

_HEADER_16 = struct.Struct("!BBH")
_HEADER_64 = struct.Struct("!BBQ")


class FrameReader:
    """Bytes in, events out: (TEXT, str), (BINARY, bytes), (PING | PONG, bytes), (CLOSE, bytes).

    `masked` says which peer we read: a client must mask its frames, a server must not. `limit` bounds
    a whole message; a peer that exceeds it gets close code 1009. With `raw` a text is given as its bytes,
    for a receiver that checks them itself: most of what a client gets is base64, and never becomes a str.
    """

    def __init__(self, *, masked: bool, limit: int, raw: bool = False) -> None:
        self._raw = raw
        self.fault: RemoteProtocolError | None = None  # why nothing more is read; has the close code
        self._masked = masked
        self._limit = limit
        self._buffer = b""
        self._pending: list[bytes] = []  # chunks that complete a large frame, joined when it is whole
        self._pending_size = 0
        self._missing = 0  # bytes until the frame at the head of the buffer is whole
        self._fragments = bytearray()  # of the message under way; one buffer, however small they are
        self._fragment_opcode = 0

    @property
    def held(self) -> int:
        """Bytes kept for messages that are not complete."""
        return len(self._buffer) + self._pending_size + len(self._fragments)

    def feed(self, data: bytes) -> list[tuple[int, bytes | str]]:
        """The events completed by `data`, up to the first fault, which is then in `fault`."""
        if self.fault is not None:
            return []
        if self._missing > len(data):
            self._missing -= len(data)
            self._pending.append(data)
            self._pending_size += len(data)
            return []
        if self._buffer:
            data = b"".join((self._buffer, *self._pending, data))
            self._pending.clear()
            self._pending_size = 0
        self._missing = 0
        events: list[tuple[int, bytes | str]] = []
        try:
            self._buffer = self._parse(data, events)
        except RemoteProtocolError as fault:
            # What came before it in the same read counts, wherever the network cut the stream.
            self.fault = fault
            self._buffer = b""
        return events

    def _parse(self, data: bytes, events: list[tuple[int, bytes | str]]) -> bytes:
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
                self._missing = stop - end
                break
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
            if self._fragment_opcode:
                raise RemoteProtocolError("a new message began before the last one ended")
        elif opcode == CONTINUATION:
            if not self._fragment_opcode:
                raise RemoteProtocolError("continuation without a message to continue")
        elif opcode in (CLOSE, PING, PONG):
            if length > 125 or not first & 0x80:
                raise RemoteProtocolError("control frames must be short and whole")
            return
        else:
            raise RemoteProtocolError(f"unknown opcode {opcode}")
        if length + len(self._fragments) > self._limit:
            raise RemoteProtocolError(f"message exceeds the limit of {self._limit} bytes", 1009)

    def _frame(self, first: int, payload: bytes) -> tuple[int, bytes | str] | None:
        opcode = first & 0x0F
        if opcode >= CLOSE:
            return opcode, payload
        if opcode == CONTINUATION:
            self._fragments += payload
            if not first & 0x80:
                return None
            opcode = self._fragment_opcode
            payload = bytes(self._fragments)
            self._fragments.clear()
            self._fragment_opcode = 0
        elif not first & 0x80:
            self._fragment_opcode = opcode
            self._fragments += payload
            return None
        if opcode == BINARY or self._raw:
            return opcode, payload
        try:
            return opcode, str(payload, "utf-8")
        except UnicodeDecodeError:
            raise RemoteProtocolError("text message is not UTF-8", 1007) from None


def header(length: int, opcode: int = TEXT, *, final: bool = True) -> bytes:
    """The header of an unmasked frame."""
    first = opcode | (0x80 if final else 0)
    if length < 126:
        return bytes((first, length))
    if length < 0x10000:
        return _HEADER_16.pack(first, 126, length)
    return _HEADER_64.pack(first, 127, length)


def pieces(message: bytes) -> list[bytes | memoryview]:
    """A text message as headers and payloads to be written in order, split into frames if it is large."""
    if len(message) <= MAX_FRAME_OUT:
        return [header(len(message)), message]
    view = memoryview(message)
    out: list[bytes | memoryview] = []
    for place in range(0, len(message), MAX_FRAME_OUT):
        part = view[place : place + MAX_FRAME_OUT]
        out.append(
            header(
                len(part), TEXT if place == 0 else CONTINUATION, final=place + MAX_FRAME_OUT >= len(message)
            )
        )
        out.append(part)
    return out


def masked(message: bytes | memoryview, key: bytes, opcode: int = TEXT, *, final: bool = True) -> bytes:
    """A frame as a client must send it: XORed with a key that whoever wrote the message cannot know."""
    head = bytearray(header(len(message), opcode, final=final))
    head[1] |= 0x80
    return b"".join((head, key, mask(bytes(message), key)))


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
    length = len(payload)
    if length <= _SMALL:
        pad = (key * (length // 4 + 1))[:length]
        return (int.from_bytes(payload, "little") ^ int.from_bytes(pad, "little")).to_bytes(length, "little")
    return _c_mask()(payload, key)


def _load_c_mask() -> Callable[[bytes, bytes], bytes]:
    """The C function of the websockets package, without the 60 ms its package import costs."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    package = PathFinder.find_spec("websockets")
    places = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec("speedups", places) if places else None
    if found is None or found.loader is None:
        return _slow_mask
    module = module_from_spec(found)
    found.loader.exec_module(module)
    apply: Callable[[bytes, bytes], bytes] = getattr(module, "apply_mask", _slow_mask)
    return apply


def _slow_mask(payload: bytes, key: bytes) -> bytes:
    # A wheel without the C part: four table look-ups over every fourth byte, all in C loops.
    out = bytearray(payload)
    for place in range(4):
        table = bytes(value ^ key[place] for value in range(256))
        out[place::4] = payload[place::4].translate(table)
    return bytes(out)


_loaded: list[Callable[[bytes, bytes], bytes]] = []


def _c_mask() -> Callable[[bytes, bytes], bytes]:
    if not _loaded:
        _loaded.append(_load_c_mask())
    return _loaded[0]
