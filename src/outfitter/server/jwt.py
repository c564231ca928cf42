"""Signed bearer tokens: JWTs with HS256 and a shared secret, or with a public key of a JWKS file.

The key decides the algorithm, never the token: a public key is no secret that could sign HS256. The words of
refusals are the reference's where it has them.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.jsontext import JsonError, loads
from ..protocol.upgrade import Admitted
from . import secretfile
from .jwks import read_keys, url_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from .jwks import VerifyingKey

DEFAULT_SKEW_SECONDS = 30  # the reference's tolerance for clocks that disagree
# A token that leaks is good for so long: a working day and its night. The reference has no limit.
DEFAULT_MAX_AGE_SECONDS = 86_400
_MIN_SECRET_BYTES = 32  # as the reference; shorter than the digest makes HS256 guessable
_LONGEST_PRINCIPAL = 256  # a key is kept with all that belongs to it, and shown; longer names become a digest
_NEVER = 1 << 53  # seconds that a float counts exactly, and no clock shows
_INVALID = "invalid websocket jwt"


class SignedTokens:
    """Who a signed token belongs to. Raises SettingInvalid."""

    several = True  # whoever signs may name anybody

    def __init__(
        self,
        secret_file: str | None,
        jwks_file: str | None,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        skew: float = DEFAULT_SKEW_SECONDS,
        max_age: float = DEFAULT_MAX_AGE_SECONDS,
        now: Callable[[], float],
    ) -> None:
        if secret_file is None and jwks_file is None:
            raise SettingInvalid(
                "--ws-auth signed-bearer-token needs --ws-shared-secret-file or --ws-jwks-file"
            )
        self._secret_file, self._jwks_file = secret_file, jwks_file
        self._issuer, self._audience = issuer, audience
        self._skew, self._max_age = skew, max_age
        self._now = now
        self._secret: bytes | None = None
        self._keys: tuple[VerifyingKey, ...] = ()
        self.reload(None)

    def reload(self, seconds: float | None = secretfile.AGAIN_SECONDS) -> None:
        """Reads the files again. Raises SettingInvalid, and goes on with what it had."""
        # Now: when somebody shows a token, there may be no descriptor left to import with.
        import hashlib  # noqa: F401
        import hmac

        self._mac, self._same = hmac.digest, hmac.compare_digest
        secret, keys = None, self._keys
        if self._secret_file is not None:
            text = secretfile.read(self._secret_file, "--ws-shared-secret-file", seconds=seconds)
            secret = text.strip()
            if len(secret) < _MIN_SECRET_BYTES:
                raise SettingInvalid(
                    f"--ws-shared-secret-file {self._secret_file} has {len(secret)} bytes: a secret needs at "
                    f"least {_MIN_SECRET_BYTES}"
                )
        if self._jwks_file is not None:
            keys = read_keys(self._jwks_file, "--ws-jwks-file", seconds)
        self._secret, self._keys = secret, keys

    def __call__(self, token: str) -> Admitted | str:
        claims = self._verified(token)
        if claims is None:
            return _INVALID
        refusal = judge(claims, self._now(), self._skew, self._issuer, self._audience, max_age=self._max_age)
        if refusal is not None:
            return refusal
        # It ends when a new connection with the same token would be refused.
        ends = min(claims["exp"], _NEVER) + self._skew
        return Admitted(principal(claims.get("iss"), claims.get("sub")), ends)

    def admits(self, principal: str) -> bool:
        """Whether a connection of this principal may go on; it ends by itself, with its token."""
        return True

    def _verified(self, token: str) -> Json:
        """The claims of a well-signed token, or None."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            header, claims = (loads(url_base64(part).decode()) for part in parts[:2])
            signature = url_base64(parts[2])
        except (JsonError, ValueError):
            return None
        # `crit` names members that we would have to understand, and we understand none.
        if type(header) is not dict or type(claims) is not dict or "crit" in header:
            return None
        signed = f"{parts[0]}.{parts[1]}".encode("latin-1", "replace")
        if header.get("alg") == "HS256":
            return claims if self._has_mac(signed, signature) else None
        key = self._key(header)
        return claims if key is not None and key.verifies(signed, signature) else None

    def _has_mac(self, signed: bytes, signature: bytes) -> bool:
        if self._secret is None:
            return False
        wanted = self._mac(self._secret, signed, "sha256")
        return self._same(wanted, signature)

    def _key(self, header: Json) -> VerifyingKey | None:
        """The key that a token names; a token without a name can mean only the one that there is."""
        if "kid" in header:
            found = [key for key in self._keys if key.kid is not None and key.kid == header["kid"]]
        else:
            found = list(self._keys)
        return found[0] if len(found) == 1 and found[0].algorithm == header.get("alg") else None


def judge(
    claims: Json, now: float, skew: float, issuer: str | None, audience: str | None, *, max_age: float
) -> str | None:
    """The refusal that a token's claims deserve, or None."""
    expires, starts, issued = claims.get("exp"), claims.get("nbf"), claims.get("iat")
    if type(expires) is not int or any(type(at) not in (int, type(None)) for at in (starts, issued)):
        return _INVALID
    if not all(type(claims.get(name, "")) is str for name in ("iss", "sub")):
        return _INVALID  # RFC 7519 has text there, and who it is must be clear
    if now - skew > expires:  # claims may be larger than a float
        return "expired websocket jwt"
    if any(at is not None and now + skew < at for at in (starts, issued)):
        return "websocket jwt is not valid yet"
    # Without a time of issue it may have been made now. What is too large for a float can be compared.
    if expires > max_age + now + skew if issued is None else expires - issued > max_age:
        return (
            f"websocket jwt is valid for more than {max_age:g} s: take one that expires earlier, or start "
            f"the server with a longer --ws-max-age"
        )
    if issuer is not None and claims.get("iss") != issuer:
        return "websocket jwt issuer mismatch"
    if audience is not None:
        given = claims.get("aud")
        if given != audience and not (isinstance(given, list) and audience in given):
            return "websocket jwt audience mismatch"
    return None


def principal(issuer: str | None, subject: str | None) -> str:
    """The key of an issuer's subject: two pairs never have the same."""
    whole = f"jwt:{_escaped(issuer)}|{_escaped(subject)}"
    if len(whole) <= _LONGEST_PRINCIPAL:
        return whole
    from hashlib import sha256

    return f"jwt#{sha256(whole.encode()).hexdigest()}"


def _escaped(name: str | None) -> str:
    """Without the mark between two names, and without characters that a log would obey."""
    if name is None:
        return "-"
    if name == "-":
        return "%2D"
    return "".join(
        one if one.isprintable() and one not in "%|" else "".join(f"%{byte:02X}" for byte in one.encode())
        for one in name
    )
