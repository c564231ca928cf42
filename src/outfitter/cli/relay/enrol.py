"""outfitter enrol: a one-time code becomes a token of this user."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import Any

from ...errors import SettingInvalid
from ...protocol.registry import EXECUTE, EXECUTE_POOL, ROLES, USE, is_environment_id
from ...relay.credentials import FileCredential
from ...relay.keys import fingerprint
from ...relay.known import Known, folder
from ...relay.pinned import kept_keys
from ...relay.registry import enrol as ask
from ...relay.registry import rotate as ask_to_rotate


def key(flags: dict[str, Any]) -> int:
    """Prints the key of this user as a harness."""
    known = Known(folder(os.environ))
    own = fingerprint(kept_keys(known, known.key_file).public)
    print(dumps({"key": own}) if flags["json"] else own)
    return 0


def rotate(url: str, environment_id: str, flags: dict[str, Any]) -> int:
    """Keeps a new token in place of the old one. Raises SettingInvalid, DialFailed."""
    if not is_environment_id(environment_id):
        raise SettingInvalid(f"`{environment_id}` is no environment id")
    known = Known(folder(os.environ))
    path = known.token_file(url, environment_id, flags["role"])
    known.check_room()
    answer = ask_to_rotate(url, FileCredential(path).headers)
    known.keep(path, answer.token + "\n")
    if flags["json"]:
        print(dumps({"file": path, "graceSeconds": answer.grace}))
    else:
        print(f"{path} has a new token; the old one works for {answer.grace // 60} minutes more")
    return 0


def enrol(url: str, flags: dict[str, Any]) -> int:
    """Keeps the token of a code. Raises SettingInvalid, DialFailed."""
    code = flags["code"]
    if code == "-":
        code = sys.stdin.readline().strip()
    if not code:
        raise SettingInvalid("--code needs the one-time code that the owner of the rendezvous gives you")
    known = Known(folder(os.environ))
    known.check_room()
    answer = ask(url, code)
    if not is_environment_id(answer.environment_id) or answer.role not in ROLES:
        raise SettingInvalid(f"{url} answered with an environment that cannot be named")
    path = known.token_file(url, answer.environment_id, answer.role)
    known.keep(path, answer.token + "\n")
    if flags["json"]:
        shown = {"environment": answer.environment_id, "role": answer.role, "tokenFile": path}
        print(dumps(shown))
        return 0
    if answer.role == EXECUTE:
        following = f"outfitter serve --remote {url} --environment-id {answer.environment_id}"
        print(f"this machine may be the executor of {answer.environment_id}; start it:\n  {following}")
    elif answer.role == USE:
        following = f"outfitter run --on noise+{url.rstrip('/')}/{answer.environment_id} -- COMMAND"
        print(f"you may run commands on {answer.environment_id}:\n  {following}")
    elif answer.role == EXECUTE_POOL:
        print(f"executors of the pool {answer.environment_id} may be on this machine")
    else:
        following = f'relay = "{url.rstrip("/")}/{answer.environment_id}"'
        print(
            f"you may have pools on the executors of {answer.environment_id}; in pools.toml:\n  {following}"
        )
    return 0
