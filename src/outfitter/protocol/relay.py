"""Relay frames: one protobuf message in each WebSocket message, as the reference writes and reads them.

Fields stand in ascending order and defaults are left out; unknown fields are skipped. Whoever routes frames
reads `stream_of` alone; payloads are ciphertext.
"""

from __future__ import annotations

from ..record import quick_record, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

MAX_FRAME = 262_144  # the reference drops a socket on which one more byte comes in one message
# Why a stream ends: the reference says this for every cause, so that nobody learns which one it was.
RESET_REASON = "noise_relay_protocol_error"
_VERSION = 1
# Numbers of the fields, each with its wire type: 0 is a number, 2 has a length.
_ACK_FRAME, _DATA, _RESUME, _RESET, _HEARTBEAT, _HANDSHAKE = 6, 5, 7, 8, 9, 10
_BODIES = (_DATA, _ACK_FRAME, _RESUME, _RESET, _HEARTBEAT, _HANDSHAKE)
_U32 = 0xFFFF_FFFF


@quick_record
class Data:
    """One encrypted record of a stream."""

    stream: str
    seq: int
    payload: bytes


@record
class Handshake:
    """A message of the handshake: the first is the harness's, the second the executor's."""

    stream: str
    payload: bytes


@record
class Reset:
    """A stream is over. Nobody vouches for the reason: anybody on the way may have written it."""

    stream: str
    reason: str


@record
class Idle:
    """A frame that asks for nothing: `resume`, an acknowledgement or a heartbeat."""

    stream: str


@record
class NoFrame:
    """What is no frame. `stream` is empty where not even that can be read."""

    stream: str
    why: str


Frame: TypeAlias = "Data | Handshake | Reset | Idle"


class _Undecodable(Exception):
    """The bytes are no protobuf message."""


# Reading


def decode(data: bytes) -> Frame | NoFrame:
    """The frame that a message has."""
    return _usual(data) or _decode(data)


def _usual(data: bytes) -> Data | None:
    """A record as everybody writes it; None for all else. `_decode` reads it just so, but slowly."""
    if data[:3] != b"\x08\x01\x12" or len(data) < 8 or data[3] >= 0x80:
        return None
    place = 4 + data[3]
    name = data[4:place]
    if data[place : place + 1] != b"\x2a":
        return None
    try:
        length, place = _varint(data, place + 1)
        if place + length != len(data):
            return None
        seq = 0
        if data[place : place + 1] == b"\x08":
            seq, place = _varint(data, place + 1)
        if data[place : place + 3] != b"\x18\x01\x22":
            return None
        length, place = _varint(data, place + 3)
        stream = name.decode()
    except (_Undecodable, UnicodeDecodeError):
        return None
    if place + length != len(data) or not length or seq > _U32 or not stream or stream.isspace():
        return None
    return Data(stream, seq, data[place:])


def _decode(data: bytes) -> Frame | NoFrame:
    stream, number, version = "", 0, 0
    body = b""
    try:
        for field, value in _fields(data):
            if field == 1:
                version = _number(value)
            elif field == 2:
                stream = _text(value)
            elif field in _BODIES:
                number, body = field, _bytes(value)
            elif field in (3, 4):
                _number(value)
            elif field in (11, 12):
                _text(value)
        if version != _VERSION:
            return NoFrame(stream, f"version {version} of relay frames is not known")
        if not stream or stream.isspace():
            return NoFrame("", "the frame names no stream")
        return _body(stream, number, body)
    except _Undecodable as error:
        return NoFrame("", f"the frame cannot be read: {error}")


def _body(stream: str, number: int, body: bytes) -> Frame | NoFrame:
    if number == _DATA:
        return _data(stream, body)
    if number == _HANDSHAKE:
        payload = _only(body)
        return Handshake(stream, payload) if payload else NoFrame(stream, "a handshake is empty")
    if number == _RESET:
        reason = _text(_only(body))
        return Reset(stream, reason) if reason else NoFrame(stream, "a reset has no reason")
    if number in _BODIES:
        for _ in _fields(body):
            pass  # read to the end: a body that is none is no frame
        return Idle(stream)
    return NoFrame(stream, "the frame has no body")


def _data(stream: str, body: bytes) -> Data | NoFrame:
    seq, index, count, payload = 0, 0, 0, b""
    for field, value in _fields(body):
        if field == 1:
            seq = _number(value)
        elif field == 2:
            index = _number(value)
        elif field == 3:
            count = _number(value)
        elif field == 4:
            payload = _bytes(value)
    if index != 0 or count != 1:
        return NoFrame(stream, f"segment {index} of {count}: a record has exactly one")
    if not payload:
        return NoFrame(stream, "a record is empty")
    return Data(stream, seq, payload)


def _only(body: bytes) -> bytes:
    """The first field of a message that has no other one."""
    found = b""
    for field, value in _fields(body):
        if field == 1:
            found = _bytes(value)
    return found


def stream_of(data: bytes) -> str | None:
    """The stream that a message belongs to; None for what is no frame. Nothing else of it is looked at."""
    # As everybody writes it: the version, then a name of less than 128 bytes.
    if len(data) > 4 and data[:3] == b"\x08\x01\x12" and data[3] < 0x80:
        name = data[4 : 4 + data[3]]
        if len(name) == data[3]:
            try:
                stream = name.decode()
            except UnicodeDecodeError:
                return None
            return stream if stream and not stream.isspace() else None
    frame = decode(data)
    return None if isinstance(frame, NoFrame) else frame.stream


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Number and value of each field: an integer, or bytes."""
    found: list[tuple[int, int | bytes]] = []
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        kind, field = key & 7, key >> 3
        if not 0 < field < 1 << 29:
            raise _Undecodable("a field has no number")
        if kind == 0:
            number, place = _varint(data, place)
            found.append((field, number))
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise _Undecodable(f"wire type {kind}")
        if place + length > end:
            raise _Undecodable("a field is cut off")
        # What has a fixed length is of no field that we know: as bytes, it is refused where one is known.
        found.append((field if kind == 2 else -field, data[place : place + length]))
        place += length
    return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if place >= len(data) or shift > 63:
            raise _Undecodable("a number is cut off")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place
        shift += 7


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise _Undecodable("a number is written as bytes")
    return value & _U32


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Undecodable("bytes are written as a number")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise _Undecodable("a text is not UTF-8") from None


# Writing


def resume(stream: str) -> bytes:
    """The first frame of a harness: it claims the stream."""
    return _head(stream) + b"\x3a\x00"


def handshake(stream: str, payload: bytes) -> bytes:
    return _head(stream) + _field(_HANDSHAKE, _field(1, payload))


def reset(stream: str, reason: str = RESET_REASON) -> bytes:
    return _head(stream) + _field(_RESET, _field(1, reason.encode()))


class DataWriter:
    """The frames around the records of one stream."""

    def __init__(self, stream: str) -> None:
        self._head = _head(stream) + b"\x2a"

    def head(self, seq: int, length: int) -> bytes:
        """What stands before a record of so many bytes; the record follows as it is."""
        inner = (b"\x08" + _write_varint(seq) if seq else b"") + b"\x18\x01\x22" + _write_varint(length)
        return self._head + _write_varint(len(inner) + length) + inner


def _head(stream: str) -> bytes:
    name = stream.encode()
    return b"\x08\x01\x12" + _write_varint(len(name)) + name


def _field(number: int, value: bytes) -> bytes:
    return _write_varint(number << 3 | 2) + _write_varint(len(value)) + value


def _write_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
