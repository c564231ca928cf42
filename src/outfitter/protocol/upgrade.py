"""The HTTP side of a WebSocket listener: one request head in, a response or an upgrade out.

Texts and statuses are the reference's. `gate` decides about credentials and host names; it is asked
only for requests that would otherwise be upgraded.
"""

from __future__ import annotations

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Caller(Protocol):
        """The other end of a connection that asks for an upgrade, as the kernel knows it."""

        address: str  # for people: an IP address and a port, or a user on a unix socket
        certificate: Admitted | None  # whom its TLS certificate names, if it had to show one

        def uid(self) -> int | None:
            """The user on this machine who is connected; None when that cannot be determined."""

        def socket_number(self) -> int | None:
            """The kernel's number for its TCP socket on this machine; 0 when that cannot be determined, None
            for any other."""

    Headers = dict[str, str]
    Gate = Callable[[Headers, Caller], "Response | Admitted"]

MAX_HEAD = 16 << 10  # as common servers; ours needs a few hundred bytes
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus's
# Why connections are refused, for those who count them: by the request's headers, by who it is, or because
# there is no room. OTHER_CAUSE is a refusal that names none of them.
CAUSES = ("origin", "host", "token", "user", "sandbox", "tls", "full", "share", "descriptors", "silent")
OTHER_CAUSE = "other"
_REASONS = {
    101: "Switching Protocols",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@record
class Admitted:
    """Who a connection belongs to, once the gate has let it in.

    `principal` is a stable key: two connections with the same one have the same rights. `expires` is when it
    has to end, as the wall clock shows it.
    """

    principal: str
    expires: float | None = None


@record
class Response:
    """An answer after which the connection ends; status 101 upgrades it instead, for who was `admitted`.

    `why` is for the log, where the body does not say it, and `cause` for those who count: one of CAUSES, or
    none. `asked` is the state that was asked for, which turns nobody away.
    """

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    admitted: Admitted | None = None
    why: str = ""
    asked: bool = False
    cause: str = ""

    @property
    def refusal(self) -> str | None:
        """Why somebody was turned away, for the log; None for an answer, or a request that makes no sense."""
        if self.status not in (401, 403, 503) or self.asked:
            return None
        return f"{self.status} {self.why or self.body or _REASONS[self.status]}"

    def encode(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {_REASONS[self.status]}"]
        lines += (f"{name}: {value}" for name, value in self.headers)
        body = self.body.encode()
        if self.status != 101:
            if body and not any(name == "content-type" for name, _ in self.headers):
                lines.append("content-type: text/plain; charset=utf-8")
            lines += (f"content-length: {len(body)}", "connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body if self.status != 101 else b"")


def answer(
    head: bytes,
    gate: Gate,
    caller: Caller,
    *,
    software: str = "",
    draining: str = "",
    metrics: Callable[[], str] | None = None,
) -> Response:
    """What to reply to a request head (without its final blank line).

    `software` is who answers /readyz, and `draining` why it is not ready; `metrics` is the body of /metrics,
    for whoever the gate lets in.
    """
    parsed = parse_head(head)
    if parsed is None:
        return Response(400, "invalid HTTP request")
    method, path, headers = parsed
    if "origin" in headers:
        # Browsers send it; nothing that should talk to us does.
        return Response(403, why="the request has an Origin header, as browsers send it", cause="origin")
    if path == "/readyz":
        if method in ("GET", "HEAD"):
            named = (("server", software),) if software else ()
            return Response(503 if draining else 200, draining, named, asked=True)
        return Response(405, headers=(("allow", "GET,HEAD"),))
    if path == "/metrics" and metrics is not None:
        return _metrics(method, headers, gate, caller, metrics)
    if path != "/":
        return Response(404)
    return upgrade(method, headers, gate, caller)


def _metrics(
    method: str, headers: Headers, gate: Gate, caller: Caller, metrics: Callable[[], str]
) -> Response:
    if method != "GET":
        return Response(405, headers=(("allow", "GET"),))
    decided = gate(headers, caller)
    if isinstance(decided, Response):
        return decided
    return Response(200, metrics(), (("content-type", METRICS_TYPE),))


def upgrade(method: str, headers: Headers, gate: Gate, caller: Caller) -> Response:
    """What to reply to a request to become a WebSocket."""
    if method != "GET":
        return Response(405, "Request method must be `GET`", (("allow", "GET"),))
    if "upgrade" not in _tokens(headers.get("connection", "")):
        return Response(400, "Connection header did not include 'upgrade'")
    if "websocket" not in _tokens(headers.get("upgrade", "")):
        return Response(400, "`Upgrade` header did not include 'websocket'")
    if headers.get("sec-websocket-version", "") != "13":
        return Response(400, "`Sec-WebSocket-Version` header did not include '13'")
    key = headers.get("sec-websocket-key", "")
    if not _is_key(key):
        return Response(400, "`Sec-WebSocket-Key` header missing")
    decided = gate(headers, caller)
    if isinstance(decided, Response):
        return decided
    return Response(
        101,
        headers=(
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-accept", accept_key(key)),
        ),
        admitted=decided,
    )


def query_of(head: bytes) -> dict[str, str]:
    """The query of a request head that `parse_head` has read: the last of each name, nothing decoded."""
    target = head.split(b" ", 2)[1].decode("latin-1")
    pairs = (one.partition("=") for one in target.partition("?")[2].split("&"))
    return {name: value for name, _, value in pairs}


def parse_head(head: bytes) -> tuple[str, str, Headers] | None:
    """Method, path without query, and headers in lower case; None when it is not HTTP/1.x."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].startswith("/"):
        return None
    headers = _headers(lines[1:])
    if headers is None:
        return None
    return parts[0], parts[1].partition("?")[0], headers


def parse_response(head: bytes) -> tuple[int, str, Headers] | None:
    """Status, phrase and headers in lower case of what a server answered; None when it is not HTTP/1.x."""
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status, _, phrase = rest.partition(" ")
    headers = _headers(lines[1:])
    if version not in ("HTTP/1.1", "HTTP/1.0") or len(status) != 3 or not _is_number(status):
        return None
    return None if headers is None else (int(status), phrase if phrase.isprintable() else "", headers)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _headers(lines: list[str]) -> Headers | None:
    headers: Headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            return None
        name = name.lower()
        value = value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


# What these take from C libraries is loaded with the first of them: /readyz needs none of it.


def new_key(random: bytes) -> str:
    """The key of an upgrade request, from sixteen random bytes."""
    from binascii import b2a_base64

    return b2a_base64(random, newline=False).decode()


def accept_key(key: str) -> str:
    from binascii import b2a_base64

    from ..stdlib import sha1

    return b2a_base64(sha1(key.encode("ascii") + _GUID).digest(), newline=False).decode()


def _is_key(key: str) -> bool:
    from binascii import a2b_base64

    try:
        return len(a2b_base64(key.encode("latin-1"), strict_mode=True)) == 16
    except ValueError:
        return False


def _tokens(value: str) -> list[str]:
    return [token.strip().lower() for token in value.split(",")]
