"""HTTP requests with small JSON bodies, answered one after the other on a connection that may stay open."""

from __future__ import annotations

from ..log import fault
from ..protocol.jsontext import dumps, loads
from ..protocol.registry import MAX_BODY, error_body
from ..protocol.upgrade import MAX_HEAD, parse_head
from ..record import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from ..protocol.jsontext import Json
    from ..protocol.upgrade import Headers
    from ..transport.sockets import Stream

    # A request, and what to call with its answer.
    Answer = Callable[["ApiRequest", Callable[["ApiAnswer"], None]], None]

_IDLE_SECONDS = 60.0  # an executor asks again when the next harness comes, which may be never
_REASONS = {200: "OK", 204: "No Content"}


@record
class ApiRequest:
    hidden = ("headers", "body")

    method: str
    path: str
    headers: Headers
    body: Json


@record
class ApiAnswer:
    hidden = ("body",)

    status: int
    body: Json
    more: tuple[tuple[str, str], ...] = ()
    wait: float = 0.0  # seconds until it is given


def refused(status: int, code: str, message: str, retry_after: int = 0) -> ApiAnswer:
    """`retry_after` are the seconds after which it is worth asking again, if somebody knows."""
    more = (("retry-after", str(retry_after)),) if retry_after else ()
    return ApiAnswer(status, error_body(code, message), more)


class ApiConnection:
    """One connection; `gone` is called when it has ended."""

    def __init__(
        self, loop: Loop, sock: Stream, said: bytes, answer: Answer, gone: Callable[[ApiConnection], object]
    ) -> None:
        """`said` is what has come so far, from the beginning of a request."""
        self._loop = loop
        self._sock = sock
        self._said = said
        self._answer = answer
        self._gone = gone
        self.busy = False  # with a request
        self.delayed = False  # which has its answer, to be given later
        self._last = False  # the peer wants no other one
        self._over = False
        self._unsent = b""
        self._timer = loop.call_later(_IDLE_SECONDS, self.close)
        loop.add_reader(sock.fileno(), self._readable)
        loop.call_soon(self._next)

    def _readable(self) -> None:
        try:
            data = self._sock.recv(MAX_HEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._said) > MAX_HEAD + MAX_BODY:
            self.close()
            return
        self._said += data
        self._next()

    def _next(self) -> None:
        """Begins with the next request, if it is there whole."""
        if self.busy or self._over or self._last:
            return
        head, blank, rest = self._said.partition(b"\r\n\r\n")
        if not blank:
            if len(self._said) > MAX_HEAD:
                self._refuse(431, "head_too_large", "the request's head is too large")
            return
        parsed = parse_head(head)
        if parsed is None:
            self._refuse(400, "bad_request", "the request is not HTTP/1.1")
            return
        method, path, headers = parsed
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            self._refuse(411, "length_required", "say the length of the body in Content-Length")
            return
        size = int(length) if len(length) < 10 else MAX_BODY + 1
        if size > MAX_BODY:
            self._refuse(413, "body_too_large", f"a body has {MAX_BODY} bytes at most")
            return
        if len(rest) < size:
            if headers.get("expect", "").lower() == "100-continue" and not rest:
                self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        self._said = rest[size:]
        self.busy = True
        self._last = headers.get("connection", "").lower() == "close"
        self._timer.cancel()
        try:
            body = loads(rest[:size].decode()) if size else None
        except ValueError:
            self._reply(refused(400, "bad_request", "the body is not JSON"))
            return
        try:
            self._answer(ApiRequest(method, path, headers, body), self._reply)
        except Exception as error:
            fault("relay", "a request could not be answered", error)
            self._reply(refused(500, "internal_error", "internal error"))

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers a request whose end cannot be found: nothing can follow it."""
        self.busy = self._last = True
        self._timer.cancel()  # it would keep all of this alive
        self._reply(refused(status, code, message))

    def _reply(self, answer: ApiAnswer) -> None:
        if self._over:
            return
        self.delayed = answer.wait > 0.0
        if self.delayed:
            self._timer = self._loop.call_later(answer.wait, self._reply, replace(answer, wait=0.0))
            return
        body = b"" if answer.body is None else dumps(answer.body).encode()
        lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Refused')}"]
        lines += [f"{name}: {value}" for name, value in answer.more]
        lines += [f"content-length: {len(body)}", f"connection: {'close' if self._last else 'keep-alive'}"]
        if body:
            lines.append("content-type: application/json")
        self.busy = False
        self._timer = self._loop.call_later(_IDLE_SECONDS, self.close)
        self._send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self._loop.call_soon(self._next)

    def _send(self, data: bytes) -> None:
        self._unsent += data
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._loop.add_writer(self._sock.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._sock.fileno())
            if self._last and not self.busy:
                self._end_politely()

    def _end_politely(self) -> None:
        """Lets the peer read the answer before the connection is gone."""
        try:
            self._sock.shutdown(1)
        except OSError:
            pass
        self._timer.cancel()
        self._timer = self._loop.call_later(1.0, self.close)

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        try:
            self._sock.close()
        except OSError:
            pass
        self._gone(self)
