"""HTTP/1.1 as a client writes and reads it: bytes in, bytes out, nothing is sent here.

What is taken and refused is what the reference takes and refuses (tests/support/httpcases.py). An answer that
is not understood ends its connection: nothing behind it is ever taken for another answer.
"""

from __future__ import annotations

from ..record import quick_record
from .http import MAX_HEADERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http import Headers

HEAD_BYTES = 256 << 10  # of an answer: some times what servers send
_LINE_BYTES = 16 << 10  # of a chunk's size with its extensions, and of all trailers: the reference's
_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = bytes([9, 10, 13, *range(32, 127), *range(128, 256)])  # what a head may have
_HEX = b"0123456789abcdefABCDEF"
_SIZE_DIGITS = 15  # of a chunk's size: more is more than there is anywhere
_LENGTH_DIGITS = 18
_VERSIONS = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_BEGIN = b"HTTP/1."
_NO_BODY = (101, 204, 304)
_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection"))


class NotHttp(Exception):
    """What came is no answer, or what should be sent is no request."""

    before = b""  # of a body: what came with it and is good


# Requests


def written(method: str, target: str, headers: Headers, body: bytes) -> bytes:
    """A request. Raises NotHttp where its headers say something else of its body than is so."""
    for name, value in headers:
        if name == b"transfer-encoding":
            headers, body = _in_chunks(headers, value, body)
            break
        if name == b"content-length" and not (_is_length(value) and int(value) == len(body)):
            raise NotHttp("the length is another")
    lines = [b"%b: %b\r\n" % one for one in headers]
    return b"".join([f"{method} {target} HTTP/1.1\r\n".encode(), *lines, b"\r\n", body])


def _in_chunks(headers: Headers, coding: bytes, body: bytes) -> tuple[Headers, bytes]:
    if not _is_chunked(coding):
        raise NotHttp("an unknown transfer coding")
    left_out = (b"content-length",) if body else (b"content-length", b"transfer-encoding")
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b""
    return [one for one in headers if one[0] not in left_out], chunks


# Answers


@quick_record
class AnswerHead:
    """What comes before a body. `body` reads it; `keeps` says whether the connection may be used again."""

    status: int
    headers: Headers
    body: Body
    keeps: bool


def head_end(data: bytes) -> int:
    """Where the body begins; -1 while the head is not whole. Raises NotHttp."""
    found = data.find(b"\n\r\n")
    bare = data.find(b"\n\n", 0, None if found < 0 else found + 1)  # a line may end so, too
    if bare >= 0:
        return bare + 2
    if found >= 0:
        return found + 3
    if len(data) > HEAD_BYTES or not data.startswith(_BEGIN[: len(data)]):
        raise NotHttp("it does not begin as an answer does, or its head has no end")
    return -1


def read_head(method: str, head: bytes) -> AnswerHead:
    """What a whole head says, as an answer to this method. Raises NotHttp."""
    if head.translate(None, _PLAIN) or head.count(b"\r") != head.count(b"\r\n"):
        raise NotHttp("a head with controls")
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    code = first[9:12]
    if first[:9] not in _VERSIONS or len(code) < 3 or not code.isdigit() or first[12:13] not in (b"", b" "):
        raise NotHttp("another version, or no status")
    status = int(code)
    if status < 100 or len(lines) > MAX_HEADERS:
        raise NotHttp("no such status, or too many headers")
    headers: Headers = []
    framing: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not (name and colon) or name.translate(None, _TOKEN):
            raise NotHttp("a line that is no header")
        name, value = name.lower(), value.strip(b" \t")
        headers.append((name, value))
        if name in _FRAMING:
            framing.setdefault(name, []).append(value)
    body = _body(method, status, framing)
    keeps = type(body) is not ToTheEnd and status != 101 and method != "CONNECT"
    if first[7:8] == b"0" or b"connection" in framing:
        told = b",".join(framing.get(b"connection", ())).lower().replace(b" ", b"").split(b",")
        keeps = keeps and b"close" not in told and (first[7:8] == b"1" or b"keep-alive" in told)
    return AnswerHead(status, headers, body, keeps)


def _body(method: str, status: int, framing: dict[bytes, list[bytes]]) -> Body:
    if status in _NO_BODY or status < 200 or method == "HEAD" or (method == "CONNECT" and status < 300):
        return Fixed(0)
    if b"transfer-encoding" in framing:
        return Chunked() if _is_chunked(framing[b"transfer-encoding"][-1]) else ToTheEnd()
    if b"content-length" in framing:
        return Fixed(_length(framing[b"content-length"]))
    return ToTheEnd()


