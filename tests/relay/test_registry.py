"""The registry's calls, against registries that answer badly, slowly or with malice."""

from __future__ import annotations

import json

import pytest

from outfitter.errors import DialFailed, SettingInvalid
from outfitter.protocol import registry as wire
from outfitter.protocol.registry import KeyObject, ValidateParams
from outfitter.relay.credentials import bearer
from outfitter.relay.keys import Keys
from outfitter.relay.registry import Registry, enrol
from tests.support.registries import answering, reply

PUBLIC = Keys().public
KEY = KeyObject(PUBLIC.x25519, PUBLIC.mlkem)
TOKEN = "a-token-that-nobody-guesses"
REGISTERED = {
    "environment_id": "box",
    "url": "ws://127.0.0.1:1/x?sig=1",
    "security_profile": wire.PROFILE,
    "executor_registration_id": "r1",
    "of a later version": [1],
}
CONNECTED = {**REGISTERED, "executor_public_key": KEY.encode(), "harness_key_authorization": "may"}


def registry(url: str, *, seconds: float = 10.0, discreet: bool = False) -> Registry:
    return Registry(url, "box", lambda: bearer(TOKEN), seconds=seconds, discreet=discreet)


def refusal(answer: bytes | None, *, seconds: float = 10.0, discreet: bool = False) -> DialFailed:
    with answering(answer) as fake, pytest.raises(DialFailed) as caught:
        registry(fake.url, seconds=seconds, discreet=discreet).register(KEY)
    assert TOKEN not in str(caught.value)
    return caught.value


def test_what_is_asked_is_what_the_reference_asks() -> None:
    with answering(reply(REGISTERED)) as fake:
        told = registry(f" {fake.url}/base// ").register(KEY)
    assert (told.environment_id, told.url, told.registration_id) == ("box", REGISTERED["url"], "r1")
    [(head, body)] = fake.asked
    assert head.split("\r\n")[0] == "POST /base/cloud/environment/box/register HTTP/1.1"
    assert f"Authorization: Bearer {TOKEN}" in head and "Content-Type: application/json" in head
    assert body == {"security_profile": wire.PROFILE, "executor_public_key": KEY.encode()}
    assert len(json.dumps(body, separators=(",", ":"))) == 1792  # the reference's size


def test_a_harness_gets_all_that_it_needs() -> None:
    with answering(reply(CONNECTED)) as fake:
        told = registry(fake.url).connect(KEY)
    assert (told.executor, told.authorization) == (KEY, "may")
    assert fake.asked[0][1] == {"harness_public_key": KEY.encode()}


@pytest.mark.parametrize(("stream", "named"), [("s-1", True), ("ein Fluß\r\nX: y", False)])
def test_a_validation_names_its_stream_where_a_header_can(stream: str, named: bool) -> None:
    with answering(reply({"valid": True, "principal": "p"})) as fake:
        told = registry(fake.url).validate(ValidateParams("r1", KEY, "may"), stream)
    assert (told.valid, told.principal) == (True, "p")
    assert (f"{wire.STREAM_HEADER}: {stream}" in fake.asked[0][0]) is named


def test_a_code_is_exchanged_for_a_token() -> None:
    answer = {"token": "t", "principal": "p", "environment_id": "box", "role": "use"}
    with answering(reply(answer)) as fake:
        told = enrol(fake.url, "code")
    assert (told.token, told.role, fake.asked[0][1]) == ("t", "use", {"code": "code"})


def test_who_does_not_answer_is_given_up() -> None:
    error = refusal(None, seconds=0.2)
    assert error.retryable and "did not answer within 0.2 s" in str(error)


def test_who_answers_a_byte_at_a_time_is_given_up_all_the_same() -> None:
    """The time is for the whole answer, not for each byte of it."""
    import socket
    import threading

    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        peer, _ = listening.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            while not ended.wait(0.05):
                try:
                    peer.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        try:
            with pytest.raises(DialFailed, match=r"did not answer within 0\.4 s"):
                registry(f"http://127.0.0.1:{listening.getsockname()[1]}", seconds=0.4).register(KEY)
        finally:
            ended.set()
            thread.join()


def test_nobody_there_may_come_back() -> None:
    with answering(None) as fake:
        url = fake.url
    with pytest.raises(DialFailed, match="cannot reach") as caught:
        registry(url).register(KEY)
    assert caught.value.retryable


def test_a_redirect_is_not_followed() -> None:
    with answering(reply(REGISTERED)) as other:
        error = refusal(reply(b"", 307, f"Location: {other.url}"))
    assert (error.status, error.retryable, other.asked) == (307, False, [])


MALFORMED = {
    "no JSON": reply(b"<html>"),
    "no UTF-8": reply(b'{"url": "\xff"}'),
    "no object": reply([1]),
    "a member is missing": reply({k: v for k, v in REGISTERED.items() if k != "url"}),
    "a member is blank": reply({**REGISTERED, "executor_registration_id": " "}),
    "another environment": reply({**REGISTERED, "environment_id": "other"}),
    "another profile": reply({**REGISTERED, "security_profile": "plain"}),
    "more than is read": reply({**REGISTERED, "more": "x" * wire.MAX_BODY}),
    "deep": reply(b"[" * 50_000),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_an_answer_that_cannot_be_used_is_for_a_person(what: str) -> None:
    error = refusal(MALFORMED[what])
    assert not error.retryable and error.status is None


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 abc\r\n\r\n", b"\x00\xff" * 100, b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"],
)
def test_what_is_not_http_is_no_answer(answer: bytes) -> None:
    error = refusal(answer)
    assert error.retryable and "cannot reach" in str(error)


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        (409, wire.OFFLINE, True),
        (409, "other", False),
        (404, "x", False),
        (401, "x", False),
        (403, "x", False),
    ]
    + [(status, "x", True) for status in (408, 429, 500, 503)],
)
def test_which_refusals_pass(status: int, code: str, again: bool) -> None:
    error = refusal(reply({"error": {"code": code, "message": "why not"}}, status))
    assert (error.status, error.retryable) == (status, again)
    assert f"{status}: {code}: why not" in str(error)
    assert ("check the credential" in str(error)) is (status in (401, 403))


def test_what_a_registry_says_cannot_write_over_a_terminal() -> None:
    error = refusal(reply(b"\x1b[2J\r\n" + b"y" * 10_000, 400))
    assert "\x1b" not in str(error) and "\n" not in str(error)
    assert len(str(error)) < 400


def test_discreet_nothing_of_an_error_is_shown() -> None:
    error = refusal(reply({"error": {"code": "c", "message": TOKEN}}, 403), discreet=True)
    assert "c:" not in str(error) and error.status == 403


@pytest.mark.parametrize("where", ["url", "executor_registration_id", "unknown"])
def test_discreet_an_answer_that_repeats_the_token_is_not_used(where: str) -> None:
    answer = reply({**REGISTERED, where: f"ws://127.0.0.1/{TOKEN}"})
    assert "contains the credential" in str(refusal(answer, discreet=True))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://h", "http://", "https://u:p@h", "https://h?x=1", "http://relay.example", "h:80"),
        *("https://h:99999", "https://h:x", "https://[::1"),
    ],
)
def test_what_is_no_registry_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(SettingInvalid) as caught:
        registry(url)
    assert ":p@" not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 129, "a?b"])
def test_what_is_no_environment_id_is_refused(name: str) -> None:
    with pytest.raises(SettingInvalid, match="is no environment id"):
        Registry("http://127.0.0.1:1", name, dict)
