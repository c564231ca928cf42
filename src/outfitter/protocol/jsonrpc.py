"""Bytes ⇄ request, notice and reply: the JSON-RPC dialect of the exec-server (no `jsonrpc` member).

Params stay raw until the method is known. A message that cannot be read raises Malformed, which is
answered; it never ends the connection by itself.
"""

from __future__ import annotations

from ..record import quick_record
from ..refusals import Malformed
from .base64 import Blob
from .jsontext import JsonError, dumps, loads, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json
    from .websocket import Payload

    RequestId = int | str

_I64 = 1 << 63


@quick_record
class Request:
    """A call that wants an answer. `trace` is carried, never interpreted."""

    id: RequestId
    method: str
    params: Json = None
    trace: Json = None


@quick_record
class Notice:
    """A message that wants no answer."""

    method: str
    params: Json = None


@quick_record
class Reply:
    """The answer to a call: a result, or an error object."""

    id: RequestId
    result: Json = None
    error: Json = None


# Messages above this are mostly one base64 text; taking that out first saves reading it as JSON, which
# costs ten times as much as decoding it.
_LARGE = 32 << 10
_BLOBS = ((b'"chunk"', "chunk"), (b'"dataBase64"', "dataBase64"))
_BLOB_WITHIN = 16 << 10  # of the beginning: a path stands before it


# What a server reads as JSON in one go, while nobody else is served: twice what a kernel takes as arguments
# and variables (2 MiB). It takes 25 ms. Only a base64 text, as it is and without escapes, may be longer: it
# is not read as JSON.
LARGEST_REQUEST = 4 << 20
# Members of all objects in it, and objects and lists: eight times what one map of variables may have.
# Each takes about 1 µs.
REQUEST_MEMBERS = 32_768


def parse_request(data: Payload) -> Request | Notice | Reply:
    """As `parse`, within the bounds of a server."""
    if type(data) is str and len(data) <= LARGEST_REQUEST // 4:
        return _read(data, REQUEST_MEMBERS)  # as most often
    size = sum(map(len, data)) if isinstance(data, tuple) else len(data)
    if size > LARGEST_REQUEST:
        pieces = data if isinstance(data, tuple) else (data.encode() if isinstance(data, str) else data,)
        quick = _parse_around(pieces)
        if quick is None:
            head = pieces[0][:512].decode("utf-8", "replace")
            raise Malformed(f"message of {size} bytes: {_TOO_LARGE}", _leading_id(head, ""))
        return quick
    return parse(data, REQUEST_MEMBERS)


_TOO_LARGE = (
    f"above {LARGEST_REQUEST} only one base64 text may stand, without escapes (`dataBase64`, `chunk`); "
    "send less at a time"
)


def parse(data: Payload, members: int | None = None) -> Request | Notice | Reply:
    """One message. Raises Malformed, with the request's id where it can be made out.

    In a large message the members `chunk` and `dataBase64` may be a Blob: the text as it stood. `members`
    bounds how many objects, lists and members of objects it has.
    """
    if isinstance(data, tuple):
        quick = _parse_around(data)
        if quick is not None:
            return quick
        data = b"".join(data)
    elif type(data) is bytes and len(data) > _LARGE:
        quick = _parse_around((data,))
        if quick is not None:
            return quick
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"invalid UTF-8 at byte {error.start}") from None
    return _read(text, members)


def _read(text: str, members: int | None) -> Request | Notice | Reply:
    try:
        message = loads(text, members)
    except JsonError as error:
        raise Malformed(str(error), _leading_id(text, str(error))) from None
    if type(message) is not dict:
        raise Malformed("expected a JSON-RPC object")
    if "method" in message:
        return _call(message)
    return _reply(message)


def _parse_around(pieces: tuple[bytes, ...]) -> Request | Notice | Reply | None:
    """The message with its one long base64 text taken out first; None when it is not made like that.

    What is left is read as strictly as any message. That the cut was at a string of that name shows in the
    result, where it must be empty; and without a backslash it cannot have been a part of a longer one.
    """
    head = pieces[0]
    for mark, name in _BLOBS:
        start = _opening(head, head.find(mark, 0, _BLOB_WITHIN), len(mark))
        if start < 0:
            continue
        blob, rest = _up_to_quote(pieces, start)
        if rest is None or start + len(rest) > _LARGE or any(b"\\" in piece for piece in blob):
            continue
        try:
            message = parse(head[:start] + rest)
        except Malformed:
            return None
        holder = message.result if isinstance(message, Reply) else message.params
        if type(holder) is dict and holder.get(name) == "":
            holder[name] = Blob(blob)
            return message
    return None


def _opening(head: bytes, place: int, length: int) -> int:
    """Where the text after this name begins, or -1."""
    if place < 0:
        return -1
    place += length
    for mark in b':"':
        while head[place : place + 1] in (b" ", b"\t", b"\n", b"\r"):
            place += 1
        if head[place : place + 1] != bytes((mark,)):
            return -1
        place += 1
    return place


