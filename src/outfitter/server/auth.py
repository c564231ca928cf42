"""Who may connect: Host names, then the bearer token of `--ws-auth`, or else the user at the other end.

Refusals of tokens are the reference's, word for word.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.upgrade import Admitted, Response
from ..transport.sockets import is_ipv4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..protocol.upgrade import Caller, Gate, Headers

    class Check(Protocol):
        """What --ws-auth asks for: `tokens.Tokens` or `jwt.SignedTokens`."""

        def __call__(self, token: str) -> Admitted | str:
            """Who has this token, or the refusal."""

        def reload(self) -> None:
            """Reads its files again. Raises SettingInvalid, and goes on with what it had."""

        @property
        def several(self) -> bool:
            """Whether there can be more than one principal."""

        def admits(self, principal: str) -> bool:
            """Whether connections of a principal who was let in may go on."""


_NO_USER = 0xFFFFFFFF  # the kernel's word for none
ANONYMOUS = "anonymous"  # everybody whom --allow-unauthenticated lets in and the kernel does not know


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
                cause="host",
            )
        if check is not None:
            said = _bearer(headers, check)
            if isinstance(said, str):
                return Response(401, said, cause="token")
            return _until_both(said, caller.certificate)
        if caller.certificate is not None:
            return caller.certificate
        from ..transport.base import principal_of  # what was not admitted does not need it

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
                cause="user",
            )
        return Response(
            403,
            f"this server serves only the user who started it, and you are uid {uid}: its owner can add "
            f"--allow-user {uid}, or use tokens (--ws-auth)",
            cause="user",
        )

    return decide


def without_the_confined(gate: Gate, confines: Callable[[], bool]) -> Gate:
    """Who comes without a token must not be a command in a sandbox, while one can reach this server."""

    def decide(headers: Headers, caller: Caller) -> Response | Admitted:
        said = gate(headers, caller)
        if confines() and caller.certificate is None:
            from ..host.sandbox.callers import REFUSAL, is_outside

            number = caller.socket_number()
            if not isinstance(said, Response) and number is not None and not is_outside(number):
                return Response(403, REFUSAL, cause="sandbox")
        return said

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
