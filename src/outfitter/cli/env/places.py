"""Which environment a word means: `here`, `login`, `daemon`, a name, a URL, a lock, a directory."""

from __future__ import annotations

import os

from ...errors import SettingInvalid
from ...record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..target import Target
    from ..wishes import Flags

WORDS = "here, login, daemon, lock, a directory (with a slash), the name or ws:// URL of an environment"
LOCK_FILE = "outfitter.lock"


@record
class Compared:
    """An environment that can be compared. `kind` is "folder", "login", "server" or "lock".

    `name` is for people; `path` is the folder that a command would be in, or the lock's file; `target` is the
    server.
    """

    name: str
    kind: str
    path: str = ""
    target: Target | None = None


def place(word: str, flags: Flags) -> Compared:
    """What a word means. Nothing is asked yet. Raises SettingInvalid."""
    from .asking import folder_of

    match word:
        case "here" | "local":
            return Compared(word, "folder", folder_of(flags["cwd"]))
        case "login":
            return Compared(word, "login", folder_of(flags["cwd"]))
        case "lock":
            return Compared(word, "lock", lock_file(None, folder_of(flags["cwd"])))
        case "daemon":
            return _server(word, None, flags)
    if "://" in word or word.startswith("unix:"):
        return _server(word, word, flags)
    is_path = "/" in word or word in (".", "..")
    if (is_path or "." in word) and os.path.isfile(word):  # no environment has a dot in its name
        return Compared(word, "lock", os.path.abspath(word))
    return Compared(word, "folder", folder_of(word)) if is_path else _server(word, word, flags)


def _server(word: str, on: str | None, flags: Flags) -> Compared:
    from ..target import find, is_url, named

    try:
        target = named({**flags, "on": on}) if is_url(word) else find(on, flags["codex_home"])
    except SettingInvalid as error:
        raise SettingInvalid(f"{error}; {word!r} can be {WORDS}") from None
    if target.declared is None:
        raise SettingInvalid("no default server is configured: set `default` in environments.toml")
    # A URL may hold a secret, which its name does not show.
    return Compared(word if on is None else target.name, "server", target=target)


def project_folder(folder: str) -> str:
    """Where the project of a folder begins: where its outfitter.toml is, else the folder itself."""
    from ...contract.config import find_project_file

    found = find_project_file(folder)
    return os.path.realpath(folder) if found is None else os.path.dirname(found)


def lock_file(given: str | None, folder: str) -> str:
    """The lock of a folder: beside the project's outfitter.toml, else in the folder itself."""
    if given is not None:
        return os.path.abspath(given)
    return os.path.join(project_folder(folder), LOCK_FILE)
