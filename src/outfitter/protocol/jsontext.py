"""JSON text ⇄ values, read exactly as strictly as the reference reads it.

The standard library's C scanner does the work, with a hook that refuses duplicate keys; what it is too
lax about (depth, number of values, lone surrogates, NaN) is checked around it. Whatever a message
holds, reading it costs memory proportional to its length and never more than `MAX_VALUES` objects.
"""

from __future__ import annotations

from ..stdlib import encode_basestring_ascii, json_encoder, json_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # A JSON value; callers narrow it with isinstance.
    Json = Any


MAX_VALUES = 262_144  # as the reference: 64 MiB of `1,1,1,...` would be gigabytes of objects
_PIECE = 128 << 10  # of a long list's text
_LONG = 64 << 10  # a text in which marks are counted twice as fast if they are taken out first
MAX_DEPTH = 127  # as the reference; far below what the C scanner's recursion allows


class JsonError(ValueError):
    """The text is not JSON that we accept; the message says why."""


quote = encode_basestring_ascii  # the JSON string literal of a text, in ASCII


def dumps(value: Json) -> str:
    """Compact JSON text of dicts, lists, strings, integers, booleans and None."""
    return "".join(_encode(value, 0))


def in_pieces(texts: list[str]) -> list[bytes]:
    """Members of a list, joined, in pieces: one of megabytes costs more to allocate than to fill."""
    pieces: list[bytes] = []
    begin = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        if size > _PIECE:
            pieces += (b",", ",".join(texts[begin : place + 1]).encode())
            begin, size = place + 1, 0
    if begin < len(texts):
        pieces += (b",", ",".join(texts[begin:]).encode())
    return pieces[1:]


def loads(text: str, members: int | None = None) -> Json:
    """The value of a JSON text, with at most so many objects, lists or `members`, and
    three times as many strings.

    Raises JsonError for anything the reference refuses: trailing characters, duplicate keys, more
    than 262,144 values, more than 127 levels, lone surrogates, NaN.
    """
    if len(text) > MAX_DEPTH:
        # Brackets and commas inside strings only make these bounds larger, so a small count proves a
        # small message; the exact count is taken only above it.
        marks = text if len(text) < _LONG else _marks(text)
        opens = marks.count("{") + marks.count("[")
        if (
            opens > MAX_DEPTH
            or opens + marks.count(",") >= MAX_VALUES
            or (
                members is not None
                and len(text) > 4 * members
                and (marks.count(":") > members or marks.count('"') > 6 * members)
            )
        ):
            _check_size(text, members)
    text = text.strip(" \t\n\r")
    try:
        value, end = _read(_scan, text)
    except _LongInteger:
        # Valid JSON that Python will not read as an integer; no field of ours takes such a number.
        value, end = _read(_scan_huge, text)
    if end != len(text):
        raise JsonError(f"trailing characters at column {end + 1}")
    # One mark is found ten times as fast as two.
    if "\\" in text and "\\u" in text and ("\\ud" in text or "\\uD" in text):
        _check_surrogates(value)
    return value


def _marks(text: str) -> str:
    """The marks of a text that are counted: to look for each takes as long as to take them out."""
    others = bytes({*range(256)} - {*b'{[,:"'})
    return text.encode("utf-8", "surrogatepass").translate(None, others).decode("ascii")


class _LongInteger(Exception):
    """An integer of more digits than Python converts."""


def _read(scan: Callable[[str, int], tuple[Json, int]], text: str) -> tuple[Json, int]:
    """The value at the start of the text and where it ends. Raises JsonError, _LongInteger."""
    try:
        return scan(text, 0)
    except StopIteration as stop:
        position = stop.value
        if position >= len(text):
            raise JsonError(f"EOF while parsing a value at column {position}") from None
        raise JsonError(f"expected value at column {position + 1}") from None
    except SystemError:
        # The C scanner wants to raise json.JSONDecodeError and, up to 3.12, does not import it.
        import json.decoder  # noqa: F401 - imported for the scanner to find

        return _read(scan, text)
    except RecursionError:
        raise JsonError("recursion limit exceeded") from None
    except JsonError:
        raise
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise _LongInteger from None
        raise JsonError(str(error)) from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"duplicate JSON object key `{key[:80]}`")
            seen.add(key)
    return fields


def _constant(name: str) -> Json:
    raise JsonError(f"expected value, found {name}")


def _any_int(digits: str) -> int | float:
    if len(digits) < 64:
        return int(digits)
    # Beyond 309 digits there is no float; to find that out takes longer than to read the message.
    return float(digits if len(digits) < 400 else f"{digits[:1] if digits[:1] == '-' else ''}inf")


_scan = json_scanner(_object, int, _constant)
_scan_huge = json_scanner(_object, _any_int, _constant)


def _not_json(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = json_encoder(_not_json)


def _check_size(text: str, members: int | None) -> None:
    """Raises JsonError when the text has too many values, members or levels; exact for valid JSON.

    Of other text, what stands before the first mistake is counted exactly, and the scanner reads no further.
    Each step is one of C over the whole text: a large message is read while nobody else is served.
    """
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # escapes of the two marks that count here
    # Every string is a value or a member's name, and has two marks.
    marks = data.count(b'"')
    if marks > 4 * MAX_VALUES:
        raise _too_many()
    if members is not None and marks > 6 * members:
        raise JsonError(f"JSON-RPC message exceeds the limit of {3 * members} strings")
    bones = b"s".join(data.split(b'"')[::2]).translate(None, b" \t\n\r")
    opens = bones.count(b"{") + bones.count(b"[")
    empty = bones.count(b"{}") + bones.count(b"[]")
    if opens > MAX_VALUES or 1 + bones.count(b",") + opens - empty > MAX_VALUES:
        raise _too_many()
    if members is not None and max(opens, bones.count(b":")) > members:
        raise JsonError(f"JSON-RPC message exceeds the limit of {members} objects, lists and members")
    if opens > MAX_DEPTH:
        _check_depth(bones.translate(_LEVELS, _NO_BRACKETS))


def _check_depth(brackets: bytes) -> None:
    """Of a byte for each bracket, 1 opens and 255 closes: as signed numbers, their sums are the levels."""
    from itertools import accumulate

    if max(accumulate(memoryview(brackets).cast("b"))) > MAX_DEPTH:
        raise JsonError("recursion limit exceeded")


_LEVELS = bytes.maketrans(b"{[]}", b"\1\1\xff\xff")
_NO_BRACKETS = bytes([code for code in range(256) if code not in b"{}[]"])


def _too_many() -> JsonError:
    return JsonError(f"JSON-RPC message exceeds the limit of {MAX_VALUES} JSON values")


def _check_surrogates(value: Json) -> None:
    """Raises JsonError when a string holds half a surrogate pair, which no UTF-8 text can carry."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise JsonError("unexpected end of hex escape: lone surrogate") from None
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
