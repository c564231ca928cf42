"""The environment rules once more, straight from their description and with none of our code."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

CORE = ["PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"]
NEVER = [
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "NODE_REPL_AUTH_TOKEN",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
]
OWN_SWITCH = "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"  # in exactly these letters
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def lower(name: str) -> str:
    return name.translate(_LOWER)


def matches(name: str, patterns: Sequence[str]) -> bool:
    for pattern in patterns:
        rule = re.escape(pattern.lower()).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(rule, name.lower(), re.DOTALL):
            return True
    return False


def is_any(name: str, names: Sequence[str]) -> bool:
    """Fixed lists are compared without regard to ASCII case; patterns without regard to any."""
    return lower(name) in [lower(item) for item in names]


def never_passes(name: str) -> bool:
    return is_any(name, NEVER) or name == OWN_SWITCH


def inherited(
    server: Mapping[str, str],
    inherit: str,
    ignore_default_excludes: bool,
    exclude: Sequence[str],
    set_: Mapping[str, str],
    include_only: Sequence[str],
) -> dict[str, str]:
    """Steps 1 to 6 of a policy."""
    if inherit == "all":
        out = dict(server)
    elif inherit == "core":
        out = {name: value for name, value in server.items() if is_any(name, CORE)}
    else:
        out = {}
    if not ignore_default_excludes:
        secret = ["*KEY*", "*SECRET*", "*TOKEN*"]
        out = {name: value for name, value in out.items() if not matches(name, secret)}
    out = {name: value for name, value in out.items() if not matches(name, exclude)}
    out.update(set_)
    if include_only:
        out = {name: value for name, value in out.items() if matches(name, include_only)}
    return {name: value for name, value in out.items() if not never_passes(name)}


def resolved(start: Mapping[str, str], request: Mapping[str, str], login_shell: str | None) -> dict[str, str]:
    """Step 7, the names that never pass, and SHELL for a terminal."""
    out = {name: value for name, value in {**start, **request}.items() if not never_passes(name)}
    if login_shell is not None and "SHELL" not in out:
        out["SHELL"] = login_shell
    return out
