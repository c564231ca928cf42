"""outfitter rendezvous: the service, and what its operator does with the store."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...errors import OutfitterError, SettingInvalid
from ...loop import EpollLoop
from ...openers import private_folder
from ...relay.authority import Authority
from ...relay.known import folder
from ...relay.limits import raise_file_limit, room
from ...relay.service import Service
from ...relay.store import open_store
from ...transport.sockets import TcpPlace
from ..announce import announce
from ..console import say
from ..serve import begin_log, certificates_of
from ..table import ago, table
from .watching import metrics_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...relay.store import Store
    from ...stdlib import socket
    from ...transport.caller import SocketCaller
    from ...transport.certificates import Certificates
    from ...transport.sockets import Stream


def serve(flags: dict[str, Any]) -> int:
    """Runs the service until SIGTERM or SIGINT. Raises SettingInvalid."""
    from ...server.listen import end_with_stdin, parse_url

    begin_log(flags)
    place = parse_url(flags["listen"])
    if not isinstance(place, TcpPlace):
        raise SettingInvalid("a rendezvous listens on ws://IP:PORT or wss://IP:PORT")
    certificates = certificates_of({**flags, "tls_client_ca": None})
    if not place.local and certificates is None and flags["url"] is None:
        raise SettingInvalid(
            "other machines would send their tokens in the clear: add --tls-cert and --tls-key with "
            "--listen wss://..., or --url https://... of the proxy in front"
        )
    watching = metrics_gate(flags)
    store = _store(flags, serving=True)
    sock = place.listen()
    public = _public_url(flags["url"], place.url)
    loop = EpollLoop()
    if flags["exit_on_stdin_close"]:
        end_with_stdin(loop)
    authority = Authority(store, time.time, public, flags["instance"])
    secure = None if certificates is None else _secured(loop, certificates)
    limits = room(raise_file_limit())
    service = Service(loop, sock, authority, prefix=urlsplit(public).path, secure=secure, limits=limits)
    if watching is not None:
        from ...observe.relaying import relay_metrics

        service.gate, service.metrics = watching, relay_metrics(service).text
    stop_on_signals(loop)
    url = public.replace("ws", "http", 1)
    if flags["json"]:
        # Behind a proxy the URL is the proxy's, which has to know our port.
        announce({"url": url, "listen": place.url})
    else:
        print(url, flush=True)
    loop.run()
    service.stop()
    service.leave("the service is stopping; come back")
    service.drain(loop)
    service.settle()
    store.close()
    return 0


def stop_on_signals(loop: EpollLoop) -> None:
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(loop.stop))


def _secured(loop: EpollLoop, certificates: Certificates) -> Callable[[socket, SocketCaller], Stream]:
    from ...transport.tls import TlsSocket

    return lambda sock, caller: TlsSocket(loop, sock, certificates.context(), caller)


def _public_url(said: str | None, listening: str) -> str:
    """Where executors and harnesses open their sockets. Raises SettingInvalid."""
    if said is None:
        return listening
    parts = urlsplit(said)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise SettingInvalid(f"--url {said} is no address of a service: write https://HOST[:PORT][/PATH]")
    return said.rstrip("/").replace("http", "ws", 1)


def _store(flags: dict[str, Any], *, serving: bool = False) -> Store:
    return open_store(flags["store"] or default_store(), serving=serving)


def default_store() -> str:
    """The path of this user's store, in a folder that exists. Raises SettingInvalid."""
    path = os.path.join(folder(os.environ), "rendezvous.sqlite")
    try:
        private_folder(os.path.dirname(path))
    except OSError as error:
        raise SettingInvalid(f"{os.path.dirname(path)} cannot be made: {error.strerror}") from None
    return path


@contextmanager
def _authority(flags: dict[str, Any]) -> Iterator[Authority]:
    store = _store(flags)
    try:
        yield Authority(store, time.time, "ws://localhost")
    finally:
        store.close()


def code(environment_id: str, flags: dict[str, Any]) -> int:
    """Prints a one-time code."""
    with _authority(flags) as authority:
        made = authority.code(flags["name"] or environment_id, environment_id, flags["role"])
    print(dumps({"code": made}) if flags["json"] else made)
    return 0


def list_all(flags: dict[str, Any]) -> int:
    """Prints environments and who may use them."""
    with _authority(flags) as authority:
        found = authority.overview()
    if flags["json"]:
        print(dumps(found))
        return 0
    rows = [
        (
            str(one["environment"]),
            str(one["role"]),
            str(one["name"]),
            str(one["principal"]),
            "online" if one["online"] else ago(one["lastSeen"]) if one["lastSeen"] else "never",
        )
        for one in found
    ]
    print(table(("ENVIRONMENT", "MAY", "NAME", "PRINCIPAL", "SEEN"), rows))
    return 0


def audit(flags: dict[str, Any]) -> int:
    """Prints what has happened."""
    with _authority(flags) as authority:
        found = authority.audit(flags["limit"])
    if flags["json"]:
        print(dumps(found))
        return 0
    rows = [
        (ago(one["at"]), one["what"], one["environment"], one["name"] or one["principal"], one["detail"])
        for one in found
    ]
    print(table(("WHEN", "WHAT", "ENVIRONMENT", "WHO", "MORE"), rows))
    return 0


def revoke(principal: str, flags: dict[str, Any]) -> int:
    """Ends what a principal may do."""
    try:
        with _authority(flags) as authority:
            authority.revoke(principal)
    except OutfitterError as error:
        say(str(error))
        return 1
    if flags["json"]:
        print(dumps({"revoked": principal}))
    else:
        print(f"revoked {principal}", file=sys.stderr)
    return 0
