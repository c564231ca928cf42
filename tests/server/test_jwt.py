"""Signed tokens: every refusal, in the reference's words where it has them, and keys of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import SettingInvalid
from outfitter.protocol.upgrade import Admitted
from outfitter.server.jwt import SignedTokens, judge
from tests.server.test_tokens import private
from tests.support.jwts import SECRET, jwt

NOW = 1_700_000_000
INVALID = "invalid websocket jwt"
Claims = dict[str, Any]  # what JSON holds


@pytest.fixture
def check(tmp_path: Path) -> SignedTokens:
    return SignedTokens(private(tmp_path / "secret", SECRET + b"\n"), None, now=lambda: NOW)


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
    "EdDSA without keys": (jwt(GOOD, header={"alg": "EdDSA"}), INVALID),
    "crit": (jwt(GOOD, header={"alg": "HS256", "crit": ["exp"]}), INVALID),
    "crit that is empty": (jwt(GOOD, header={"alg": "HS256", "crit": []}), INVALID),
    "header is no object": (jwt(GOOD, header=["HS256"]), INVALID),
    "claims are no object": (jwt([1]), INVALID),
    "padding": (jwt(GOOD) + "=", INVALID),
    "plain base64 alphabet": (jwt(GOOD)[:-1] + "+", INVALID),
    "outside ASCII": (jwt(GOOD)[:-1] + "\xe9", INVALID),
    "no claims": (jwt({}), INVALID),
    "exp is text": (jwt({"exp": str(NOW + 60)}), INVALID),
    "exp is a fraction": (jwt({"exp": NOW + 0.5}), INVALID),
    "exp is a boolean": (jwt({"exp": True}), INVALID),
    "nbf is text": (jwt({**GOOD, "nbf": "now"}), INVALID),
    "iat is text": (jwt({**GOOD, "iat": "whenever"}), INVALID),
    "sub is a number": (jwt({**GOOD, "sub": 7}), INVALID),
    "iss is null": (jwt({**GOOD, "iss": None}), INVALID),
    "expired": (jwt({"exp": NOW - 31}), "expired websocket jwt"),
    "not yet valid": (jwt({**GOOD, "nbf": NOW + 31}), "websocket jwt is not valid yet"),
    "good": (jwt(GOOD), None),
    "typ and kid are ignored": (jwt(GOOD, header={"alg": "HS256", "typ": "x", "kid": "y"}), None),
}


@pytest.mark.parametrize(("token", "text"), TOKENS.values(), ids=TOKENS.keys())
def test_signed_token_is_judged_in_the_references_words(
    token: str, text: str | None, check: SignedTokens
) -> None:
    assert check(token) == (Admitted("jwt:-|-", NOW + 90) if text is None else text)


# Claims

DAY = 86_400
LONG = (
    "websocket jwt is valid for more than 86400 s: take one that expires earlier, or start the server with a "
    "longer --ws-max-age"
)
CLAIMS: list[tuple[Claims, str | None, str | None, str | None]] = [
    ({"exp": NOW - 30}, None, None, None),  # the clock skew of 30 s, to the second
    ({"exp": NOW - 31}, None, None, "expired websocket jwt"),
    ({"exp": NOW, "nbf": NOW + 30}, None, None, None),
    ({"exp": NOW, "nbf": NOW + 31}, None, None, "websocket jwt is not valid yet"),
    ({"exp": NOW + 60, "iat": NOW + 30}, None, None, None),
    ({"exp": NOW + 60, "iat": NOW + 31}, None, None, "websocket jwt is not valid yet"),
    ({"exp": NOW + 5, "iat": NOW + 5 - DAY}, None, None, None),
    ({"exp": NOW + 5, "iat": NOW + 4 - DAY}, None, None, LONG),
    ({"exp": NOW + 30 + DAY}, None, None, None),  # without a time of issue it may be from now
    ({"exp": NOW + 31 + DAY}, None, None, LONG),
    ({"exp": NOW + 30 + DAY, "iat": NOW}, None, None, LONG),
    ({"exp": 2**70}, None, None, LONG),
    ({"exp": 10**400}, None, None, LONG),
    ({"exp": 10**400, "iat": 10**400}, None, None, "websocket jwt is not valid yet"),
    ({"exp": NOW, "iat": -(10**400)}, None, None, LONG),
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
    assert judge(claims, float(NOW), skew, issuer, audience, max_age=type(skew)(DAY)) == text


def test_each_pair_of_issuer_and_subject_is_another_principal(check: SignedTokens) -> None:
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
    assert keys[:3] == ["jwt:-|-", "jwt:-|", "jwt:-|%2D"]


def test_who_signs_may_name_anybody(check: SignedTokens) -> None:
    assert check.several
    longest = "x" * (256 - len("jwt:-|"))
    said = [check(jwt({"sub": name, **GOOD})) for name in (longest, f"{longest}x")]
    principals = [one.principal for one in said if isinstance(one, Admitted)]
    assert [principals[0], principals[1][:4]] == [f"jwt:-|{longest}", "jwt#"]


def test_a_token_is_good_for_a_day_unless_an_operator_says_more(check: SignedTokens, tmp_path: Path) -> None:
    day, longer = (jwt({"iat": NOW, "exp": NOW + seconds}) for seconds in (DAY, DAY + 1))
    assert (check(day), check(longer)) == (Admitted("jwt:-|-", NOW + DAY + 30), LONG)
    file = private(tmp_path / "another", SECRET)
    patient = SignedTokens(file, None, max_age=float("inf"), now=lambda: NOW)
    assert patient(jwt({"exp": 1 << 80})) == Admitted("jwt:-|-", (1 << 53) + 30)


# The secret


def test_mistakes_with_the_shared_secret_are_named(tmp_path: Path) -> None:
    short, missing = private(tmp_path / "short", "x" * 31 + "\n"), str(tmp_path / "missing")
    shown = private(tmp_path / "shown", SECRET, 0o644)
    mistakes: list[tuple[str | None, str]] = [
        (None, "--ws-auth signed-bearer-token needs --ws-shared-secret-file or --ws-jwks-file"),
        (short, f"--ws-shared-secret-file {short} has 31 bytes: a secret needs at least 32"),
        (missing, f"--ws-shared-secret-file {missing} cannot be read: No such file or directory"),
        (
            shown,
            f"--ws-shared-secret-file {shown}: other users can read it (mode 0644); run `chmod 600 {shown}`, "
            f"and write such files after `umask 077`",
        ),
    ]
    for file, text in mistakes:
        with pytest.raises(SettingInvalid) as raised:
            SignedTokens(file, None, now=lambda: NOW)
        assert str(raised.value) == text


def test_secret_is_read_again_and_kept_when_the_new_one_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    check = SignedTokens(private(path, SECRET), None, now=lambda: NOW)
    other = b"f" * 32
    private(path, "short")
    with pytest.raises(SettingInvalid):
        check.reload()
    assert isinstance(check(jwt(GOOD)), Admitted)
    private(path, other)
    check.reload()
    assert check(jwt(GOOD)) == INVALID
    assert isinstance(check(jwt(GOOD, secret=other)), Admitted)
    assert check.admits("jwt:-|-")  # it ends with its token
