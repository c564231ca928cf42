"""Public keys in a JWKS file: each verifies its own tokens and no others, and wrong ones are named."""

from __future__ import annotations

import base64
import hmac
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import SettingInvalid
from outfitter.protocol.upgrade import Admitted
from outfitter.server.jwt import SignedTokens
from tests.server.test_tokens import private
from tests.support.jwts import SECRET, base64url, jwt, unsigned

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NOW = 1_700_000_000
INVALID = "invalid websocket jwt"
GOOD: dict[str, Any] = {"exp": NOW + 60}
ED, ED_OTHER = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
Jwk = dict[str, Any]


def number(value: int, size: int | None = None) -> str:
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def ed_key(key: ed25519.Ed25519PrivateKey, **more: Any) -> Jwk:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": base64url(raw), **more}


def rsa_key(**more: Any) -> Jwk:
    numbers = RSA.public_key().public_numbers()
    return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e), **more}


def ec_key(**more: Any) -> Jwk:
    numbers = EC.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": number(numbers.x, 32), "y": number(numbers.y, 32), **more}


def signed(algorithm: str, key: str | None, claims: Jwk = GOOD, **header: Any) -> str:
    """A token signed by the key that has this algorithm here."""
    given = {"alg": algorithm, **({} if key is None else {"kid": key}), **header}
    text = unsigned(claims, given)
    data = text.encode()
    if algorithm == "EdDSA":
        signature = ED.sign(data)
    elif algorithm == "RS256":
        signature = RSA.sign(data, padding.PKCS1v15(), SHA256())
    else:
        r, s = decode_dss_signature(EC.sign(data, ec.ECDSA(SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return f"{text}.{base64url(signature)}"


def keys_file(folder: Path, *keys: Jwk, mode: int = 0o644) -> str:
    return private(folder / "jwks.json", json.dumps({"keys": keys}), mode)


@pytest.fixture
def keyed(tmp_path: Path) -> SignedTokens:
    """With one key of each kind, and no secret."""
    keys = ed_key(ED, kid="ed", use="sig", alg="EdDSA"), rsa_key(kid="rsa"), ec_key(kid="ec")
    return SignedTokens(None, keys_file(tmp_path, *keys), now=lambda: NOW)


@pytest.mark.parametrize(("algorithm", "kid"), [("EdDSA", "ed"), ("RS256", "rsa"), ("ES256", "ec")])
def test_each_kind_of_key_verifies_its_own_tokens(algorithm: str, kid: str, keyed: SignedTokens) -> None:
    claims = {**GOOD, "iss": "us", "sub": "ann"}
    token = signed(algorithm, kid, claims)
    assert keyed(token) == Admitted("jwt:us|ann", NOW + 90)
    head, body, signature = token.split(".")
    other = unsigned({**claims, "sub": "bob"}, {}).split(".")[1]
    damaged = signature[:20] + ("A" if signature[20] != "A" else "B") + signature[21:]
    for wrong in (
        f"{head}.{other}.{signature}",
        f"{head}.{body}.{damaged}",
        f"{head}.{body}.",
        f"{head}.{body}.AA",
    ):
        assert keyed(wrong) == INVALID
    assert keyed(signed(algorithm, kid, {"exp": NOW - 31})) == "expired websocket jwt"
    assert keyed(signed(algorithm, kid, claims, crit=["exp"])) == INVALID


@pytest.mark.parametrize("algorithm", ["EdDSA", "RS256", "ES256"])
@pytest.mark.parametrize("kid", [None, "ed", "rsa", "ec", "none", 7])
def test_key_is_found_by_its_name_and_decides_the_algorithm(
    algorithm: str, kid: Any, keyed: SignedTokens
) -> None:
    own = {"EdDSA": "ed", "RS256": "rsa", "ES256": "ec"}[algorithm]
    assert isinstance(keyed(signed(algorithm, kid)), Admitted) is (kid == own)


@pytest.mark.parametrize("named", ["none", "RS256", "ES256", "HS256", "Ed25519", "eddsa", None, 5])
def test_good_signature_under_another_name_is_none(named: Any, keyed: SignedTokens) -> None:
    assert keyed(signed("EdDSA", "ed", alg=named)) == INVALID


def test_name_that_is_null_is_not_a_missing_one(tmp_path: Path) -> None:
    check = SignedTokens(None, keys_file(tmp_path, ed_key(ED)), now=lambda: NOW)
    assert isinstance(check(signed("EdDSA", None)), Admitted)
    assert check(signed("EdDSA", None, kid=None)) == INVALID


def test_signature_has_one_form(keyed: SignedTokens) -> None:
    text, _, signature = signed("ES256", "ec").rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    assert isinstance(keyed(f"{text}.{base64url(raw)}"), Admitted)
    assert keyed(f"{text}.{base64url(raw[:32] + bytes(1) + raw[32:])}") == INVALID


def test_public_key_is_no_secret_for_a_mac(tmp_path: Path) -> None:
    numbers = RSA.public_key()
    secret = private(tmp_path / "secret", SECRET)
    file = keys_file(tmp_path, rsa_key(kid="rsa"))
    for check in (
        SignedTokens(None, file, now=lambda: NOW),
        SignedTokens(secret, file, now=lambda: NOW),
    ):
        for form in (Encoding.PEM, Encoding.DER):
            public = numbers.public_bytes(form, PublicFormat.SubjectPublicKeyInfo)
            for algorithm in ("HS256", "RS256"):
                text = unsigned(GOOD, {"alg": algorithm, "kid": "rsa"})
                token = f"{text}.{base64url(hmac.digest(public, text.encode(), 'sha256'))}"
                assert check(token) == INVALID


def test_secret_and_keys_may_be_used_together(tmp_path: Path) -> None:
    file = keys_file(tmp_path, ed_key(ED))
    check = SignedTokens(private(tmp_path / "secret", SECRET), file, now=lambda: NOW)
    assert isinstance(check(jwt(GOOD)), Admitted)
    assert isinstance(check(signed("EdDSA", None)), Admitted)  # the only key needs no name
    assert check(signed("EdDSA", "a name that no key has")) == INVALID


def test_keys_are_read_again(tmp_path: Path) -> None:
    file = keys_file(tmp_path, ed_key(ED_OTHER, kid="ed"))
    check = SignedTokens(None, file, now=lambda: NOW)
    assert check(signed("EdDSA", "ed")) == INVALID
    keys_file(tmp_path, ed_key(ED_OTHER, kid="old"), ed_key(ED, kid="ed"))
    check.reload()
    assert isinstance(check(signed("EdDSA", "ed")), Admitted)
    Path(file).write_text("{")
    with pytest.raises(SettingInvalid, match="is not JSON"):
        check.reload()
    assert isinstance(check(signed("EdDSA", "ed")), Admitted)


def test_keys_for_other_purposes_are_ignored(tmp_path: Path) -> None:
    others = (
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
        {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"},
        rsa_key(kid="encrypts", use="enc"),
        rsa_key(kid="pss", alg="PS256"),
        ed_key(ED, kid="odd", alg="ES256"),
        {"kty": "future"},
        {},
    )
    check = SignedTokens(None, keys_file(tmp_path, *others, ed_key(ED)), now=lambda: NOW)
    assert isinstance(check(signed("EdDSA", None)), Admitted)
    for kid in ("encrypts", "pss"):
        assert check(signed("RS256", kid)) == INVALID
    with pytest.raises(SettingInvalid, match=r"has no key for EdDSA \(Ed25519\), ES256"):
        SignedTokens(None, keys_file(tmp_path, *others), now=lambda: NOW)


SMALL = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
WRONG_KEYS: dict[str, tuple[list[Any], str]] = {
    "secret exponent": ([rsa_key(d="AA")], "key 1 is secret; a server needs public keys only"),
    "symmetric": ([ed_key(ED), {"kty": "oct", "k": "AA"}], "key 2 is secret"),
    "small": (
        [rsa_key(n=number(SMALL.n))],
        "key 1 cannot be used: it has 1024 bits, and must have 2048 to 8192",
    ),
    "large": ([rsa_key(n=number(1 << 9000))], "key 1 cannot be used: it has 9001 bits"),
    "even exponent": ([rsa_key(e=number(2))], "key 1 cannot be used: "),
    "not on the curve": ([ec_key(y=number(5, 32))], "key 1 cannot be used: "),
    "too short": ([ed_key(ED, x="AAAA")], "key 1 cannot be used: "),
    "no x": ([{"kty": "OKP", "crv": "Ed25519"}], "key 1 cannot be used: it has no `x`"),
    "x is a number": ([ed_key(ED, x=5)], "key 1 cannot be used: it has no `x`"),
    "padded": ([ed_key(ED, x="AA==")], "key 1 cannot be used: its `x` is not base64url"),
    "kid is a number": ([ed_key(ED, kid=5)], "key 1 cannot be used: its `kid` is not text"),
    "same name": ([ed_key(ED, kid="a"), rsa_key(kid="a")], "two keys have the same `kid`, or both have none"),
    "two without a name": ([ed_key(ED), rsa_key()], "two keys have the same `kid`, or both have none"),
    "no keys": ([], "has no key for EdDSA"),
    "too many": ([ed_key(ED)] * 65, "has 65 keys, and at most 64 can be"),
    "no object": ([5], "is not a set of keys: it must be an object with a list `keys`"),
}


@pytest.mark.parametrize(("keys", "text"), WRONG_KEYS.values(), ids=WRONG_KEYS.keys())
def test_wrong_keys_are_named(keys: list[Any], text: str, tmp_path: Path) -> None:
    file = keys_file(tmp_path, *keys)
    with pytest.raises(SettingInvalid) as raised:
        SignedTokens(None, file, now=lambda: NOW)
    assert str(raised.value).startswith(f"--ws-jwks-file {file}")
    assert text in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": {}}', '{"key": []}', "\xff"])
def test_file_that_is_no_set_of_keys_is_named(text: str, tmp_path: Path) -> None:
    file = private(tmp_path / "jwks.json", text.encode("latin-1"), 0o644)
    with pytest.raises(SettingInvalid, match=r"is not (JSON|a set of keys)"):
        SignedTokens(None, file, now=lambda: NOW)


def test_file_of_keys_may_be_read_but_not_changed_by_others(tmp_path: Path) -> None:
    for mode in (0o664, 0o646):
        file = keys_file(tmp_path, ed_key(ED), mode=mode)
        with pytest.raises(SettingInvalid, match=f"other users can change it .*chmod go-w {file}"):
            SignedTokens(None, file, now=lambda: NOW)


def test_without_the_package_the_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = keys_file(tmp_path, ed_key(ED))
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from outfitter.server.jwt import SignedTokens\n"
        f"SignedTokens(None, {file!r}, now=lambda: 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "outfitter.errors.SettingInvalid: --ws-jwks-file needs the package `cryptography`: run "
        "`pip install 'outfitter[jwt]'`"
    )
