"""The registry's HTTP over raw sockets: what is answered, and what whoever asks badly cannot do."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.protocol.registry import MAX_BODY, PROFILE
from outfitter.protocol.upgrade import MAX_HEAD
from outfitter.relay.api import ApiAnswer, ApiConnection
from tests.support.handloop import HandLoop
from tests.support.machine import wait_until
from tests.support.relays import KEY, Hosted, hosting

REGISTER = {"security_profile": PROFILE, "executor_public_key": KEY.encode()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("api") / "store") as hosted:
        yield hosted


class Http:
    """A connection that sends what it is told to, and reads answers."""

    def __init__(self, place: Hosted) -> None:
        self._socket = socket.create_connection(("127.0.0.1", place.port), timeout=20)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, Any]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().lower().partition(": ")
            headers[name] = value
        raw = self._file.read(int(headers.get("content-length", 0)))
        as_json = raw and headers.get("content-type") == "application/json"
        return status, json.loads(raw) if as_json else raw.decode()

    def code(self) -> tuple[int, str]:
        status, body = self.answer()
        return status, body["error"]["code"]

    def ended(self) -> bool:
        return self._file.read(1) == b""

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def request(path: str, body: object, token: str | None = None, *more: str, method: str = "POST") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(raw)}", *more]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + raw


def register(token: str | None, body: object = REGISTER, *more: str) -> bytes:
    return request("/cloud/environment/box/register", body, token, *more)


def test_requests_follow_each_other_on_a_connection_however_they_are_cut(place: Hosted) -> None:
    said = register(place.token("box", "execute"))
    with Http(place) as http:
        http.send(said * 3)
        names = {http.answer()[1]["executor_registration_id"] for _ in range(3)}
        assert len(names) == 3
        for start in range(0, len(said), 97):
            http.send(said[start : start + 97])
        assert http.answer()[0] == 200


def test_who_wants_no_other_answer_gets_none(place: Hosted) -> None:
    with Http(place) as http:
        http.send(register("nobody", REGISTER, "Connection: close") * 2)
        assert http.code() == (401, "unauthorized")
        assert http.ended()


def test_who_waits_for_a_word_before_the_body_hears_it(place: Hosted) -> None:
    head, _, body = register("nobody", REGISTER, "Expect: 100-continue").partition(b"\r\n\r\n")
    with Http(place) as http:
        http.send(head + b"\r\n\r\n")
        assert http.answer()[0] == 100
        http.send(body)
        assert http.code() == (401, "unauthorized")


GOOD = "/cloud/environment/box/register"
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no token": (register(None), 401, "unauthorized"),
    "another scheme": (register(None, REGISTER, "Authorization: Basic eDp5"), 401, "unauthorized"),
    "an unknown token": (register("x"), 401, "unauthorized"),
    "two tokens": (register("x", REGISTER, "Authorization: Bearer y"), 401, "unauthorized"),
    "another method": (request(GOOD, b"", "x", method="GET"), 404, "not_found"),
    "another call": (request("/cloud/environment/box/forget", {}, "x"), 404, "not_found"),
    "no environment": (request("/cloud/environment//register", {}, "x"), 404, "not_found"),
    "a path": (request("/cloud/environment/a/b/register", {}, "x"), 404, "not_found"),
    "percent": (request("/cloud/environment/%62ox/register", {}, "x"), 404, "not_found"),
    "direct": (request("/cloud/environment/box/direct/register", {}, "x"), 501, "direct_unsupported"),
    "no JSON": (register("x", b"{"), 400, "bad_request"),
    "no UTF-8": (register("x", b'"\xff"'), 400, "bad_request"),
    "deep": (register("x", b"[" * 60_000), 400, "bad_request"),
    "no object": (register("x", [1]), 400, "bad_request"),
    "nothing": (register("x", b""), 400, "bad_request"),
    "no key": (register("x", {"security_profile": PROFILE}), 400, "bad_request"),
    "another profile": (register("x", {**REGISTER, "security_profile": "p"}), 400, "bad_request"),
    "a key of another length": (
        register("x", {**REGISTER, "executor_public_key": {**KEY.encode(), "x25519_public_key": "AA=="}}),  # type: ignore[dict-item]
        400,
        "bad_request",
    ),
    "chunks": (register("x", b"", "Transfer-Encoding: chunked"), 411, "length_required"),
    "two lengths": (register("x", b"{}", "Content-Length: 2"), 411, "length_required"),
    "a length below nothing": (
        b"POST " + GOOD.encode() + b" HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        411,
        "length_required",
    ),
    "too long": (register("x", b" " * (MAX_BODY + 1)), 413, "body_too_large"),
    "a length without end": (
        b"POST " + GOOD.encode() + b" HTTP/1.1\r\nContent-Length: " + b"9" * 500 + b"\r\n\r\n",
        413,
        "body_too_large",
    ),
    "a code that is none": (request("/enrol", {"code": "x"}), 403, "code_refused"),
    "no code": (request("/enrol", {}), 400, "bad_request"),
    "rotating nothing": (request("/rotate", {}, "x"), 401, "unauthorized"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, place: Hosted) -> None:
    said, status, code = REFUSED[what]
    with Http(place) as http:
        http.send(said)
        assert http.code() == (status, code)


def test_a_second_request_with_a_head_that_has_no_end_is_refused(place: Hosted) -> None:
    with Http(place) as http:
        http.send(register("x"))
        http.answer()
        http.send(b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD // 6))
        assert http.code() == (431, "head_too_large")
        assert http.ended()


def test_a_second_request_that_is_not_http_is_refused(place: Hosted) -> None:
    with Http(place) as http:
        http.send(register("x") + b"\x16\x03\x01\r\n\r\n")
        http.answer()
        assert http.code() == (400, "bad_request")
        assert http.ended()


def test_a_code_becomes_a_token_which_becomes_another(place: Hosted) -> None:
    code = place.authority.code("ada", "box", "execute")
    with Http(place) as http:
        http.send(request("/enrol", {"code": code}))
        status, told = http.answer()
        assert (status, told["environment_id"], told["role"]) == (200, "box", "execute")
        http.send(request("/enrol", {"code": code}))
        assert http.code() == (403, "code_refused")
        http.send(request("/rotate", {}, told["token"]))
        status, rotated = http.answer()
        assert (status, rotated["grace"]) == (200, 600)
        for token in (told["token"], rotated["token"]):
            http.send(register(token))
            assert http.answer()[0] == 200


@pytest.fixture(scope="module")
def asked(place: Hosted) -> bytes:
    """A request whose refusal nobody has to wait for, as he who has a wrong token has to."""
    token = place.token("box", "use")
    return request("/cloud/environment/box/connect", {"harness_public_key": KEY.encode()}, token)


@settings(max_examples=40, deadline=None)
@given(said=st.binary(max_size=300), behind=st.booleans())
def test_any_bytes_are_survived(place: Hosted, asked: bytes, said: bytes, behind: bool) -> None:
    with Http(place) as http:
        http.send((asked if behind else b"") + said + b"\r\n\r\n")
        http._socket.shutdown(socket.SHUT_WR)
        http._file.read()
    with Http(place) as http:
        http.send(asked)
        # The second where `make fuzz` has asked more often than anybody may.
        assert http.code() in ((409, "environment_offline"), (429, "too_many_calls"))


def test_who_leaves_in_the_middle_of_a_body_leaves_nothing_behind(place: Hosted) -> None:
    with Http(place) as http:
        http.send(register("x")[:-10])
    wait_until(lambda: not place.service._api, "the connection is forgotten")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: some\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", b"413"),
        (b"hello\r\n\r\n", b"400"),
        (b"x" * (MAX_HEAD + 1), b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"200"),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", b"200"),
    ],
)
def test_no_timer_keeps_what_was_said_on_a_connection_that_has_ended(said: bytes, status: bytes) -> None:
    """Anybody can say badly what fills a head, over and over."""
    loop, gone = HandLoop(), list[ApiConnection]()
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        ApiConnection(loop, ours, said, lambda _, reply: reply(ApiAnswer(200, {})), gone.append)
        loop.advance(0.0)
        assert theirs.recv(100).split(b" ")[1] == status
        theirs.shutdown(socket.SHUT_WR)
        loop.serve(lambda: bool(gone))
        assert loop.waiting == 0


def test_the_next_request_begins_when_the_one_before_has_its_answer() -> None:
    loop, asked = HandLoop(), list[tuple[str, Callable[[ApiAnswer], None]]]()
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        said = b"".join(b"POST /%d HTTP/1.1\r\n\r\n" % number for number in (1, 2))
        connection = ApiConnection(
            loop, ours, said, lambda request, reply: asked.append((request.path, reply)), lambda _: None
        )
        loop.advance(0.0)
        theirs.sendall(b"POST /3 HTTP/1.1\r\n\r\n")
        loop.tick()
        assert [path for path, _ in asked] == ["/1"]
        asked[0][1](ApiAnswer(403, {}, wait=1.0))  # who is refused waits, and what comes behind it, too
        loop.advance(0.5)
        assert [path for path, _ in asked] == ["/1"]
        loop.advance(0.5)
        assert [path for path, _ in asked] == ["/1", "/2"]
        asked[1][1](ApiAnswer(200, {}))
        loop.advance(0.0)
        assert [path for path, _ in asked] == ["/1", "/2", "/3"]
        connection.close()
