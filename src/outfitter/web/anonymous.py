"""An explanation for somebody else: without the host, the user and the process that it is about."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = Any  # what `env.explain` makes

# Facts of the base that say whose machine it is.
_FACTS = ("host", "user", "pid")
# Variables that say the same; their values are on a page only for who asked for values.
_NAMES = ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "HOST", "MAIL", "SSH_CLIENT", "SSH_CONNECTION")


def anonymous(told: Json, homes: Sequence[str] = ()) -> Json:
    """The same explanation without host, user and pid; the user's home directory is `~` wherever it is named.

    `homes` are home directories that are known; those that the user's name gives are found here.
    """
    base = told.get("base") if isinstance(told.get("base"), dict) else {}
    user = base.get("user")
    known = [*homes, *((f"/home/{user}", f"/Users/{user}") if isinstance(user, str) and user else ())]
    # Longest first. `/` is nobody's, and `/root` and shorter ones tell nobody's name.
    usable = sorted({home.rstrip("/") for home in known if home.rstrip("/").count("/") > 1}, key=len)
    found = re.compile("|".join(f"{re.escape(home)}(?![^/:;, ()'\"])" for home in reversed(usable)))

    def without(value: Json) -> Json:
        if isinstance(value, str):
            return found.sub("~", value) if usable else value
        if isinstance(value, dict):
            return {without(name): without(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [without(one) for one in value]
        return value

    variables = dict(told.get("variables") or {})
    for name in _NAMES:
        if isinstance(entry := variables.get(name), dict):
            history = [_without_value(event) for event in entry.get("history") or ()]
            variables[name] = {**_without_value(entry), "history": history}
    kept = {name: value for name, value in base.items() if name not in _FACTS}
    return without({**told, "base": kept, "variables": variables})


def _without_value(entry: Json) -> Json:
    if not isinstance(entry, dict):
        return entry
    return {name: value for name, value in entry.items() if name != "value"}
