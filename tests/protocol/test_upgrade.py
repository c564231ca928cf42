"""The HTTP side of a listener: each row of the table of answers, and no head that makes it stumble."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.protocol.upgrade import Admitted, Response, accept_key, answer, parse_head

if TYPE_CHECKING:
    from outfitter.protocol.upgrade import Caller

quick = settings(deadline=None, max_examples=120)

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the example of RFC 6455
UPGRADE = {
    "Host": "127.0.0.1:1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}
WHO = Admitted("somebody", 5.0)
UPGRADED = Response(
    101,
    headers=(
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
    ),
    admitted=WHO,
)


def head(request: str = "GET / HTTP/1.1", **headers: str | None) -> bytes:
    """An upgrade with some headers (`_` for `-`) replaced, or left out when None."""
    lines = dict(UPGRADE)
    for name, value in headers.items():
        known = next((key for key in lines if key.lower() == name.replace("_", "-")), name.replace("_", "-"))
        if value is None:
            del lines[known]
        else:
            lines[known] = value
    return "\r\n".join([request, *(f"{name}: {value}" for name, value in lines.items())]).encode("latin-1")


def plain(request: str, *lines: str) -> bytes:
    return "\r\n".join([request, *lines]).encode("latin-1")


class Nobody:
    """A caller about whom the kernel says nothing."""

    address = "192.0.2.1:5000"
    certificate: Admitted | None = None

    def socket_number(self) -> int | None:
        return None

    def uid(self) -> int | None:
        return None


NOBODY = Nobody()


def open_gate(headers: dict[str, str], caller: Caller) -> Response | Admitted:
    return WHO


def ask(data: bytes) -> Response:
    return answer(data, open_gate, NOBODY)


# The table


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("query", ["", "?x=1"])
def test_readiness_is_an_empty_200(method: str, query: str) -> None:
    assert ask(plain(f"{method} /readyz{query} HTTP/1.1", "Host: x")) == Response(200, asked=True)


def test_readiness_says_who_answers_and_why_it_is_not_ready() -> None:
    head = plain("GET /readyz HTTP/1.1", "Host: x")
    named = (("server", "outfitter/1"),)
    answered = answer(head, open_gate, NOBODY, software="outfitter/1")
    assert answered == Response(200, headers=named, asked=True)
    answered = answer(head, open_gate, NOBODY, software="outfitter/1", draining="draining since noon")
    assert answered == Response(503, "draining since noon", named, asked=True)
    assert answered.refusal is None
    assert Response(503, "full").refusal == "503 full"


def test_metrics_are_told_to_who_is_let_in_and_only_where_there_are_some() -> None:
    head = plain("GET /metrics?x=1 HTTP/1.1", "Host: x")
    kind = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)
    assert answer(head, open_gate, NOBODY, metrics=lambda: "a 1\n") == Response(200, "a 1\n", kind)
    assert answer(head, open_gate, NOBODY, metrics=lambda: "a 1\n").encode() == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"
        b"content-length: 4\r\nconnection: close\r\n\r\na 1\n"
    )
    assert answer(head, open_gate, NOBODY) == Response(404)
    refusal = Response(401, "no", cause="token")
    asked: list[str] = []
    refused = answer(head, lambda *_: refusal, NOBODY, metrics=lambda: asked.append("") or "")
    assert (refused, asked) == (refusal, [])
    post = plain("POST /metrics HTTP/1.1", "Host: x")
    assert answer(post, open_gate, NOBODY, metrics=str) == Response(405, headers=(("allow", "GET"),))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_readiness_answers_no_other_method(method: str) -> None:
    assert ask(plain(f"{method} /readyz HTTP/1.1")) == Response(405, headers=(("allow", "GET,HEAD"),))


@pytest.mark.parametrize("target", ["/", "/?a=b", "/?", "/?/readyz"])
def test_a_sound_upgrade_is_upgraded(target: str) -> None:
    assert ask(head(f"GET {target} HTTP/1.1")) == UPGRADED


@pytest.mark.parametrize(
    "headers", [{"connection": None}, {"connection": "close"}, {"connection": "upgraded"}]
)
def test_a_request_without_upgrade_is_told_so(headers: dict[str, str | None]) -> None:
    assert ask(head(**headers)) == Response(400, "Connection header did not include 'upgrade'")


def test_a_plain_get_is_told_what_it_lacks() -> None:
    assert ask(plain("GET / HTTP/1.1", "Host: x")) == Response(
        400, "Connection header did not include 'upgrade'"
    )


@pytest.mark.parametrize("value", [None, "h2c", "web socket"])
def test_an_upgrade_to_something_else_is_refused(value: str | None) -> None:
    assert ask(head(upgrade=value)) == Response(400, "`Upgrade` header did not include 'websocket'")


@pytest.mark.parametrize("version", [None, "", "8", "12", "013", "13.0", "14"])
def test_another_version_is_refused(version: str | None) -> None:
    assert ask(head(sec_websocket_version=version)) == Response(
        400, "`Sec-WebSocket-Version` header did not include '13'"
    )


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "get"])
def test_only_get_is_upgraded(method: str) -> None:
    assert ask(head(f"{method} / HTTP/1.1")) == Response(
        405, "Request method must be `GET`", (("allow", "GET"),)
    )


@pytest.mark.parametrize("path", ["/healthz", "/ws", "//", "/readyz/", "/READYZ", "/x?y", "/%2F"])
def test_any_other_path_is_not_found(path: str) -> None:
    assert ask(head(f"GET {path} HTTP/1.1")) == Response(404)


@pytest.mark.parametrize("origin", ["http://evil", "null", "", "http://127.0.0.1:1"])
@pytest.mark.parametrize("request_line", ["GET / HTTP/1.1", "GET /readyz HTTP/1.1", "POST /x HTTP/1.1"])
@pytest.mark.parametrize("name", ["Origin", "origin", "ORIGIN"])
def test_a_browser_is_turned_away_from_every_path(origin: str, request_line: str, name: str) -> None:
    response = ask(head(request_line, **{name: origin}))
    assert (response.status, response.body, response.headers) == (403, "", ())
    assert response.refusal == "403 the request has an Origin header, as browsers send it"


def test_only_refusals_are_worth_a_line_in_the_log() -> None:
    assert Response(401, "no token").refusal == "401 no token"
    assert Response(503).refusal == "503 Service Unavailable"
    others = (UPGRADED, Response(200), Response(400, "x"), Response(404), Response(405), Response(431))
    assert [response.refusal for response in others] == [None] * 6


def test_no_subprotocol_and_no_extension_is_selected() -> None:
    offered = head(sec_websocket_protocol="a, b", sec_websocket_extensions="permessage-deflate")
    assert ask(offered) == UPGRADED


# The gate


def test_the_gate_sees_the_headers_and_has_the_last_word() -> None:
    seen = []

    def gate(headers: dict[str, str], caller: Caller) -> Response | Admitted:
        seen.append((headers, caller))
        return Response(401, "no")

    assert answer(head(authorization="Bearer x"), gate, NOBODY) == Response(401, "no")
    given = {**{name.lower(): value for name, value in UPGRADE.items()}, "authorization": "Bearer x"}
    assert seen == [(given, NOBODY)]


@pytest.mark.parametrize(
    "data",
    [
        plain("GET /readyz HTTP/1.1"),
        plain("GET /x HTTP/1.1"),
        head(origin="x"),
        head(connection="close"),
        head("POST / HTTP/1.1"),
        head(sec_websocket_key="short"),
        b"nonsense",
    ],
)
def test_the_gate_is_asked_only_about_upgrades(data: bytes) -> None:
    def gate(headers: dict[str, str], caller: Caller) -> Response | Admitted:
        raise AssertionError("asked")

    answer(data, gate, NOBODY)


# Odd heads


@pytest.mark.parametrize(
    "headers",
    [
        {"connection": "keep-alive, Upgrade"},
        {"connection": "  UPGRADE  ,close"},
        {"connection": "\tupgrade\t"},
        {"upgrade": "WebSocket"},
        {"upgrade": "h2c , websocket"},
        {"sec_websocket_version": "  13 "},
        {"sec_websocket_key": f" \t{KEY} "},
        {"host": ""},
        {"host": "evil.example"},
        {"x_odd": "a:b: c"},
        {"x_latin": "\xe9\xff"},
        {"x_empty": ""},
    ],
)
def test_odd_spacing_and_case_are_no_matter(headers: dict[str, str | None]) -> None:
    assert ask(head(**headers)) == UPGRADED


def test_a_header_may_have_no_space_after_its_colon() -> None:
    assert ask(head().replace(b": ", b":")) == UPGRADED


def test_repeated_headers_are_one_list() -> None:
    lines = plain("GET / HTTP/1.1", "Connection: keep-alive", "A: 1", "CONNECTION: Upgrade", "a:2 ", "A:")
    assert parse_head(lines) == ("GET", "/", {"connection": "keep-alive, Upgrade", "a": "1, 2, "})


def test_a_connection_header_may_be_repeated() -> None:
    assert ask(head(connection="keep-alive") + b"\r\nconnection: upgrade") == UPGRADED


@pytest.mark.parametrize("line", [f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13"])
def test_a_key_or_version_that_comes_twice_is_refused(line: str) -> None:
    assert ask(head() + b"\r\n" + line.encode()).status == 400


@pytest.mark.parametrize(
    "key",
    [None, "", "x", KEY[:-1], KEY[:-2], KEY + "=", KEY + "A", "=" + KEY, "AAAA", KEY[:-3] + "*==",
     base64.b64encode(bytes(15)).decode(), base64.b64encode(bytes(17)).decode(), "\xe9" * 24,
     KEY.replace("G", " ")],
)  # fmt: skip
def test_a_key_is_sixteen_bytes_of_base64(key: str | None) -> None:
    assert ask(head(sec_websocket_key=key)) == Response(400, "`Sec-WebSocket-Key` header missing")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET",
        b"GET /",
        b"GET / HTTP/2",
        b"GET / HTTP/0.9",
        b"GET / SMTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"GET readyz HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET /readyz HTTP/1.1\r\nno colon",
        b"GET /readyz HTTP/1.1\r\n: no name",
        b"GET /readyz HTTP/1.1\r\nName : value",
        b"GET /readyz HTTP/1.1\r\nA: 1\r\n folded",
        b"GET /readyz HTTP/1.1\r\n A: 1",
        b"GET /readyz HTTP/1.1\r\n\r\nA: 1",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\x00" * 100,
    ],
)
def test_what_is_not_http_is_a_400(data: bytes) -> None:
    assert ask(data) == Response(400, "invalid HTTP request")


parts = st.sampled_from(
    [b"GET ", b"/", b"/readyz", b" HTTP/1.1", b"\r\n", b"\n", b": ", b":", b" ", b"\xff", b"\0", b"Upgrade",
     b"websocket", b"Connection", b"Sec-WebSocket-Key", KEY.encode(), b"Sec-WebSocket-Version: 13", b",",
     b"Origin"]
)  # fmt: skip


@given(st.binary(max_size=80) | st.lists(parts, max_size=24).map(b"".join))
@example(head() + b"\r\n" + b"\xff" * 10)
@quick
def test_any_bytes_get_an_answer(data: bytes) -> None:
    response = ask(data)
    assert response.status in (101, 200, 400, 403, 404, 405)
    assert response.encode().startswith(b"HTTP/1.1 %d " % response.status)


@given(st.binary(min_size=16, max_size=16))
@quick
def test_every_key_is_answered_as_the_rfc_says(raw: bytes) -> None:
    key = base64.b64encode(raw).decode()
    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    assert accept_key(key) == base64.b64encode(digest).decode()
    assert ask(head(sec_websocket_key=key)).status == 101


# Bytes


@pytest.mark.parametrize(
    ("response", "data"),
    [
        (Response(200), b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        (
            Response(405, headers=(("allow", "GET,HEAD"),)),
            b"HTTP/1.1 405 Method Not Allowed\r\nallow: GET,HEAD\r\ncontent-length: 0\r\n"
            b"connection: close\r\n\r\n",
        ),
        (
            Response(400, "é"),
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 2\r\n"
            b"connection: close\r\n\r\n\xc3\xa9",
        ),
        (
            UPGRADED,
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        ),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Response) else "",
)
def test_an_answer_on_the_wire(response: Response, data: bytes) -> None:
    assert response.encode() == data
