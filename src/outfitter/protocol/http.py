"""Params, results and the notice of http/request, and of http/cancel and http/hold (ours)."""

from __future__ import annotations

from . import base64
from .fields import Fields, wrong
from .jsontext import quote
from .results import Result
from .shape import Shape, member, rows, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .results import Wire

FOLLOW, STOP = "follow", "stop"
_SHORT = 2048  # bytes of a body whose answer goes as one piece, in one small frame


@shape()
class HttpHeader(Shape):
    """A header of a request; its value ends with that of the executor's variable, if one is named."""

    name: str
    value: str
    value_env_var: str | None = member(default=None, omit=True)


def _headers(fields: Fields, name: str) -> tuple[HttpHeader, ...]:
    return tuple([HttpHeader.decode(one) for one in fields.items(name)])


def _policy(fields: Fields, name: str) -> str:
    value = fields.raw(name)
    if type(value) not in (str, dict):
        raise wrong(value, "string or map")
    return fields.choice(name, (FOLLOW, STOP))


@shape(quick=True)
class RequestParams(Shape):
    """http/request. Without `timeout_ms` it may take forever."""

    method: str
    url: str
    request_id: str = member(Fields.ident)
    headers: tuple[HttpHeader, ...] = member(
        _headers, lambda told: [one.encode() for one in told], default=()
    )
    body: bytes | None = member(name="bodyBase64", default=None, omit=True)
    timeout_ms: int | None = member(default=None, omit=True)
    redirect_policy: str = member(_policy, default=FOLLOW)
    stream_response: bool = False


@shape("HttpRequestResponse", quick=True)
class RequestResult(Result):
    """The answer of the other server; without its body when that is streamed."""

    status: int
    headers: list[tuple[str, str]] = member(*rows("HttpHeader", "name", "value"))
    body: bytes = member(name="bodyBase64")

    def wire(self) -> Wire:
        if len(self.body) <= _SHORT:
            return f'{self._head()}{base64.encode_text(self.body)}"}}'
        return self.parts()

    def parts(self) -> list[bytes]:
        """The same, for a body that is better not copied."""
        return [self._head().encode(), base64.encode(self.body), b'"}']

    def _head(self) -> str:
        told = ",".join([f'{{"name":{quote(name)},"value":{quote(value)}}}' for name, value in self.headers])
        return f'{{"status":{self.status},"headers":[{told}],"bodyBase64":"'


@shape()
class BodyNotice(Shape):
    """http/request/bodyDelta: the next piece of a streamed body; the last one is empty and `done`."""

    request_id: str
    seq: int
    delta: bytes = member(name="deltaBase64")
    done: bool
    error: str | None = None

    def message(self) -> bytes:
        head, tail = self.around()
        return head + base64.encode(self.delta) + tail

    def around(self) -> tuple[bytes, bytes]:
        """What stands before and after the base64 text of the piece."""
        error = "null" if self.error is None else quote(self.error)
        return (
            f'{{"method":"http/request/bodyDelta","params":{{"requestId":{quote(self.request_id)},'
            f'"seq":{self.seq},"deltaBase64":"'.encode(),
            f'","done":{"true" if self.done else "false"},"error":{error}}}}}'.encode(),
        )


@shape()
class CancelParams(Shape):
    """http/cancel (ours): ends the requests of this connection that have this id."""

    request_id: str = member(Fields.ident)


@shape()
class HoldStreamParams(Shape):
    """http/hold (ours): send no more of a stream, or send it again."""

    request_id: str = member(Fields.ident)
    held: bool


@shape()
class CancelResult(Result):
    """Whether there was one; a stream's last notice follows, if it had begun."""

    cancelled: bool
