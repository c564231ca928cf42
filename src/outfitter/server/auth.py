"""Who may connect: Host names, and the bearer token of `--ws-auth`.

Refusals are the reference's, word for word. Secrets are compared in constant time and never shown.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.upgrade import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from ..protocol.upgrade import Gate, Headers

DEFAULT_SKEW_SECONDS = 30  # the reference's tolerance for clocks that disagree
_MIN_SECRET_BYTES = 32  # as the reference; shorter than the digest makes HS256 guessable


def gate(hosts: frozenset[str], check: Callable[[str], str | None] | None) -> Gate:
    """Asked for every upgrade: the Host header, then the token.

    `check` gives the refusal for a token, or None to let it in; without it everybody may enter.
    """

    def decide(headers: Headers) -> Response | None:
        host = headers.get("host")
        if host is not None and not _known_host(host, hosts):
            return Response(
                403,
                "this server does not accept this Host: use an IP address or localhost, or start the server "
                "with --allow-host NAME",
            )
        if check is None:
            return None
        refusal = _bearer(headers, check)
        return None if refusal is None else Response(401, refusal)

    return decide


def _known_host(value: str, hosts: frozenset[str]) -> bool:
    """A name we were told, localhost, or a literal address. Any other name may be a rebound one."""
    name = value.strip().lower()
    if name.startswith("["):
        return "]" in name
    name = name.partition(":")[0]
    if name == "localhost" or name in hosts:
        return True
    parts = name.split(".")
    return name.isascii() and len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts)


def _bearer(headers: Headers, check: Callable[[str], str | None]) -> str | None:
    value = headers.get("authorization")
    if value is None:
        return "missing websocket bearer token"
    scheme, space, token = value.partition(" ")
    token = token.strip()
    if not space or scheme.lower() != "bearer" or not token:
        return "invalid authorization header"
    return check(token)


# capability-token


def capability_token(file: str | None, digest: str | None) -> Callable[[str], str | None]:
    """A check against one token, given in a file or as its SHA-256. Raises SettingInvalid."""
    from hashlib import sha256

    if (file is None) == (digest is None):
        raise SettingInvalid(
            "--ws-auth capability-token needs exactly one of --ws-token-file and --ws-token-sha256"
        )
    if file is not None:
        token = _read(file, "--ws-token-file")
        if not token:
            raise SettingInvalid(f"--ws-token-file {file} is empty: put the token into it")
        expected = sha256(token).digest()
    else:
        assert digest is not None
        try:
            expected = bytes.fromhex(digest.strip())
        except ValueError:
            expected = b""
        if len(expected) != 32:
            raise SettingInvalid("--ws-token-sha256 must be 64 hexadecimal digits")

    def check(token: str) -> str | None:
        from hmac import compare_digest

        given = sha256(token.encode("latin-1", "replace")).digest()
        return None if compare_digest(given, expected) else "invalid websocket bearer token"

    return check


# signed-bearer-token


def signed_bearer_token(
    file: str | None, issuer: str | None, audience: str | None, skew: float, now: Callable[[], float]
) -> Callable[[str], str | None]:
    """A check for JWTs signed with HS256 and a shared secret. Raises SettingInvalid."""
    if file is None:
        raise SettingInvalid("--ws-auth signed-bearer-token needs --ws-shared-secret-file")
    secret = _read(file, "--ws-shared-secret-file")
    if len(secret) < _MIN_SECRET_BYTES:
        raise SettingInvalid(
            f"--ws-shared-secret-file {file} has {len(secret)} bytes: a secret needs at least "
            f"{_MIN_SECRET_BYTES}"
        )

    def check(token: str) -> str | None:
        claims = _verified(token, secret)
        if claims is None:
            return "invalid websocket jwt"
        return judge(claims, now(), skew, issuer, audience)

    return check


def judge(claims: Json, now: float, skew: float, issuer: str | None, audience: str | None) -> str | None:
    """The refusal that a token's claims deserve, or None."""
    expires, starts = claims.get("exp"), claims.get("nbf")
    if type(expires) is not int or (starts is not None and type(starts) is not int):
        return "invalid websocket jwt"
    if now - skew > expires:  # claims may be larger than a float
        return "expired websocket jwt"
    if starts is not None and now + skew < starts:
        return "websocket jwt is not valid yet"
    if issuer is not None and claims.get("iss") != issuer:
        return "websocket jwt issuer mismatch"
    if audience is not None:
        given = claims.get("aud")
        if given != audience and not (isinstance(given, list) and audience in given):
            return "websocket jwt audience mismatch"
    return None


def _verified(token: str, secret: bytes) -> Json:
    """The claims of a well-signed token, or None."""
    import hmac

    from ..protocol.jsontext import JsonError, loads

    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        header, claims = (loads(_url_base64(part).decode()) for part in parts[:2])
        signature = _url_base64(parts[2])
    except (JsonError, ValueError):
        return None
    if type(header) is not dict or header.get("alg") != "HS256" or type(claims) is not dict:
        return None
    wanted = hmac.digest(secret, f"{parts[0]}.{parts[1]}".encode("latin-1", "replace"), "sha256")
    return claims if hmac.compare_digest(wanted, signature) else None


def _url_base64(text: str) -> bytes:
    from binascii import a2b_base64

    if "+" in text or "/" in text or "=" in text:
        raise ValueError("not unpadded base64url")
    plain = text.replace("-", "+").replace("_", "/")
    return a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)


def _read(path: str, flag: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read().strip()
    except OSError as error:
        raise SettingInvalid(f"{flag} {path} cannot be read: {error.strerror}") from None
