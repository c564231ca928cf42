"""`file:` URIs ⇄ paths of this host, by WHATWG URL rules as the reference applies them.

A FileUri is parsed and normalised once, at the border; whether it names a path *here* is decided when
it is used, because a client may hold URIs of an executor with another path convention.
"""

from __future__ import annotations

from ..record import quick_record
from ..refusals import InvalidParams, LimitExceeded

_ALPHA = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SCHEME = _ALPHA | frozenset("0123456789+-.")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_DOT = ("%2e", "%2E")
# Characters of one URI: a path has 4,096 bytes at most, each of which may be three characters.
MAX_URI = 16 << 10
# What a path segment may not hold literally (the WHATWG path set and the reference's additions).
_ESCAPED = frozenset('"#%<>?\\`{}')
_PERCENT = 0x25
# What stands for itself in a URI, so that a text of nothing else needs no second look.
_PLAIN_BYTES = bytes(code for code in range(0x21, 0x7F) if chr(code) not in _ESCAPED)


@quick_record
class FileUri:
    """A normalised `file:` URI: `text` as it is shown, `host` empty for this machine.

        print(client.resolve("/srv/a b").text)  # file:///srv/a%20b

    `path` is percent-encoded and starts with a slash.
    """

    host: str
    path: str

    @property
    def text(self) -> str:
        """The URI as it is shown and sent."""
        return f"file://{self.host}{self.path}"

    def local_path(self) -> str:
        """The native path, bytes outside UTF-8 as surrogate escapes.

            print(client.resolve("/srv/a b").local_path())  # /srv/a b

        Raises ValueError when the URI names no path of a POSIX host.
        """
        if self.host or (self.path[2:3] == ":" and _names_drive(self.path)):
            raise ValueError(f"'{self.text}' is invalid on 'linux'")
        path = self.path
        if "%" in path:
            raw = _percent_decode(path)
            if b"\0" in raw:
                raise ValueError(f"'{self.text}' is invalid on 'linux'")
            path = raw.decode("utf-8", "surrogateescape")
        if "//" in path or "/." in path or path.endswith("/"):
            path = _plain(path)
        return path


def _plain(path: str) -> str:
    """Without empty segments, and with the dots that an encoded slash has hidden until now resolved."""
    out: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if out:
                out.pop()
        elif part and part != ".":
            out.append(part)
    return "/" + "/".join(out)


def parse(text: str) -> FileUri:
    """A FileUri from what a peer sent. Raises LimitExceeded, and InvalidParams with the reference's words."""
    if len(text) > MAX_URI:
        raise LimitExceeded("a path", len(text), MAX_URI, "characters", "no system has one as long")
    # Nearly every URI is plain; the long way round gives the same answer.
    if (
        text.startswith("file:///")
        and text.isascii()
        and not text.encode().translate(None, _PLAIN_BYTES)
        and "/." not in text
        and text[9:10] != ":"
        and text[7:9] != "//"
    ):
        return FileUri("", text[7:])
    return _parse_any(text)


def _parse_any(text: str) -> FileUri:
    text = text.strip("".join(map(chr, range(0x21))))
    text = text.translate({0x09: None, 0x0A: None, 0x0D: None})
    scheme, colon, rest = text.partition(":")
    if not colon or not scheme or scheme[0] not in _ALPHA or not _SCHEME.issuperset(scheme):
        raise InvalidParams("invalid URI: relative URL without a base")
    if scheme.lower() != "file":
        raise InvalidParams(f"unsupported path URI scheme `{scheme.lower()}`")
    before, fragment, _ = rest.partition("#")
    if "?" in before:
        raise InvalidParams("query parameters are not allowed in path URIs")
    if fragment:
        raise InvalidParams("fragments are not allowed in path URIs")
    rest = rest.replace("\\", "/")
    host, path = "", rest.removeprefix("/")
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if _is_drive(host):
            host, path = "", rest[2:]
        elif not (host := _host(host)):
            path = "/" + path  # which hides a drive: file:///c| is a folder of that name
    segments = _segments(path)
    if _is_drive(segments[0]):
        host = ""
    while len(segments) > 1 and not segments[0]:
        del segments[0]
    if _is_drive(segments[0]) and segments[0][1] == ":":
        segments[0] = segments[0].upper()
    uri = FileUri(host, "/" + "/".join(segments))
    if "%00" in uri.path and not uri.path.startswith("/%00/"):
        raise InvalidParams(f"'{uri.text}' is invalid on 'linux'")
    return uri