def _is_chunked(value: bytes) -> bool:
    return value.rpartition(b",")[2].strip().lower() == b"chunked"


def _is_length(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _LENGTH_DIGITS


def _length(values: list[bytes]) -> int:
    """Several that say the same are one."""
    if len(values) == 1 and _is_length(values[0]):  # as most often
        return int(values[0])
    found = {part.strip() for value in values for part in value.split(b",")}
    numbers = {int(one) for one in found if _is_length(one)}
    if len(numbers) != 1 or not all(map(_is_length, found)):
        raise NotHttp("no length, or several")
    return numbers.pop()


# Bodies


class Fixed:
    """A body of so many bytes. `over` when it is whole; `surplus` is what came behind it."""

    __slots__ = ("left", "over", "surplus")

    def __init__(self, length: int) -> None:
        self.left = length
        self.over = not length
        self.surplus = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in what came. Raises NotHttp, with those that came before it."""
        left = self.left - len(data)
        self.over = left <= 0
        if left >= 0:
            self.left = left
            return data
        data, self.surplus = data[: self.left], data[self.left :]
        self.left = 0
        return data

    def is_whole(self) -> bool:
        """Whether it may end here, with its connection."""
        return not self.left


class ToTheEnd:
    """A body that ends with its connection."""

    __slots__ = ()
    over = False
    surplus = b""

    def feed(self, data: bytes) -> bytes:
        return data

    def is_whole(self) -> bool:
        return True


_SIZE, _DATA, _MARK, _TRAILERS, _OVER = range(5)


class Chunked:
    """A body in chunks, each with its size before it."""

    __slots__ = ("_kept", "_left", "_state", "surplus")

    def __init__(self) -> None:
        self._state = _SIZE
        self._left = 0  # of a chunk's data; in trailers, what they may still have
        self._kept = b""  # of a line that is not whole
        self.surplus = b""

    @property
    def over(self) -> bool:
        return self._state == _OVER

    def is_whole(self) -> bool:
        return self._state == _OVER

    def feed(self, data: bytes) -> bytes:
        if self._state == _DATA and len(data) <= self._left:  # the inside of a large chunk
            self._left -= len(data)
            self._state = _DATA if self._left else _MARK
            return data
        if self._kept:
            data, self._kept = self._kept + data, b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and self._state != _OVER:
            if self._state == _DATA:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._state = _DATA if self._left else _MARK
                continue
            end = data.find(b"\n", at)
            try:
                if end < 0:
                    self._keep(data[at:])
                    break
                self._line(data[at : end + 1])
            except NotHttp as error:
                error.before = b"".join(pieces)
                raise
            at = end + 1
        if self._state == _OVER:
            self.surplus = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _keep(self, part: bytes) -> None:
        if len(part) > _LINE_BYTES or (self._state == _MARK and part != b"\r"):
            raise NotHttp("a line of a chunk without an end")
        self._kept = part

    def _line(self, line: bytes) -> None:
        if line[-2:] != b"\r\n":
            raise NotHttp("a line of a chunk with another end")
        if self._state == _MARK:
            if line != b"\r\n":
                raise NotHttp("a chunk with another end")
            self._state = _SIZE
        elif self._state == _SIZE:
            self._left = _chunk_size(line)
            self._state = _DATA if self._left else _TRAILERS
            if not self._left:
                self._left = _LINE_BYTES
        else:
            self._left -= len(line)
            if line == b"\r\n":
                self._state = _OVER
            elif self._left < 0 or not _is_header(line):
                raise NotHttp("trailers that are none, or too many")


def _chunk_size(line: bytes) -> int:
    """Of a line with the size and, behind `;`, what nobody reads."""
    digits = line[:-2].partition(b";")[0].rstrip(b" \t")
    too_large = len(digits.lstrip(b"0")) > _SIZE_DIGITS or len(line) > _LINE_BYTES
    if not digits or digits.translate(None, _HEX) or too_large:
        raise NotHttp("no size of a chunk")
    return int(digits, 16)


def _is_header(line: bytes) -> bool:
    name, colon, value = line[:-2].partition(b":")
    return bool(name and colon) and not name.translate(None, _TOKEN) and not value.translate(None, _PLAIN)


if TYPE_CHECKING:
    Body = Fixed | ToTheEnd | Chunked
