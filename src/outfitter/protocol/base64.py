"""Bytes as base64 text, as strict as the reference: padded, no white space, canonical last symbol."""

from __future__ import annotations

from pybase64 import b64decode, b64encode

from ..refusals import InvalidParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = 16 << 10  # above this, quoting the text as JSON costs more than making it
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# With one or two padding signs the last symbol carries 2 or 4 unused bits, which must be zero.
_LAST_BEFORE_ONE = frozenset("AEIMQUYcgkosw048")
_LAST_BEFORE_TWO = frozenset("AQgw")


def encode(data: bytes | memoryview) -> bytes:
    """The base64 text of `data`, as ASCII bytes ready to be put into a message."""
    return b64encode(data)


def encode_text(data: bytes | memoryview) -> str:
    return str(b64encode(data), "ascii")


def encode_member(data: bytes) -> str | bytes:
    """The base64 text of `data` as the last member of a request's params; bytes when it is long."""
    return b64encode(data) if len(data) > _LONG else str(b64encode(data), "ascii")


def decode(text: str) -> bytes:
    """The bytes of a base64 text. Raises InvalidParams with the reference's words."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        raise InvalidParams(_fault(text)) from None
    if text.endswith("="):
        two = text.endswith("==")
        place = len(text) - (3 if two else 2)
        if text[place] not in (_LAST_BEFORE_TWO if two else _LAST_BEFORE_ONE):
            raise InvalidParams(f"Invalid last symbol {ord(text[place])}, offset {place}.")
    return data


class Blob:
    """A base64 text that was never read as JSON, in pieces as it came."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        """Of the text."""
        return sum(map(len, self.pieces))

    def decode(self) -> Iterator[bytes]:
        """Its bytes, piece by piece. Raises InvalidParams as `decode`, where it comes to what is wrong."""
        carry = b""
        last = len(self.pieces) - 1
        try:
            for number, piece in enumerate(self.pieces):
                text = carry + piece if carry else piece
                if number < last:
                    whole = len(text) - len(text) % 4
                    carry, text = text[whole:], text[:whole]
                data = decode_bytes(text)
                if number < last and len(data) * 4 != len(text) * 3:
                    raise ValueError("padding before the end")
                yield data
        except ValueError:
            decode(b"".join(self.pieces).decode("utf-8", "replace"))  # says what is wrong
            raise InvalidParams("Invalid padding") from None


def decode_bytes(text: bytes | memoryview) -> bytes:
    """As `decode`, of ASCII bytes. Raises ValueError, without saying more."""
    data = b64decode(text, validate=True)
    if len(data) % 3 and b64encode(data[-(len(data) % 3) :]) != text[-4:]:
        raise ValueError("the last symbol is not canonical")
    return data


def _fault(text: str) -> str:
    # In steps of C: the text may have 64 MiB.
    body = text.rstrip("=").encode("utf-8", "surrogatepass")
    wrong = body.translate(None, _ALPHABET)
    return f"Invalid symbol {wrong[0]}, offset {body.find(wrong[:1])}." if wrong else "Invalid padding"