def _up_to_quote(pieces: tuple[bytes, ...], start: int) -> tuple[list[bytes], bytes | None]:
    """The pieces of a string, and what follows from its quotation mark on (None without one)."""
    blob: list[bytes] = []
    for number, piece in enumerate(pieces):
        end = piece.find(b'"', start)
        if end >= 0:
            blob.append(piece[start:end])
            return blob, b"".join((piece[end:], *pieces[number + 1 :]))
        blob.append(piece[start:] if start else piece)
        start = 0
    return blob, None


def _call(message: dict[str, Json]) -> Request | Notice:
    method = message["method"]
    if type(method) is not str:
        raise Malformed("invalid type: `method` must be a string", _id_or_unknown(message))
    if "id" not in message:
        return Notice(method, message.get("params"))
    ident = message["id"]
    # As `_is_i64` has it: said here, a call less for every request.
    if type(ident) is not str and not (type(ident) is int and -_I64 <= ident < _I64):
        raise Malformed("data did not match any variant of untagged enum RequestId")
    trace = message.get("trace")
    if trace is not None and not _is_trace(trace):
        raise Malformed("invalid type: `trace` must be an object of strings", ident)
    return Request(ident, method, message.get("params"), trace)


def _reply(message: dict[str, Json]) -> Reply:
    if "result" not in message and "error" not in message:
        raise Malformed("missing field `error`", _id_or_unknown(message))
    ident = _id_or_unknown(message)
    if ident == -1 and message.get("id") != -1:
        raise Malformed("data did not match any variant of untagged enum RequestId")
    if "result" in message:
        return Reply(ident, result=message["result"])
    error = message["error"]
    if not (type(error) is dict and _is_i64(error.get("code")) and type(error.get("message")) is str):
        raise Malformed("invalid `error`: expected an object with `code` and `message`", ident)
    return Reply(ident, error=error)


def _is_i64(value: Json) -> bool:
    return type(value) is int and -_I64 <= value < _I64


def _is_trace(trace: Json) -> bool:
    return type(trace) is dict and all(
        trace.get(name) is None or type(trace[name]) is str for name in ("traceparent", "tracestate")
    )


def _id_or_unknown(message: dict[str, Json]) -> RequestId:
    ident: RequestId = message.get("id", -1)
    if type(ident) is str or _is_i64(ident):
        return ident
    return -1


def _leading_id(text: str, reason: str) -> RequestId:
    """The id of an unreadable message that starts the way every client writes it: `{"id":7,`.

    Without it the caller would wait for ever. A message with two ids has none.
    """
    if reason.startswith("duplicate"):
        return -1
    import re

    match = re.match(
        r'\s*\{\s*"id"\s*:\s*(?:(-?(?:0|[1-9]\d{0,17}))|"([^"\\\x00-\x1f]{0,256})")\s*,', text[:512]
    )
    if match is None:
        return -1
    return int(match[1]) if match[1] is not None else match[2]


# What we send. Member order is the reference's.


def request(ident: RequestId, method: str, params: Json, trace: Json = None) -> bytes:
    """A request. The last member of its params may be bytes: base64 text that needs no quoting."""
    if type(params) is dict and params and type(blob := next(reversed(params.values()))) is bytes:
        name = next(reversed(params))
        head = dumps({**params, name: ""}).encode()
        tail = b'"}}' if trace is None else f'"}},"trace":{dumps(trace)}}}'.encode()
        return b"".join(
            (f'{{"id":{dumps(ident)},"method":{quote(method)},"params":'.encode(), head[:-2], blob, tail)
        )
    message: dict[str, Json] = {"id": ident, "method": method, "params": params}
    if trace is not None:
        message["trace"] = trace
    return dumps(message).encode()


def notice(method: str, params: Json) -> bytes:
    return dumps({"method": method, "params": params}).encode()


def result(ident: RequestId, value: Json) -> bytes:
    return result_text(ident, dumps(value))


def result_text(ident: RequestId, text: str) -> bytes:
    """A result whose JSON text the caller has written already."""
    return f'{{"id":{ident if type(ident) is int else quote(str(ident))},"result":{text}}}'.encode()


def result_head(ident: RequestId) -> bytes:
    """The beginning of a result whose text and final brace follow."""
    return f'{{"id":{ident if type(ident) is int else quote(str(ident))},"result":'.encode()


def error(ident: RequestId, code: int, message: str, data: Json = None) -> bytes:
    # A refusal may quote what it refuses: half a surrogate pair, say, which no peer could read back.
    body: dict[str, Json] = {"code": code, "message": message.encode("utf-8", "replace").decode()}
    if data is not None:
        body["data"] = data
    return dumps({"error": body, "id": ident}).encode()
