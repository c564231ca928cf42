"""outfitter serve: flags → settings → a listening server."""

from __future__ import annotations

import os

from ..earlyerrors import SettingInvalid
from ..server import limits
from ..server.listen import parse_url, serve_websocket
from ..server.settings import ServerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..host.limits import ServerLimits
    from ..observe.watchers import Watchers
    from ..protocol.upgrade import Gate
    from ..server.auth import Check
    from ..transport.certificates import Certificates

    Flags = dict[str, Any]  # each value has the type its Flag says


def serve(flags: Flags) -> int:
    """Runs a server until it is told to end; returns the exit status. Raises SettingInvalid."""
    begin_log(flags)
    place = parse_url(flags["listen"], shared=bool(flags["allow_user"] or flags["allow_unauthenticated"]))
    settings = settings_of(flags, private=place is None or place.local)
    certificates = certificates_of(flags)
    if place is None:
        if flags["ws_auth"] is not None:
            raise SettingInvalid("--ws-auth needs --listen ws://IP:PORT: a client on stdio sends no token")
        from ..server.onstdio import serve_stdio

        return serve_stdio(settings, watchers_of(flags))
    check = _check(flags)
    is_open = check is None and flags["tls_client_ca"] is None
    if is_open and not place.local and not flags["allow_unauthenticated"]:
        raise SettingInvalid(
            f"other machines can reach {place.url}, and every client that connects can run commands: add "
            f"--ws-auth capability-token --ws-token-file FILE, or --allow-unauthenticated to accept every "
            f"client"
        )
    hosts = frozenset(name.lower() for name in flags["allow_host"])
    users = _users(flags)

    def make_gate() -> Gate:
        from ..server.auth import gate

        return gate(hosts, check, users)

    watchers = watchers_of(flags, listens=True)
    return serve_websocket(place, settings, make_gate, check, certificates, watchers, _announce(flags))


def _announce(flags: Flags) -> Callable[[str, str], None] | None:
    if not flags["json"]:
        return None
    from .announce import announce

    return lambda url, limited: announce({"url": url}, limited)


def begin_log(flags: Flags) -> None:
    if flags["log_level"] is not None:
        import logging
        import sys

        from ..log import UnhurriedStream

        handler = logging.StreamHandler(UnhurriedStream(sys.stderr))
        form = "%(asctime)s %(name)s %(message)s"
        logging.basicConfig(level=flags["log_level"].upper(), format=form, handlers=[handler])


