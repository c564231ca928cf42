"""outfitter serve --remote: flags → credentials → an executor that dials out."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ...errors import SettingInvalid
from ...relay.credentials import FileCredential, StdinCredential, bearer
from ...relay.executor import RemoteExecutor
from ...relay.keys import fingerprint
from ...relay.known import Known, folder
from ...relay.pinned import AcceptedHarnesses, kept_keys
from ...relay.registry import Registry
from ...server.listen import serve_remote as serve
from ..serve import begin_log, settings_of, watchers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...loop import EpollLoop
    from ...relay.carrier import StreamTransport
    from ...relay.keys import Keys

_KEY_VARIABLE = "CODEX_API_KEY"  # what the reference takes


def serve_remote(flags: dict[str, Any]) -> int:
    """Serves through a relay until it is told to end; returns the exit status. Raises SettingInvalid."""
    environment_id = flags["environment_id"]
    if environment_id is None:
        raise SettingInvalid("--remote needs --environment-id: whose executor is this?")
    begin_log(flags)
    loops: list[EpollLoop] = []
    ended: list[str] = []

    def end(why: str) -> None:
        """From a thread that reads standard input."""
        ended.append(why)
        for loop in loops:
            loop.call_soon_threadsafe(loop.stop)

    headers = _headers(flags, environment_id, end)
    keys, accepted = _keys(flags), _accepted(flags)
    registry = Registry(flags["remote"], environment_id, headers, discreet=flags["executor_credential_stdin"])

    def dial_out(
        loop: EpollLoop, connected: Callable[[StreamTransport], None], gave_up: Callable[[str], None]
    ) -> RemoteExecutor:
        loops.append(loop)
        if ended:  # the credentials ended before there was anything to stop
            loop.call_soon(loop.stop)
        executor = RemoteExecutor(loop, registry, connected, gave_up, keys=keys, accepted=accepted)
        executor.on_ready = lambda: _ready(environment_id, registry.text, keys)
        return executor

    if flags["exit_on_stdin_close"] and not flags["executor_credential_stdin"]:
        _watch_stdin(lambda: end(""))
    # Whoever comes through a relay comes from another machine.
    status = serve(settings_of(flags, private=False), dial_out, watchers_of(flags))
    if ended and ended[0]:
        raise SettingInvalid(ended[0])
    return status


def _keys(flags: dict[str, Any]) -> Keys | None:
    path = flags["key_file"]
    return None if path is None else kept_keys(Known(folder(os.environ)), os.path.abspath(path))


def _accepted(flags: dict[str, Any]) -> AcceptedHarnesses | None:
    path, first = flags["authorized_harnesses"], flags["accept_first_harness"]
    if path is None:
        if first:
            raise SettingInvalid("--accept-first-harness needs --authorized-harnesses: where is it written?")
        return None
    return AcceptedHarnesses(os.path.abspath(path), first=first)


def _ready(environment_id: str, registry: str, keys: Keys | None) -> None:
    _say(f"{environment_id} is connected to {registry}")
    if keys is not None:
        _say(f"its key is {fingerprint(keys.public)}")


def _headers(
    flags: dict[str, Any], environment_id: str, end: Callable[[str], None]
) -> Callable[[], dict[str, str]]:
    if flags["executor_credential_stdin"]:
        if flags["credential_file"] is not None:
            raise SettingInvalid("--credential-file cannot be used with --executor-credential-stdin")
        credential = StdinCredential(sys.stdin.buffer, environment_id, time.time, end)
        credential.first()
        return credential.headers
    if flags["credential_file"] is not None:
        return FileCredential(flags["credential_file"]).headers
    if key := os.environ.pop(_KEY_VARIABLE, ""):
        # Commands do not get it: it would let them register in our place.
        return lambda: bearer(key)
    enrolled = Known(folder(os.environ)).token_file(flags["remote"], environment_id, "execute")
    if not os.path.exists(enrolled):
        raise SettingInvalid(
            f"there is no token for {environment_id}: run `outfitter enrol {flags['remote']} --code CODE` "
            "with a code that the owner of the rendezvous gives you, or add --credential-file FILE"
        )
    return FileCredential(enrolled).headers


def _watch_stdin(ended: Callable[[], None]) -> None:
    from threading import Thread

    def read() -> None:
        while os.read(0, 4096):
            pass
        ended()

    Thread(target=read, daemon=True).start()


def _say(text: str) -> None:
    print(text, flush=True)
