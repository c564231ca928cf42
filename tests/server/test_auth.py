"""Who may connect: every refusal of the token checks, word for word, and every mistake in their flags."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import ConnectionClosed

from outfitter.errors import SettingInvalid
from outfitter.protocol.upgrade import Admitted, Response
from outfitter.record import replace
from outfitter.server.auth import gate, users_of, without_the_confined
from outfitter.server.tokens import Tokens
from tests.server.test_tokens import holder, private
from tests.support.jwts import SECRET, jwt
from tests.support.machine import SECOND, wait_until
from tests.support.raw import UPGRADE, Raw
from tests.support.servers import command, environment, serving
from tests.support.wire import Wire

if TYPE_CHECKING:
    from outfitter.server.auth import Check

TOKEN = "a capability of all"


# The header


class Local:
    """A caller as the kernel would describe it."""

    address = "127.0.0.1:5000"

    def __init__(
        self, uid: int | None, certificate: Admitted | None = None, number: int | None = None
    ) -> None:
        self._uid = uid
        self.certificate = certificate
        self._number = number

    def socket_number(self) -> int | None:
        return self._number

    def uid(self) -> int | None:
        return self._uid


def decided(
    value: str | None,
    check: Check | None,
    uid: int | None = 1000,
    users: frozenset[int] | None = frozenset((1000,)),
) -> Response | Admitted:
    headers = {"host": "localhost"} if value is None else {"host": "localhost", "authorization": value}
    return gate(frozenset(), check, users)(headers, Local(uid))


HEADERS = [
    (None, "missing websocket bearer token"),
    ("", "invalid authorization header"),
    ("Bearer", "invalid authorization header"),
    ("Bearer ", "invalid authorization header"),
    ("Bearer    ", "invalid authorization header"),
    (f"Basic {TOKEN}", "invalid authorization header"),
    (f"Bearer:{TOKEN}", "invalid authorization header"),
    ("Bearer wrong", "invalid websocket bearer token"),
    (f"Bearer {TOKEN} ", None),
    (f"bearer {TOKEN}", None),
    (f"BEARER   {TOKEN}", None),
]


@pytest.mark.parametrize(("value", "text"), HEADERS, ids=[repr(value) for value, _ in HEADERS])
def test_authorization_header_is_judged_in_the_references_words(
    value: str | None, text: str | None, tmp_path: Path
) -> None:
    check = Tokens([private(tmp_path / "token", TOKEN)], [])
    assert decided(value, check) == (holder(TOKEN) if text is None else Response(401, text, cause="token"))


def test_without_a_check_the_user_at_the_other_end_is_who_asks() -> None:
    assert decided(None, None) == Admitted("uid:1000")
    assert decided("Basic whatever", None) == Admitted("uid:1000")
    assert decided(None, None, uid=7, users=frozenset((1000, 7))) == Admitted("uid:7")


def test_a_certificate_counts_before_the_user_and_after_the_token(tmp_path: Path) -> None:
    alice = Admitted("cn:alice", 17.0)
    headers = {"host": "localhost"}
    for users in (None, frozenset((1000,))):
        assert gate(frozenset(), None, users)(headers, Local(7, alice)) == alice
    check = Tokens([private(tmp_path / "token", TOKEN)], [])
    decide = gate(frozenset(), check, None)
    assert decide(headers, Local(7, alice)) == Response(401, "missing websocket bearer token", cause="token")
    found = decide({**headers, "authorization": f"Bearer {TOKEN}"}, Local(7, alice))
    assert found == replace(holder(TOKEN), expires=17.0)


class Always:
    """A check that admits everybody as the same."""

    def __init__(self, admitted: Admitted) -> None:
        self._admitted = admitted

    def __call__(self, token: str) -> Admitted:
        return self._admitted

    def reload(self) -> None:
        pass

    def admits(self, principal: str) -> bool:
        return principal == self._admitted.principal


@pytest.mark.parametrize(
    ("token", "certificate", "end"), [(None, 9.0, 9.0), (5.0, 9.0, 5.0), (9.0, 5.0, 5.0)]
)
def test_with_both_the_connection_ends_with_the_first(
    token: float | None, certificate: float, end: float
) -> None:
    decide = gate(frozenset(), Always(Admitted("jwt:a|b", token)), None)
    headers = {"host": "localhost", "authorization": "Bearer x"}
    assert decide(headers, Local(7, Admitted("cn:alice", certificate))) == Admitted("jwt:a|b", end)


def test_nobody_else_is_served_without_a_token() -> None:
    for uid in (0, 7, 65534):  # root neither: what is not asked for is not given
        refusal = decided(None, None, uid=uid)
        assert isinstance(refusal, Response)
        assert refusal.status == 403
        assert f"you are uid {uid}: its owner can add --allow-user {uid}" in refusal.body
        assert len(refusal.body) <= 200


def test_a_user_who_cannot_be_determined_needs_a_token() -> None:
    refusal = decided(None, None, uid=None)
    assert isinstance(refusal, Response)
    assert refusal.status == 403
    assert "the kernel does not say which user is connecting" in refusal.body
    assert "--ws-auth capability-token --ws-token-file FILE" in refusal.body
    assert len(refusal.body) <= 200


def test_everybody_may_enter_where_that_is_wanted() -> None:
    assert decided(None, None, uid=7, users=None) == Admitted("uid:7")
    assert decided(None, None, uid=None, users=None) == Admitted("anonymous")


def test_a_token_counts_whoever_brings_it() -> None:
    check = Tokens([], [hashlib.sha256(TOKEN.encode()).hexdigest()])
    assert [decided(f"Bearer {TOKEN}", check, uid=uid) for uid in (None, 7)] == [holder(TOKEN)] * 2
    assert decided(None, check) == Response(401, "missing websocket bearer token", cause="token")


def test_who_names_no_host_is_judged_by_the_rest() -> None:
    served = gate(frozenset(), None, frozenset((1000,)))
    assert served({}, Local(1000)) == Admitted("uid:1000")
    assert isinstance(served({}, Local(1001)), Response)


INSIDE, OUTSIDE = 11, 22  # numbers of sockets


@pytest.mark.parametrize(
    ("caller", "confines", "refused"),
    [
        (Local(1000, None, INSIDE), False, None),
        (Local(1000, None, INSIDE), True, "sandbox"),
        (Local(1000, None, 0), True, "sandbox"),  # nobody is seen to hold it
        (Local(1000, None, OUTSIDE), True, None),
        (Local(1000, None, None), True, None),  # another machine's, or a unix socket
        (Local(1000, Admitted("cn:a"), INSIDE), True, None),
        (Local(1001, None, INSIDE), True, "user"),
        (Local(1001, None, OUTSIDE), True, "user"),
    ],
)
def test_a_command_in_a_sandbox_is_no_client_without_a_token(
    monkeypatch: pytest.MonkeyPatch, caller: Local, confines: bool, refused: str | None
) -> None:
    monkeypatch.setattr("outfitter.host.sandbox.callers.is_outside", lambda number: number == OUTSIDE)
    served = without_the_confined(gate(frozenset(), None, frozenset((1000,))), lambda: confines)
    said = served({"host": "localhost"}, caller)
    if refused is None:
        assert isinstance(said, Admitted)
    else:
        assert isinstance(said, Response) and (said.status, said.cause) == (403, refused)


def test_users_are_named_or_numbered() -> None:
    assert users_of((), 1000) == {1000}
    assert users_of(("root", "4294967294"), 1000) == {1000, 0, 4294967294}
    for name in ("no-such-user", "4294967295", "9" * 5000, "\u0663", "", "-1", "a\0b"):
        with pytest.raises(SettingInvalid, match="this machine has no such user"):
            users_of((name,), 1000)


# Host (row 32)


HOSTS = {
    "localhost": True,
    "LocalHost:8080": True,
    "127.0.0.1:8080": True,
    "10.0.0.7": True,
    "[::1]:8080": True,
    "build.example:8080": True,
    "BUILD.example": True,
    "evil.example": False,
    "localhost.evil.example": False,
    "127.0.0.1.evil.example": False,
    "127.0.0.256": False,
    "127.0.0": False,
    "127.0.0." + "1" * 5000: False,
    "9" * 5000: False,
    "1.2.3.\xb2": False,
    "": False,
}


@pytest.mark.parametrize(("host", "known"), HOSTS.items(), ids=[ascii(host)[:30] for host in HOSTS])
def test_only_addresses_and_names_we_were_told_are_served(host: str, known: bool) -> None:
    answer = gate(frozenset(("build.example",)), None, None)({"host": host}, Local(1000))
    assert isinstance(answer, Admitted) if known else isinstance(answer, Response) and answer.status == 403


# A real server (X9)


def refused(url_port: Raw, headers: dict[str, str]) -> tuple[bytes, bytes]:
    head = url_port.request(headers={**UPGRADE, **headers})
    return head.partition(b"\r\n")[0], url_port.body()


def test_server_demands_its_capability_token(tmp_path: Path) -> None:
    flags = ("--ws-auth", "capability-token", "--ws-token-file", private(tmp_path / "token", TOKEN))
    with serving("outfitter", tmp_path, *flags) as server:
        unauthorized = b"HTTP/1.1 401 Unauthorized"
        with Raw(server) as raw:
            assert refused(raw, {}) == (unauthorized, b"missing websocket bearer token")
        with Raw(server) as raw:
            wrong = {"Authorization": "Bearer nope"}
            assert refused(raw, wrong) == (unauthorized, b"invalid websocket bearer token")
        with Raw(server) as raw:  # neither a query nor a subprotocol is a credential
            head = raw.request(f"GET /?token={TOKEN.replace(' ', '%20')} HTTP/1.1")
            assert head.startswith(unauthorized)
            assert b"www-authenticate" not in head.lower()
            assert b"content-type: text/plain; charset=utf-8" in head
        with Raw(server) as raw:  # a browser is refused whatever it knows
            good = {"Authorization": f"Bearer {TOKEN}", "Origin": "http://localhost"}
            assert refused(raw, good) == (b"HTTP/1.1 403 Forbidden", b"")
        with Raw(server) as raw:
            assert raw.request("GET /readyz HTTP/1.1", {"Host": "localhost"}).startswith(b"HTTP/1.1 200 ")
        with Raw(server) as raw:
            assert raw.request("GET /other HTTP/1.1", {"Host": "localhost"}).startswith(b"HTTP/1.1 404 ")
        with Raw(server) as raw:  # 400 comes before the token is looked at
            assert raw.request("GET / HTTP/1.1", {"Host": "localhost"}).startswith(b"HTTP/1.1 400 ")
        with Wire(server.url, headers={"Authorization": f"Bearer {TOKEN}"}) as wire:
            wire.handshake()
            assert wire.call("environment/status") == {"status": "ready"}
        said = (tmp_path / "outfitter.stderr").read_text()
        assert re.findall(r"^! refused 127\.0\.0\.1:\d+: (.+)$", said, re.MULTILINE) == [
            "401 missing websocket bearer token",
            "401 invalid websocket bearer token",
            "401 missing websocket bearer token",
            "403 the request has an Origin header, as browsers send it",
        ]
        assert TOKEN not in said


def test_server_demands_a_signed_token(tmp_path: Path) -> None:
    flags = (
        "--ws-auth",
        "signed-bearer-token",
        "--ws-shared-secret-file",
        private(tmp_path / "secret", SECRET),
    )
    claims = ("--ws-issuer", "us", "--ws-audience", "here")
    good = {"exp": int(time.time()) + 600, "iss": "us", "aud": ["here"]}
    with serving("outfitter", tmp_path, *flags, *claims) as server:
        with Raw(server) as raw:
            bad = jwt({**good, "iss": "them"})
            status, text = refused(raw, {"Authorization": f"Bearer {bad}"})
            assert (status, text) == (b"HTTP/1.1 401 Unauthorized", b"websocket jwt issuer mismatch")
        with Wire(server.url, headers={"Authorization": f"Bearer {jwt(good)}"}) as wire:
            wire.handshake()
            assert wire.call("environment/status") == {"status": "ready"}


def test_tokens_are_read_again_on_sighup_and_nothing_ends_but_what_was_taken_out(tmp_path: Path) -> None:
    ann, bob, new = "a token that is Ann's", "a token that is Bob's", "a token that is new"
    file = tmp_path / "tokens"
    flags = ("--ws-auth", "capability-token", "--ws-token-file", private(file, f"{ann}\n{bob}\n"))
    with serving("outfitter", tmp_path, *flags, "--log-level", "debug") as server:

        def connection(token: str) -> Wire:
            return Wire(server.url, headers={"Authorization": f"Bearer {token}"})

        with connection(ann) as kept, connection(bob) as ended:
            kept.handshake()
            ended.handshake()
            file.write_text("short\n")  # a mistake changes nothing
            os.kill(server.pid, signal.SIGHUP)
            wait_until(lambda: "stays in use" in (tmp_path / "outfitter.stderr").read_text(), "it is said")
            assert ended.call("environment/status") == {"status": "ready"}
            file.write_text(f"{ann}\n{new}\n")
            os.kill(server.pid, signal.SIGHUP)
            with pytest.raises(ConnectionClosed) as closed:
                ended.receive()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
                1008,
                "the token of this connection is not accepted any more",
            )
            with connection(new) as third:
                third.handshake()
            assert kept.call("environment/status") == {"status": "ready"}
            with Raw(server) as raw:
                assert refused(raw, {"Authorization": f"Bearer {bob}"})[0] == b"HTTP/1.1 401 Unauthorized"
        said = (tmp_path / "outfitter.stderr").read_text()
        assert "line 1: a token of 5 bytes can be guessed" in said
        assert not any(token in said for token in (ann, bob, new, "short"))


def test_pipe_in_the_place_of_a_token_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    flags = ("--ws-auth", "capability-token", "--ws-token-file", private(file, f"{TOKEN}\n"))
    with serving("outfitter", tmp_path, *flags) as server:
        file.unlink()
        os.mkfifo(file, 0o600)
        os.kill(server.pid, signal.SIGHUP)  # nobody writes to it
        wait_until(lambda: "stays in use" in (tmp_path / "outfitter.stderr").read_text(), "it is said")
        with Wire(server.url, headers={"Authorization": f"Bearer {TOKEN}"}) as wire:
            wire.handshake()


def test_connection_ends_with_its_signed_token(tmp_path: Path) -> None:
    secret = private(tmp_path / "secret", SECRET)
    flags = ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", secret)
    with serving("outfitter", tmp_path, *flags, "--ws-max-clock-skew-seconds", "0") as server:
        token = jwt({"exp": int(time.time()) + 2})
        with Wire(server.url, headers={"Authorization": f"Bearer {token}"}) as wire:
            wire.handshake()
            with pytest.raises(ConnectionClosed) as closed:
                wire.receive()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
            assert "has expired; connect again with a new one" in closed.value.rcvd.reason
        with Raw(server) as raw:
            answer = refused(raw, {"Authorization": f"Bearer {token}"})
            assert answer == (b"HTTP/1.1 401 Unauthorized", b"expired websocket jwt")


MISTAKES = [
    (("--ws-token-file", "FILE"), "--ws-token-file needs --ws-auth"),
    (("--ws-issuer", "us"), "--ws-issuer needs --ws-auth"),
    (("--ws-token-sha256", "0" * 64), "--ws-token-sha256 needs --ws-auth"),
    (("--ws-jwks-file", "FILE"), "--ws-jwks-file needs --ws-auth"),
    (("--ws-auth", "capability-token"), "needs --ws-token-file FILE or --ws-token-sha256 HEX"),
    (("--ws-auth", "signed-bearer-token"), "needs --ws-shared-secret-file or --ws-jwks-file"),
    (("--allow-user", "no-such-user"), "--allow-user no-such-user: this machine has no such user"),
    (("--allow-user", "0", "--allow-unauthenticated"), "--allow-user cannot be used with --allow-unauth"),
    (
        ("--allow-user", "0", "--ws-auth", "capability-token", "--ws-token-file", "FILE"),
        "--allow-user cannot be used with --ws-auth",
    ),
    (
        ("--ws-auth", "capability-token", "--ws-token-file", "FILE", "--ws-issuer", "us"),
        "--ws-issuer cannot be used with --ws-auth capability-token",
    ),
    (
        ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "FILE", "--ws-token-file", "FILE"),
        "--ws-token-file cannot be used with --ws-auth signed-bearer-token",
    ),
    (
        ("--listen", "stdio", "--ws-auth", "capability-token", "--ws-token-file", "FILE"),
        "--ws-auth needs --listen ws://IP:PORT: a client on stdio sends no token",
    ),
]


@pytest.mark.parametrize(("flags", "text"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_wrong_combination_of_flags_ends_before_listening(
    flags: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    file = private(tmp_path / "file", SECRET)
    args = [file if flag == "FILE" else flag for flag in flags]
    done = subprocess.run(
        command("outfitter", *args),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(tmp_path),
        timeout=20 * SECOND,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith("outfitter: ")
    assert text in done.stderr.decode()


def test_a_second_token_leaves_room_for_who_has_it_from_sighup_on(tmp_path: Path) -> None:
    ann, bob = "a token that is Ann's", "a token that is Bob's"
    file = tmp_path / "tokens"
    flags = ("--ws-auth", "capability-token", "--ws-token-file", private(file, f"{ann}\n"))
    with serving("outfitter", tmp_path, *flags, "--max-sessions", "4", "--log-level", "debug") as server:
        headers = {"Authorization": f"Bearer {ann}"}
        first, second, third = (Wire(server.url, headers=headers) for _ in range(3))
        with first, second, third:
            first.handshake()
            second.handshake()
            file.write_text(f"{ann}\n{bob}\n")
            os.kill(server.pid, signal.SIGHUP)
            log = tmp_path / "outfitter.stderr"
            wait_until(lambda: "SIGHUP: read again" in log.read_text(), "the tokens are read again")
            assert third.error("initialize", {"clientName": "test"})["data"]["error"] == "quota-reached"
