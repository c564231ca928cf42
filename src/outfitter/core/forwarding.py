"""What a proxy makes of an HTTP request: where it goes, and what is sent there.

The head was read by a library. One request is served per connection, with headers of our own for the length
of its body and the end of the connection, so that nobody can hide a second request in the first.
"""

from __future__ import annotations

from ..protocol.network import CONNECT, HTTP
from ..record import record
from .hosts import canonical
from .network import Destination, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .network import ProxyAnswer

    Headers = Iterable[tuple[bytes, bytes]]

# Of one connection, not of the message: RFC 9110, 7.6.1, and what clients say to proxies.
_HOPS = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    )
)


class BadRequest(Exception):
    """Nothing can be made of a request; `answer` says why."""

    def __init__(self, answer: ProxyAnswer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


@record
class Forwarded:
    """A request as it goes on: to `target`, asking for `path`."""

    target: Destination
    path: bytes
    headers: tuple[tuple[bytes, bytes], ...]


def forwarded(method: bytes, where: bytes, headers: Headers, version: bytes = b"1.1") -> Forwarded:
    """Names in `headers` are in lower case. Raises BadRequest."""
    given = list(headers)
    names = [name for name, _ in given]
    if b"transfer-encoding" in names and (b"content-length" in names or version < b"1.1"):
        raise BadRequest(plain(400, "a request has one length: Content-Length or Transfer-Encoding"))
    host = next((value for name, value in given if name == b"host"), None)
    word = method.decode("ascii")
    if method == b"CONNECT":
        if b"transfer-encoding" in names or any(
            value != b"0" for name, value in given if name == b"content-length"
        ):
            raise BadRequest(plain(400, "CONNECT has no body"))
        return Forwarded(Destination(CONNECT, *_authority(where), word), b"", ())
    authority, path = _parts(where, host)
    target = Destination(HTTP, *_authority(authority), word)
    if host is not None and Destination(HTTP, *_authority(host), word) != target:
        raise BadRequest(plain(400, "Host header does not match request target"))
    named = [
        one.strip().lower() for name, value in given if name == b"connection" for one in value.split(b",")
    ]
    left = {*_HOPS, *named, b"host"} - {b"content-length", b"transfer-encoding"}
    kept = [(name, value) for name, value in given if name not in left]
    return Forwarded(target, path, ((b"host", host or authority), *kept, (b"connection", b"close")))


def returned(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a response as the client gets them."""
    given = list(headers)
    named = [
        one.strip().lower() for name, value in given if name == b"connection" for one in value.split(b",")
    ]
    left = {*_HOPS, *named} - {b"content-length", b"transfer-encoding"}
    return [*((name, value) for name, value in given if name not in left), (b"connection", b"close")]


def _parts(where: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Authority and path of a request."""
    if where.startswith(b"/") or where == b"*":
        if host is None:
            raise BadRequest(plain(400, "missing host"))
        return host, where
    scheme, found, rest = where.partition(b"://")
    if not found or scheme.lower() != b"http":
        raise BadRequest(plain(400, "a request target begins with http://; use CONNECT for anything else"))
    end = min([at for at in map(rest.find, (b"/", b"?", b"#")) if at >= 0], default=len(rest))
    path = rest[end:].partition(b"#")[0]
    return rest[:end], path if path.startswith(b"/") else b"/" + path


def _authority(text: bytes) -> tuple[str, int]:
    """Host and port. Raises BadRequest."""
    host, port = text, b""
    if text.startswith(b"["):
        host, _, port = text.partition(b"]")
        host += b"]"
        if port and not port.startswith(b":"):
            raise BadRequest(plain(400, "invalid host"))
        port = port[1:]
    elif text.count(b":") == 1:
        host, _, port = text.partition(b":")
    elif b":" in text:
        raise BadRequest(plain(400, "invalid host: an IPv6 address stands in brackets"))
    if port and not (port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise BadRequest(plain(400, "invalid port"))
    try:
        return canonical(host.decode("ascii")), int(port or 80)
    except (ValueError, UnicodeDecodeError):
        raise BadRequest(plain(400, "invalid host")) from None