def _host(text: str) -> str:
    host = _percent_decode(text).decode("utf-8", "replace").lower()
    if host == "localhost":
        return ""
    if any(mark in host for mark in " <>^|%@:[]\\") and not host.startswith("["):
        raise InvalidParams("invalid URI: invalid international domain name")
    if not host.isascii():
        try:
            return host.encode("idna").decode()
        except UnicodeError:
            raise InvalidParams("invalid URI: invalid international domain name") from None
    return host


def _segments(path: str) -> list[str]:
    """Dots resolved lexically, everything else encoded as it will be shown. What looks like a drive of
    Windows is one where nothing stands before it, and no dots lead out of it wherever it stands."""
    out: list[str] = []
    for part in path.split("/"):
        plain = part
        for dot in _DOT:
            plain = plain.replace(dot, ".")
        if plain == "..":
            if out and not _is_drive(out[-1]):
                out.pop()
        elif plain != ".":
            out.append(f"{part[0]}:" if not out and _is_drive(part) else _encode_segment(part))
    if not out or plain in (".", ".."):
        out.append("")
    return out


def _encode_segment(part: str) -> str:
    if part.isascii() and part.isprintable() and not _ESCAPED.intersection(part) and " " not in part:
        return part
    # A percent sign stays as written: `%zz` is literal, and `%41` stays encoded.
    return _encoded(part.encode("utf-8", "surrogatepass"), _PLAIN_BYTES + b"%")


def _percent_decode(text: str) -> bytes:
    first, *others = text.encode("utf-8", "surrogatepass").split(b"%")
    codes = {two: _unescaped(two) for two in {part[:2] for part in others}}
    return first + b"".join([codes[part[:2]] + part[2:] for part in others])


def _unescaped(two: bytes) -> bytes:
    """What a percent sign and two bytes after it stand for: for themselves, unless they are digits."""
    if len(two) == 2 and _HEX.issuperset(two):
        return bytes((int(two, 16),))
    return b"%" + two


def _is_drive(segment: str) -> bool:
    return len(segment) == 2 and segment[0] in _ALPHA and segment[1] in ":|"


def _names_drive(path: str) -> bool:
    return _is_drive(path[1:3]) and path[3:4] in ("", "/")


def from_path(path: str) -> str:
    """The URI text of an absolute native path, encoded exactly as the reference emits it.

    A path that would read as another system's (`/C:/x`) becomes an opaque URI, which no call accepts.
    """
    raw = path.encode("utf-8", "surrogateescape")
    if path[2:3] == ":" and _names_drive(path):
        from binascii import b2a_base64

        opaque = b2a_base64(raw, newline=False).rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")
        return f"file:///%00/bad/path/{opaque.decode()}"
    if raw.isascii() and path.isprintable() and not _ESCAPED.intersection(path) and " " not in path:
        return "file://" + path
    return "file://" + encode_name(path)


def encode_name(name: str) -> str:
    """A native name or path as part of a URI."""
    return _encoded(name.encode("utf-8", "surrogateescape"))


def _encoded(raw: bytes, plain: bytes = _PLAIN_BYTES) -> str:
    """Text in which all bytes are encoded that are not plain. In steps of C: the text may be long."""
    odd = set(raw.translate(None, plain))
    for byte in sorted(odd, key=_PERCENT.__ne__):  # it stands in what the others become
        raw = raw.replace(bytes((byte,)), b"%%%02X" % byte)
    return raw.decode("ascii")
