"""outfitter serve --remote: flags → credentials → an executor that dials out."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ...errors import SettingInvalid
from ...host.uids import ours
from ...protocol.registry import EXECUTE
from ...relay.credentials import FileCredential, StdinCredential, bearer
from ...relay.direct import DirectExecutor, signer_of
from ...relay.executor import RemoteExecutor
from ...relay.keys import fingerprint
from ...relay.known import Known, folder
from ...relay.pinned import AcceptedHarnesses, kept_keys
from ...relay.reach import token_file
from ...relay.registry import Registry
from ...server.dialled import serve_remote as serve
from ...server.listen import end_with_stdin
from ..announce import announce
from ..serve import begin_log, settings_of, watchers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.noise import PublicKey
    from ...loop import EpollLoop
    from ...relay.direct import Signer
    from ...relay.keys import Keys

_KEY_VARIABLE = "CODEX_API_KEY"  # what the reference takes


class Remote:
    """What the flags of an executor that dials out come to."""

    def __init__(self, flags: dict[str, Any], destination: str | None = None) -> None:
        """`destination` is the server that streams go on to, if it is not this one. Raises SettingInvalid."""
        self._as_json: bool = flags["json"]
        self._limits = ""
        self._destination = destination
        self._environment_id: str = flags["environment_id"]
        if self._environment_id is None:
            raise SettingInvalid("--remote needs --environment-id: whose executor is this?")
        self._loop: EpollLoop | None = None
        self._public: PublicKey | None = None
        self._ended: list[str] = []
        stdin = flags["executor_credential_stdin"]
        self._keys, self._accepted = _keys(flags), _accepted(flags)
        self._signer = _signer(flags)
        headers = dict if self._signer else _headers(flags, self._environment_id, self._end)
        self._registry = Registry(
            flags["remote"], self._environment_id, headers, discreet=stdin, sign=self._signer
        )
        self._ends_with_stdin = flags["exit_on_stdin_close"] and not stdin

    def _end(self, why: str) -> None:
        """From a thread that reads standard input."""
        self._ended.append(why)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def executor(
        self,
        loop: EpollLoop,
        connected: Callable[[Any], None],  # a transport of either kind
        gave_up: Callable[[str], None],
    ) -> RemoteExecutor | DirectExecutor:
        """Raises SettingInvalid."""
        self._loop = loop
        if self._ends_with_stdin:
            end_with_stdin(loop)
        if self._ended:  # before there was anything to stop
            loop.call_soon(loop.stop)
        executor: RemoteExecutor | DirectExecutor
        if self._signer is not None:
            executor = DirectExecutor(loop, self._registry, self._signer, connected, gave_up)
        else:
            executor = RemoteExecutor(
                loop, self._registry, connected, gave_up, keys=self._keys, accepted=self._accepted
            )
            self._public = executor.public
        executor.on_ready = self._ready
        return executor

    def limited(self, by: str) -> None:
        """By what commands are limited: a part of the line that follows."""
        self._limits = by

    def _ready(self) -> None:
        if self._as_json:
            announce(self._told(), self._limits)
            return
        print(f"{self._environment_id} is connected to {self._registry.text}", flush=True)
        if self._public is not None:
            print(f"its key is {fingerprint(self._public)}", flush=True)

    def _told(self) -> dict[str, object]:
        registry, environment = self._registry.text, self._environment_id
        told: dict[str, object] = {"environment": environment, "registry": registry}
        if self._public is not None:  # else the service alone knows how its users get here
            told = {"url": f"noise+{registry}/{environment}", **told, "key": fingerprint(self._public)}
        return told if self._destination is None else {**told, "connect": self._destination}

    def check(self) -> None:
        """Raises SettingInvalid, if it had to end for what came on standard input."""
        if self._ended and self._ended[0]:
            raise SettingInvalid(self._ended[0])


def serve_remote(flags: dict[str, Any]) -> int:
    """Serves through a relay until it is told to end; returns the exit status. Raises SettingInvalid."""
    begin_log(flags)
    if flags["keepalive"] is not None:
        raise SettingInvalid("--keepalive needs --listen, and cannot be used with --remote")
    if flags["fence"] is not None and flags["remote_transport"] == "direct":
        raise SettingInvalid("--fence cannot be used with --remote-transport direct: nobody asks its clients")
    remote = Remote(flags)
    # Whoever comes through a relay comes from another machine.
    limited = remote.limited if flags["json"] else None
    status = serve(settings_of(flags, private=False), remote.executor, watchers_of(flags), limited)
    remote.check()
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
    return AcceptedHarnesses(os.path.abspath(path), first=first, owners=ours)


def _signer(flags: dict[str, Any]) -> Signer | None:
    direct = flags["remote_transport"] == "direct"
    if direct != flags["aws_sigv4"]:
        raise SettingInvalid("--remote-transport direct and --aws-sigv4 need each other")
    if not direct:
        return None
    others = ("credential_file", "executor_credential_stdin", "key_file", "authorized_harnesses")
    for option in others:
        if flags[option]:
            raise SettingInvalid(f"--{option.replace('_', '-')} cannot be used with --aws-sigv4")
    signer = signer_of(os.environ, flags["aws_region"], flags["aws_service"])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)  # as with the key below
    return signer


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
    enrolled = token_file(Known(folder(os.environ)), flags["remote"], environment_id, EXECUTE)
    if not os.path.exists(enrolled):
        raise SettingInvalid(
            f"there is no token for {environment_id}: run `outfitter enrol {flags['remote']} --code CODE` "
            "with a code that the owner of the rendezvous gives you, or add --credential-file FILE"
        )
    return FileCredential(enrolled).headers