def _origins(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Variables and who has set them: `pool=HOME,TMPDIR`. Raises SettingInvalid."""
    found: list[tuple[str, str]] = []
    for text in given:
        whose, equals, names = text.partition("=")
        if whose not in ("pool", "engine") or not equals:
            raise SettingInvalid(f"--origin {text!r} cannot be used: write pool=NAME,NAME or engine=NAME")
        found += [(name, whose) for name in names.split(",") if name]
    return tuple(found)


def settings_of(flags: Flags, *, private: bool) -> ServerSettings:
    """What the flags say; `private` is a server that nobody on another machine reaches. Raises
    SettingInvalid."""
    if flags["max_sessions"] > limits.SESSIONS:
        from ..core.marks import SESSION_NUMBERS

        if flags["max_sessions"] > SESSION_NUMBERS:
            raise SettingInvalid(f"--max-sessions can be at most {SESSION_NUMBERS}")
    deny, allow, cookies = _http(flags, private=private)
    settings = ServerSettings(
        session_retention=float(flags["session_retention"]),
        process_retention=float(flags["process_retention"]),
        detached_retention=float(flags["detached_retention"]),
        max_detached=None if flags["max_detached"] is None else float(flags["max_detached"]),
        max_processes=flags["max_processes"],
        max_sessions=flags["max_sessions"],
        concurrent_requests=flags["concurrent_requests"],
        keepalive=_keepalive(flags),
        fence=None if flags["fence"] is None else float(flags["fence"]),
        ends_with_stdin=flags["exit_on_stdin_close"],
        project_ceiling=flags["project_ceiling"],
        origins=_origins(flags["origin"]),
        allowance=_limits(flags),
        cgroup=flags["cgroup"],
        run_as=flags["run_as"],
        operators=(*flags["operator"], f"uid:{os.getuid()}"),
        own_files=_own_files(flags),
        sandbox_program=_program(flags["sandbox_program"]),
        sandbox_processes=flags["sandbox_processes"],
        sandbox_memory=None if flags["sandbox_memory"] is None else flags["sandbox_memory"] << 20,
        sandbox_loopback=flags["sandbox_loopback"],
        sandbox_ptrace=flags["sandbox_ptrace"],
        sandbox_landlock=flags["sandbox_landlock"],
        sandbox_protect=_protected(flags["sandbox_protect"]),
        sandbox_strict_links=flags["sandbox_strict_links"],
        http_deny=deny,
        http_allow=allow,
        http_cookies=cookies,
        several_principals=bool(flags["allow_user"]) or flags["tls_client_ca"] is not None,
    )
    if settings.run_as is not None:
        if settings.cgroup:
            raise SettingInvalid("--cgroup cannot be used with --run-as: that user may not manage the groups")
        _fix_paths(flags)
    if settings.sandbox_memory is not None:
        from ..host.sandbox.limits import check_memory

        check_memory(settings.sandbox_memory)
    if settings.sandbox_landlock:
        from ..host.sandbox.landlocked import lack, version

        if why := lack(version()):
            raise SettingInvalid(f"--sandbox-landlock cannot be used: {why}")
    return settings


def _protected(said: tuple[str, ...]) -> tuple[str, ...]:
    """Names that stay read-only, too. Raises SettingInvalid."""
    if not said:
        return ()
    from ..core.protecting import names

    return names(said)


def _program(path: str | None) -> str:
    """Where bubblewrap is, as an operator says. Raises SettingInvalid."""
    if path is None:
        return ""
    if not os.path.isfile(path):
        raise SettingInvalid(f"--sandbox-program {path}: there is no such file")
    return os.path.abspath(path)


def _limits(flags: Flags) -> ServerLimits | None:
    if flags["limits"] is None:
        return None
    from ..host.limits import parse

    return parse(flags["limits"])


def _keepalive(flags: Flags) -> float | None:
    """Seconds between pings: with a fence, so many that a client that lives is heard in time."""
    fence, keepalive = flags["fence"], flags["keepalive"]
    if fence is None:
        return None if keepalive is None else float(keepalive)
    from ..server.fence import BEATS

    if keepalive is None:
        return min(30.0, float(fence) / BEATS)
    if keepalive * BEATS > fence:
        raise SettingInvalid(f"--fence must be at least {BEATS} times --keepalive: a ping may get lost")
    return float(keepalive)


def _http(
    flags: Flags, *, private: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What http/request must not and may reach, and the cookies that its requests share.

    Who listens for others keeps them from where a cloud gives this machine its credentials.
    """
    if private and not (flags["http_deny"] or flags["http_allow"] or flags["http_cookie"]):
        return (), (), ()
    from ..core.addresses import METADATA, AddressRules

    denied = (*flags["http_deny"], *(() if private else METADATA))
    AddressRules(denied, flags["http_allow"])  # so that a mistake is told now
    cookies = [one.partition(":")[::2] for one in flags["http_cookie"]]
    if any(not host or not name for host, name in cookies):
        raise SettingInvalid("--http-cookie takes a host and the name of a cookie: example.com:route")
    return denied, flags["http_allow"], tuple([(host.lower(), name) for host, name in cookies])


def _own_files(flags: Flags) -> tuple[str, ...]:
    """Files of the server that no command in a sandbox may see, whatever its profile says."""
    found = [*flags["ws_token_file"], flags["ws_shared_secret_file"], flags["tls_key"], flags["audit"]]
    if flags["listen"].startswith("unix:"):
        from ..transport.unix import path_of

        found.append(path_of(flags["listen"]))
    return tuple([os.path.abspath(path) for path in found if path])


def _fix_paths(flags: Flags) -> None:
    """Files that are opened again mean the directory that root is in now: the other user may not enter it."""
    for name in ("ws_shared_secret_file", "ws_jwks_file", "tls_cert", "tls_key", "tls_client_ca", "audit"):
        if flags[name] not in (None, "-"):
            flags[name] = os.path.abspath(flags[name])
    flags["ws_token_file"] = tuple(map(os.path.abspath, flags["ws_token_file"]))


def certificates_of(flags: Flags) -> Certificates | None:
    """What wss:// needs. Files are read now, and again when they change."""
    cert, key, client_ca = (flags[name] for name in ("tls_cert", "tls_key", "tls_client_ca"))
    if not flags["listen"].startswith("wss://"):
        for name in ("tls_cert", "tls_key", "tls_client_ca"):
            if flags[name] is not None:
                raise SettingInvalid(f"--{name.replace('_', '-')} needs --listen wss://IP:PORT")
        return None
    if cert is None or key is None:
        raise SettingInvalid("--listen wss://IP:PORT needs --tls-cert FILE and --tls-key FILE")
    from time import monotonic

    from ..transport.certificates import Certificates

    return Certificates(cert, key, client_ca, monotonic)


def watchers_of(flags: Flags, *, listens: bool = False) -> Watchers | None:
    """Those who watch, made now, so that a mistake is told before anybody is served; most often nobody."""
    if flags["metrics"] and not listens:
        raise SettingInvalid("--metrics needs --listen with an address: nobody else could ask for them")
    if flags["audit"] is None and flags["audit_commands"] is not None:
        raise SettingInvalid("--audit-commands needs --audit FILE")
    telemetry = any(name.startswith("OTEL_") for name in os.environ)
    if flags["audit"] is None and not flags["metrics"] and not telemetry:
        return None
    from ..observe.watchers import watchers

    return watchers(flags["audit"], flags["audit_commands"] or "digest", metrics=flags["metrics"])


def _users(flags: Flags) -> frozenset[int] | None:
    """Who needs no token, if nobody does; None for everybody."""
    for name in ("ws_auth", "allow_unauthenticated"):
        if flags["allow_user"] and flags[name]:
            raise SettingInvalid(f"--allow-user cannot be used with --{name.replace('_', '-')}")
    if flags["allow_unauthenticated"]:
        return None
    own = os.geteuid()
    if not flags["allow_user"]:
        return frozenset((own,))
    from ..server.auth import users_of

    return users_of(flags["allow_user"], own)


_DEFAULTS = ("ws_max_clock_skew_seconds", "ws_max_age")  # so nobody knows whether they were given


def _check(flags: Flags) -> Check | None:
    """The token check that --ws-auth asks for. Files are read now, and again on SIGHUP."""
    kind = flags["ws_auth"]
    if kind is None:
        for name in flags:
            if name.startswith("ws_") and name not in _DEFAULTS and flags[name]:
                raise SettingInvalid(f"--{name.replace('_', '-')} needs --ws-auth")
        return None
    if kind == "capability-token":
        _refuse(flags, kind, "ws_shared_secret_file", "ws_jwks_file", "ws_issuer", "ws_audience")
        from ..server.tokens import Tokens

        return Tokens(flags["ws_token_file"], flags["ws_token_sha256"])
    _refuse(flags, kind, "ws_token_file", "ws_token_sha256")
    from time import time

    from ..server.jwt import SignedTokens

    return SignedTokens(
        flags["ws_shared_secret_file"],
        flags["ws_jwks_file"],
        issuer=flags["ws_issuer"],
        audience=flags["ws_audience"],
        skew=flags["ws_max_clock_skew_seconds"],
        max_age=flags["ws_max_age"],
        now=time,
    )


def _refuse(flags: Flags, kind: str, *names: str) -> None:
    for name in names:
        if flags[name]:
            raise SettingInvalid(f"--{name.replace('_', '-')} cannot be used with --ws-auth {kind}")
