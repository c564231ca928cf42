"""Whose environment the commands of a server start from: its own, ours, or ours over its own.

Our environment is sent to nobody but a server of this user on this machine, reached over loopback: its word
is not enough, its process is looked for.
"""

from __future__ import annotations

import os

from ..errors import SettingInvalid
from ..host import facts
from ..plain import is_text
from ..system import LINUX
from ..transport.address import LOOPBACK, usual_address
from ..transport.unix import PREFIX
from .console import say
from .wishes import from_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.client import Client
    from ..protocol.environment import BaseParams
    from ..protocol.jsontext import Json
    from ..protocol.session import EnvironmentInfo
    from .target import Target


def directory(client: Client, target: Target, given: str | None) -> str | None:
    """Where a command is to run: on a server of ours, on this machine, from where we are.

    Raises SettingInvalid.
    """
    if target.declared is None or why_stranger(client.info, target.declared.url) is not None:
        return given  # relative to where the server is
    return from_here(given)


async def agree(client: Client, target: Target, wanted: str | None, *, compare: bool) -> Json:
    """Has the server start commands from the environment that `wanted`, or else the configuration, says.

    Returns in what the server's own environment differs from ours, by name; None when they were not
    compared. `compare` has them compared even if nothing else is to be done. Raises OutfitterError.
    """
    if target.declared is None:
        return None  # this machine's commands start from our environment anyway
    stranger = why_stranger(client.info, target.declared.url)
    if stranger is not None:
        if wanted in ("client", "merge"):
            raise SettingInvalid(
                f"--from {wanted} would send this environment to another user or machine: {stranger}"
            )
        return None
    rule = wanted or configured()
    if rule == "daemon" and not compare:
        return None  # as it is anyway
    result = await client.base(_params(rule))
    return result.get("differences")


def configured() -> str:
    """Raises FileInvalid."""
    from ..places import user_file

    try:
        if not os.path.lexists(user_file(os.environ)):
            return "daemon"  # as for most: nothing else need be loaded to know it
    except SettingInvalid:
        return "daemon"  # there is no place for a file
    from ..contract.config import load

    return load(os.environ, None).daemon_environment


def _params(rule: str) -> BaseParams:
    import secrets

    from ..env.fingerprint import value_digest
    from ..protocol.environment import BaseParams
    from ..providers import inherited

    ours = inherited.load()
    if rule == "daemon":
        key = secrets.token_bytes(32)
        digests = {name: value_digest(key, name, value) for name, value in ours.items() if is_text(name)}
        return BaseParams(rule, os.getpid(), None, key, digests)
    env = {name: value for name, value in ours.items() if is_text(name) and is_text(value)}
    if len(env) < len(ours):
        say(f"{len(ours) - len(env)} variables are not sent, because they are not UTF-8")
    return BaseParams(rule, os.getpid(), env)


def why_stranger(info: EnvironmentInfo | None, url: str | None) -> str | None:
    """Why a server may not know our environment; None when it is one of ours, on this machine."""
    if url is None:
        return "a server that is started as a program has an environment of its own"
    if url.startswith("noise+"):
        return "the executor is reached through a relay"
    if not url.startswith(PREFIX) and not _is_loopback(url):
        return "the address of the server is not a loopback address of this machine"
    if info is None or "environmentContract" not in info.capabilities:
        return "the server does not support the environment contract"
    base: Any = info.raw.get("base") if isinstance(info.raw, dict) else None
    if not isinstance(base, dict):
        return "the server does not say which process it is"
    if base.get("host") != os.uname().nodename or base.get("user") != facts.user():
        return "the server belongs to another user or runs on another machine"
    if not _is_ours(base.get("pid")):
        return "this user has no such server process on this machine"
    return None


def _is_loopback(url: str) -> bool:
    if usual_address(url) is not None:
        return True
    from urllib.parse import urlsplit

    return urlsplit(url).hostname in LOOPBACK


def server_pid(info: EnvironmentInfo | None, url: str | None) -> int:
    """The process of a server that is ours, on this machine; 0 for any other."""
    if info is None or why_stranger(info, url) is not None:
        return 0
    base: Any = info.base
    return int(base["pid"])


def _is_ours(pid: object) -> bool:
    if type(pid) is not int or pid <= 0:
        return False
    try:
        if LINUX:
            return os.stat(f"/proc/{pid}").st_uid == os.getuid()
        os.kill(pid, 0)  # which only root may ask about others
    except OSError:
        return False
    return True
