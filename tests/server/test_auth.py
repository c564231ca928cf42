"""Who may connect: every refusal of the token checks, word for word, and every mistake in their flags."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outfitter.errors import SettingInvalid
from outfitter.protocol.upgrade import Admitted, Response
from outfitter.server.auth import capability_token, gate, judge, signed_bearer_token, users_of
from tests.support.machine import SECOND
from tests.support.raw import UPGRADE, Raw
from tests.support.servers import command, environment, serving
from tests.support.wire import Wire

if TYPE_CHECKING:
    from outfitter.server.auth import Check

NOW = 1_700_000_000
TOKEN = "a capability"
SECRET = b"0123456789abcdef0123456789abcdef"
Claims = dict[str, Any]  # what JSON holds


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt(claims: Any, *, secret: bytes = SECRET, header: Any = None, digest: str = "sha256") -> str:
    """A token as any library would make it."""
    given = {"alg": "HS256", "typ": "JWT"} if header is None else header
    text = ".".join(base64url(json.dumps(part).encode()) for part in (given, claims))
    return f"{text}.{base64url(hmac.digest(secret, text.encode(), digest))}"


# The header


class Local:
    """A caller as the kernel would describe it."""

    address = "127.0.0.1:5000"

    def __init__(self, uid: int | None, certificate: Admitted | None = None) -> None:
        self._uid = uid
        self.certificate = certificate

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
    ("Basic a-capability", "invalid authorization header"),
    ("Bearer:a-capability", "invalid authorization header"),
    ("Bearer wrong", "invalid websocket bearer token"),
    ("Bearer a-capability ", None),
    ("bearer a-capability", None),
    ("BEARER   a-capability", None),
]


@pytest.mark.parametrize(("value", "text"), HEADERS, ids=[repr(value) for value, _ in HEADERS])
def test_authorization_header_is_judged_in_the_references_words(
    value: str | None, text: str | None, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("  a-capability\n")
    check = capability_token(str(tmp_path / "token"), None)
    holder = Admitted("token:" + hashlib.sha256(b"a-capability").hexdigest()[:16])
    assert decided(value, check) == (holder if text is None else Response(401, text))


def test_without_a_check_the_user_at_the_other_end_is_who_asks() -> None:
    assert decided(None, None) == Admitted("uid:1000")
    assert decided("Basic whatever", None) == Admitted("uid:1000")
    assert decided(None, None, uid=7, users=frozenset((1000, 7))) == Admitted("uid:7")


def test_a_certificate_counts_before_the_user_and_after_the_token(tmp_path: Path) -> None:
    alice = Admitted("cn:alice", 17.0)
    headers = {"host": "localhost"}
    for users in (None, frozenset((1000,))):
        assert gate(frozenset(), None, users)(headers, Local(7, alice)) == alice
    (tmp_path / "token").write_text("a-capability")
    check = capability_token(str(tmp_path / "token"), None)
    decide = gate(frozenset(), check, None)
    assert decide(headers, Local(7, alice)) == Response(401, "missing websocket bearer token")
    holder = decide({**headers, "authorization": "Bearer a-capability"}, Local(7, alice))
    assert holder == Admitted("token:" + hashlib.sha256(b"a-capability").hexdigest()[:16], 17.0)


@pytest.mark.parametrize(
    ("token", "certificate", "end"), [(None, 9.0, 9.0), (5.0, 9.0, 5.0), (9.0, 5.0, 5.0)]
)
def test_with_both_the_connection_ends_with_the_first(
    token: float | None, certificate: float, end: float
) -> None:
    decide = gate(frozenset(), lambda _: Admitted("jwt:a|b", token), None)
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
    check = capability_token(None, hashlib.sha256(TOKEN.encode()).hexdigest())
    holder = Admitted("token:" + hashlib.sha256(TOKEN.encode()).hexdigest()[:16])
    assert decided(f"Bearer {TOKEN}", check, uid=None) == decided(f"Bearer {TOKEN}", check, uid=7) == holder
    assert decided(None, check) == Response(401, "missing websocket bearer token")


def test_users_are_named_or_numbered() -> None:
    assert users_of((), 1000) == {1000}
    assert users_of(("root", "4294967294"), 1000) == {1000, 0, 4294967294}
    for name in ("no-such-user", "4294967295", "9" * 5000, "\u0663", "", "-1", "a\0b"):
        with pytest.raises(SettingInvalid, match="this machine has no such user"):
            users_of((name,), 1000)


# capability-token


def test_token_may_be_given_as_its_digest() -> None:
    check = capability_token(None, f" {hashlib.sha256(TOKEN.encode()).hexdigest().upper()} ")
    holder = Admitted("token:" + hashlib.sha256(TOKEN.encode()).hexdigest()[:16])
    assert (check(TOKEN), check("other")) == (holder, "invalid websocket bearer token")


def test_token_outside_ascii_is_only_wrong() -> None:
    check = capability_token(None, hashlib.sha256(TOKEN.encode()).hexdigest())
    assert check("\xff\u20ac") == "invalid websocket bearer token"


def test_mistakes_with_capability_tokens_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    empty, missing = str(tmp_path / "empty"), str(tmp_path / "missing")
    one_of = "--ws-auth capability-token needs exactly one of --ws-token-file and --ws-token-sha256"
    mistakes: list[tuple[str | None, str | None, str]] = [
        (None, None, one_of),
        (empty, "0" * 64, one_of),
        (empty, None, f"--ws-token-file {empty} is empty: put the token into it"),
        (missing, None, f"--ws-token-file {missing} cannot be read: No such file or directory"),
        (None, "0" * 63, "--ws-token-sha256 must be 64 hexadecimal digits"),
        (None, "0" * 66, "--ws-token-sha256 must be 64 hexadecimal digits"),
        (None, "x" * 64, "--ws-token-sha256 must be 64 hexadecimal digits"),
    ]
    for file, digest, text in mistakes:
        with pytest.raises(SettingInvalid) as raised:
            capability_token(file, digest)
        assert str(raised.value) == text


# signed-bearer-token


@pytest.fixture
def check(tmp_path: Path) -> Check:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    return signed_bearer_token(str(tmp_path / "secret"), None, None, 30, lambda: NOW)


INVALID = "invalid websocket jwt"
GOOD: Claims = {"exp": NOW + 60}
TOKENS = {
    "no token at all": ("x", INVALID),
    "two parts": ("a.b", INVALID),
    "four parts": (jwt(GOOD) + ".x", INVALID),
    "other secret": (jwt(GOOD, secret=b"f" * 32), INVALID),
    "HS384": (jwt(GOOD, header={"alg": "HS384"}, digest="sha384"), INVALID),
    "HS512": (jwt(GOOD, header={"alg": "HS512"}, digest="sha512"), INVALID),
    "HS256 by name, HS512 by signature": (jwt(GOOD, digest="sha512"), INVALID),
    "none": (jwt(GOOD, header={"alg": "none"}).rpartition(".")[0] + ".", INVALID),
    "no alg": (jwt(GOOD, header={"typ": "JWT"}), INVALID),
    "header is no object": (jwt(GOOD, header=["HS256"]), INVALID),
    "claims are no object": (jwt([1]), INVALID),
    "padding": (jwt(GOOD) + "=", INVALID),
    "plain base64 alphabet": (jwt(GOOD)[:-1] + "+", INVALID),
    "outside ASCII": (jwt(GOOD)[:-1] + "\xe9", INVALID),
    "no claims": (jwt({}), INVALID),
    "exp is text": (jwt({"exp": str(NOW + 60)}), INVALID),
    "exp is a fraction": (jwt({"exp": NOW + 0.5}), INVALID),
    "exp is a boolean": (jwt({"exp": True}), INVALID),
    "sub is a number": (jwt({**GOOD, "sub": 7}), INVALID),
    "iss is null": (jwt({**GOOD, "iss": None}), INVALID),
    "nbf is text": (jwt({**GOOD, "nbf": "now"}), INVALID),
    "expired": (jwt({"exp": NOW - 31}), "expired websocket jwt"),
    "not yet valid": (jwt({**GOOD, "nbf": NOW + 31}), "websocket jwt is not valid yet"),
    "good": (jwt(GOOD), None),
    "typ and kid are ignored": (jwt(GOOD, header={"alg": "HS256", "typ": "x", "kid": "y"}), None),
    "iat is ignored": (jwt({**GOOD, "iat": "whenever"}), None),
}


@pytest.mark.parametrize(("token", "text"), TOKENS.values(), ids=TOKENS.keys())
def test_signed_token_is_judged_in_the_references_words(token: str, text: str | None, check: Check) -> None:
    assert check(token) == (Admitted("jwt:-|-", NOW + 90) if text is None else text)


def test_each_pair_of_issuer_and_subject_is_another_principal(check: Check) -> None:
    names = [None, "", "-", "a", "a|b", "b", "|", "%7C", "%2D", "a\n", "\u20ac", "x" * 300, "x" * 301]
    keys = []
    for issuer in names:
        for subject in names:
            claims = {"iss": issuer, "sub": subject, **GOOD}
            admitted = check(jwt({name: value for name, value in claims.items() if value is not None}))
            assert isinstance(admitted, Admitted)
            keys.append(admitted.principal)
    assert len(set(keys)) == len(names) ** 2
    assert all(key.isprintable() and len(key) <= 256 for key in keys)
    assert keys[names.index("a|b") * len(names) + names.index("a\n")] == "jwt:a%7Cb|a%0A"


def test_a_time_that_no_clock_shows_is_no_end(check: Check) -> None:
    assert check(jwt({"exp": 10**400})) == Admitted("jwt:-|-")


CLAIMS: list[tuple[Claims, str | None, str | None, str | None]] = [
    ({"exp": NOW - 30}, None, None, None),  # the clock skew of 30 s, to the second
    ({"exp": NOW - 31}, None, None, "expired websocket jwt"),
    ({"exp": NOW, "nbf": NOW + 30}, None, None, None),
    ({"exp": NOW, "nbf": NOW + 31}, None, None, "websocket jwt is not valid yet"),
    ({"exp": 2**70}, None, None, None),  # no upper bound
    ({"exp": 10**400}, None, None, None),
    ({"exp": NOW, "iss": "us"}, "us", None, None),
    ({"exp": NOW, "iss": "them"}, "us", None, "websocket jwt issuer mismatch"),
    ({"exp": NOW}, "us", None, "websocket jwt issuer mismatch"),
    ({"exp": NOW, "aud": "here"}, None, "here", None),
    ({"exp": NOW, "aud": ["there", "here"]}, None, "here", None),
    ({"exp": NOW, "aud": ["there"]}, None, "here", "websocket jwt audience mismatch"),
    ({"exp": NOW, "aud": "here and there"}, None, "here", "websocket jwt audience mismatch"),
    ({"exp": NOW}, None, "here", "websocket jwt audience mismatch"),
    ({"exp": NOW, "iss": "them", "aud": "there"}, None, None, None),  # nobody asks
]


@pytest.mark.parametrize("skew", [30, 30.0], ids=["whole seconds", "a fraction"])
@pytest.mark.parametrize(("claims", "issuer", "audience", "text"), CLAIMS, ids=range(len(CLAIMS)))
def test_claims_are_judged_by_time_issuer_and_audience(
    claims: Claims, issuer: str | None, audience: str | None, text: str | None, skew: float
) -> None:
    assert judge(claims, float(NOW), skew, issuer, audience) == text


def test_mistakes_with_the_shared_secret_are_named(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("x" * 31 + "\n")
    short, missing = str(tmp_path / "short"), str(tmp_path / "missing")
    mistakes: list[tuple[str | None, str]] = [
        (None, "--ws-auth signed-bearer-token needs --ws-shared-secret-file"),
        (short, f"--ws-shared-secret-file {short} has 31 bytes: a secret needs at least 32"),
        (missing, f"--ws-shared-secret-file {missing} cannot be read: No such file or directory"),
    ]
    for file, text in mistakes:
        with pytest.raises(SettingInvalid) as raised:
            signed_bearer_token(file, None, None, 30, lambda: NOW)
        assert str(raised.value) == text


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
    (tmp_path / "token").write_text(TOKEN)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(tmp_path / "token"))
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
        assert TOKEN not in (tmp_path / "outfitter.stderr").read_text()


def test_server_demands_a_signed_token(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    flags = ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", str(tmp_path / "secret"))
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


MISTAKES = [
    (("--ws-token-file", "FILE"), "--ws-token-file needs --ws-auth"),
    (("--ws-issuer", "us"), "--ws-issuer needs --ws-auth"),
    (("--ws-auth", "capability-token"), "needs exactly one of --ws-token-file and --ws-token-sha256"),
    (("--ws-auth", "signed-bearer-token"), "needs --ws-shared-secret-file"),
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
    (tmp_path / "file").write_bytes(SECRET)
    args = [str(tmp_path / "file") if flag == "FILE" else flag for flag in flags]
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
