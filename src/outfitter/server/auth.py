"""Who may connect: Host names, and the bearer token of `--ws-auth`.

Refusals are the reference's, word for word. Secrets are compared in constant time and never shown.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.upgrade import Admitted, Response
from ..transport.base import principal_of
from ..transport.sockets import is_ipv4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from ..protocol.upgrade import Caller, Gate, Headers

    # Who has a token, or the refusal.
    Check = Callable[[str], Admitted | str]

DEFAULT_SKEW_SECONDS = 30  # the reference's tolerance for clocks that disagree
_NO_USER = 0xFFFFFFFF  # the kernel's word for none
ANONYMOUS = "anonymous"  # everybody whom --allow-unauthenticated lets in and the kernel does not know
_LONGEST_PRINCIPAL = 256  # a key is kept with all that belongs to it, and shown; longer names become a digest
_MIN_SECRET_BYTES = 32  # as the reference; shorter than the digest makes HS256 guessable


def gate(hosts: frozenset[str], check: Check | None, users: frozenset[int] | None) -> Gate:
    """Asked for every upgrade: the Host header, then the token, the certificate, or the user who calls.

    `check` says who has a token. Without it, `users` of this machine may enter, or everybody if it is None.
    """

    def decide(headers: Headers, caller: Caller) -> Response | Admitted:
        host = headers.get("host")
        if host is not None and not _known_host(host, hosts):
            return Response(
                403,
                "this server does not accept this Host: use an IP address or localhost, or start the server "
                "with --allow-host NAME",
            )
        if check is not None:
            said = _bearer(headers, check)
            return Response(401, said) if isinstance(said, str) else _until_both(said, caller.certificate)
        if caller.certificate is not None:
            return caller.certificate
        uid = caller.uid()
        if users is None:
            return Admitted(ANONYMOUS if uid is None else principal_of(uid))
        if uid in users:
            assert uid is not None
            return Admitted(principal_of(uid))
        # A client shows the first 200 characters.
        if uid is None:
            return Response(
                403,
                "the kernel does not say which user is connecting: start the server with --ws-auth "
                "capability-token --ws-token-file FILE, and connect with that token",
            )
        return Response(
            403,
            f"this server serves only the user who started it, and you are uid {uid}: its owner can add "
            f"--allow-user {uid}, or use tokens (--ws-auth)",
        )

    return decide


def _until_both(holder: Admitted, certificate: Admitted | None) -> Admitted:
    """The holder of a token, until it or the certificate expires."""
    if certificate is None or certificate.expires is None:
        return holder
    ends = certificate.expires
    return Admitted(holder.principal, ends if holder.expires is None else min(ends, holder.expires))


def users_of(names: tuple[str, ...], own: int) -> frozenset[int]:
    """Who may connect without a token: our own user, and those of --allow-user. Raises SettingInvalid."""
    users = {own}
    for name in names:
        if name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < _NO_USER:
            users.add(int(name))
            continue
        from pwd import getpwnam

        try:
            users.add(getpwnam(name).pw_uid)
        except (KeyError, ValueError):
            raise SettingInvalid(
                f"--allow-user {name}: this machine has no such user; write a name or a uid"
            ) from None
    return frozenset(users)


def _known_host(value: str, hosts: frozenset[str]) -> bool:
    """A name we were told, localhost, or a literal address. Any other name may be a rebound one."""
    name = value.strip().lower()
    if name.startswith("["):
        return "]" in name
    name = name.partition(":")[0]
    return name == "localhost" or name in hosts or is_ipv4(name)


def _bearer(headers: Headers, check: Check) -> Admitted | str:
    value = headers.get("authorization")
    if value is None:
        return "missing websocket bearer token"
    scheme, space, token = value.partition(" ")
    token = token.strip()
    if not space or scheme.lower() != "bearer" or not token:
        return "invalid authorization header"
    return check(token)


# capability-token


def capability_token(file: str | None, digest: str | None) -> Check:
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

    admitted = Admitted(f"token:{expected.hex()[:16]}")

    def check(token: str) -> Admitted | str:
        from hmac import compare_digest

        given = sha256(token.encode("latin-1", "replace")).digest()
        return admitted if compare_digest(given, expected) else "invalid websocket bearer token"

    return check


# signed-bearer-token


def signed_bearer_token(
    file: str | None, issuer: str | None, audience: str | None, skew: float, now: Callable[[], float]
) -> Check:
    """A check for JWTs signed with HS256 and a shared secret. Raises SettingInvalid."""
    if file is None:
        raise SettingInvalid("--ws-auth signed-bearer-token needs --ws-shared-secret-file")
    secret = _read(file, "--ws-shared-secret-file")
    if len(secret) < _MIN_SECRET_BYTES:
        raise SettingInvalid(
            f"--ws-shared-secret-file {file} has {len(secret)} bytes: a secret needs at least "
            f"{_MIN_SECRET_BYTES}"
        )

    def check(token: str) -> Admitted | str:
        claims = _verified(token, secret)
        if claims is None:
            return "invalid websocket jwt"
        return judge(claims, now(), skew, issuer, audience) or Admitted(
            _subject(claims), _end(claims["exp"], skew)
        )

    return check


def judge(claims: Json, now: float, skew: float, issuer: str | None, audience: str | None) -> str | None:
    """The refusal that a token's claims deserve, or None."""
    expires, starts = claims.get("exp"), claims.get("nbf")
    if type(expires) is not int or (starts is not None and type(starts) is not int):
        return "invalid websocket jwt"
    if not all(type(claims.get(name, "")) is str for name in ("iss", "sub")):
        return "invalid websocket jwt"  # RFC 7519 has text there, and who it is must be clear
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


def _end(expires: int, skew: float) -> float | None:
    """When a connection with such a token ends: when a new one would be refused."""
    return expires + skew if expires < 1 << 53 else None  # which no clock shows


def _subject(claims: Json) -> str:
    """The principal of claims: two pairs of issuer and subject never have the same."""
    issuer, subject = claims.get("iss"), claims.get("sub")
    whole = f"jwt:{_escaped(issuer)}|{_escaped(subject)}"
    if len(whole) <= _LONGEST_PRINCIPAL:
        return whole
    from ..stdlib import sha256

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
