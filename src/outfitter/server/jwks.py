"""Public keys of a JWKS file (RFC 7517), each with the one algorithm that its kind has here.

This needs the package `cryptography`, which is imported with the first file.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.jsontext import JsonError, loads
from ..record import record
from . import secretfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json

_MOST_KEYS = 64  # an issuer that rotates has three
# NIST's least; and what a stranger may have us compute before we know who it is.
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192


@record
class VerifyingKey:
    """A public key: its name, its algorithm, and whether it made a signature."""

    kid: str | None
    algorithm: str
    verifies: Callable[[bytes, bytes], bool]


def read_keys(path: str, flag: str, seconds: float | None = None) -> tuple[VerifyingKey, ...]:
    """The keys that can verify tokens; others are ignored, as the RFC says. Raises SettingInvalid."""
    where = f"{flag} {path}"
    try:
        import cryptography.exceptions  # noqa: F401
    except ImportError:
        raise SettingInvalid(
            f"{flag} needs the package `cryptography`: run `pip install 'outfitter[jwt]'`"
        ) from None
    try:
        told = loads(secretfile.read(path, flag, secret=False, seconds=seconds).decode())
    except (JsonError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"{where} is not JSON: {error}") from None
    listed = told.get("keys") if type(told) is dict else None
    if type(listed) is not list or not all(type(one) is dict for one in listed):
        raise SettingInvalid(f"{where} is not a set of keys: it must be an object with a list `keys`")
    if len(listed) > _MOST_KEYS:
        raise SettingInvalid(f"{where} has {len(listed)} keys, and at most {_MOST_KEYS} can be")
    keys = []
    for number, one in enumerate(listed, 1):
        if "d" in one or "k" in one:
            raise SettingInvalid(f"{where}: key {number} is secret; a server needs public keys only")
        try:
            key = _key(one)
        except (ValueError, TypeError) as error:
            raise SettingInvalid(f"{where}: key {number} cannot be used: {error}") from None
        if key is not None:
            keys.append(key)
    if not keys:
        raise SettingInvalid(f"{where} has no key for EdDSA (Ed25519), ES256 (P-256) or RS256 (RSA)")
    names = [key.kid for key in keys]
    if len(set(names)) != len(names):
        raise SettingInvalid(f"{where}: two keys have the same `kid`, or both have none")
    return tuple(keys)


def _key(told: Json) -> VerifyingKey | None:
    """A key that can verify, or None. Raises ValueError."""
    kind = (told.get("kty"), told.get("crv"))
    if told.get("use", "sig") != "sig":
        return None
    kid = told.get("kid")
    if kid is not None and type(kid) is not str:
        raise ValueError("its `kid` is not text")
    if kind == ("OKP", "Ed25519"):
        algorithm, make = "EdDSA", _ed25519
    elif kind == ("EC", "P-256"):
        algorithm, make = "ES256", _p256
    elif kind[0] == "RSA":
        algorithm, make = "RS256", _rsa
    else:
        return None
    if told.get("alg", algorithm) != algorithm:
        return None  # such as a key for PS256, or for encryption
    return VerifyingKey(kid, algorithm, _verifying(make(told)))


def _member(told: Json, name: str) -> bytes:
    value = told.get(name)
    if type(value) is not str:
        raise ValueError(f"it has no `{name}`")
    try:
        return url_base64(value)
    except ValueError:
        raise ValueError(f"its `{name}` is not base64url") from None


def _verifying(check: Callable[[bytes, bytes], None]) -> Callable[[bytes, bytes], bool]:
    """Whether a check of what was signed and its signature passes: one that does not raises."""
    from cryptography.exceptions import InvalidSignature

    def verifies(signed: bytes, signature: bytes) -> bool:
        try:
            check(signed, signature)
        except InvalidSignature:
            return False
        return True

    return verifies


def _ed25519(told: Json) -> Callable[[bytes, bytes], None]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(_member(told, "x"))
    return lambda signed, signature: key.verify(signature, signed)


def _p256(told: Json) -> Callable[[bytes, bytes], None]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicNumbers
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    x, y = (int.from_bytes(_member(told, name), "big") for name in ("x", "y"))
    key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()

    def check(signed: bytes, signature: bytes) -> None:
        if len(signature) != 64:  # two numbers; DER would be another way to write the same signature
            raise InvalidSignature
        numbers = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        key.verify(encode_dss_signature(*numbers), signed, ECDSA(SHA256()))

    return check


def _rsa(told: Json) -> Callable[[bytes, bytes], None]:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
    from cryptography.hazmat.primitives.hashes import SHA256

    modulus, exponent = (int.from_bytes(_member(told, name), "big") for name in ("n", "e"))
    if not _MIN_RSA_BITS <= modulus.bit_length() <= _MAX_RSA_BITS:
        raise ValueError(
            f"it has {modulus.bit_length()} bits, and must have {_MIN_RSA_BITS} to {_MAX_RSA_BITS}"
        )
    key = RSAPublicNumbers(exponent, modulus).public_key()
    return lambda signed, signature: key.verify(signature, signed, PKCS1v15(), SHA256())


def url_base64(text: str) -> bytes:
    """The bytes of unpadded base64url. Raises ValueError."""
    from binascii import a2b_base64

    if "+" in text or "/" in text or "=" in text:
        raise ValueError("not unpadded base64url")
    plain = text.replace("-", "+").replace("_", "/")
    return a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
