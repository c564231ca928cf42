"""Where the user's configuration is. Small, because a server looks there before it listens."""

from __future__ import annotations

import os

from .earlyerrors import SettingInvalid
from .system import account_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USER_FILE = "config.toml"
ENVIRONMENTS_FILE = "environments.toml"


def user_file(environ: Mapping[str, str]) -> str:
    """The path of the user's file, whether it exists or not. Raises SettingInvalid when nobody tells."""
    if home := environ.get("OUTFITTER_HOME"):
        return os.path.join(os.path.abspath(home), USER_FILE)
    config = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(config):  # else it is to be ignored, says the specification
        return os.path.join(config, "outfitter", USER_FILE)
    if home := environ.get("HOME") or account_home():
        return os.path.join(os.path.abspath(home), ".config", "outfitter", USER_FILE)
    raise SettingInvalid(
        "no directory for configuration is known: set HOME, XDG_CONFIG_HOME or OUTFITTER_HOME"
    )


def environments_file(environ: Mapping[str, str]) -> str:
    """The path of the user's named environments, whether it exists or not. Raises SettingInvalid."""
    return os.path.join(os.path.dirname(user_file(environ)), ENVIRONMENTS_FILE)


def codex_file(environ: Mapping[str, str]) -> str:
    """The path of Codex's config.toml, whether it exists or not. Raises SettingInvalid."""
    if home := environ.get("CODEX_HOME"):
        return os.path.join(os.path.abspath(home), USER_FILE)
    if home := environ.get("HOME") or account_home():
        return os.path.join(os.path.abspath(home), ".codex", USER_FILE)
    raise SettingInvalid("no directory for Codex's configuration is known: set HOME or CODEX_HOME")


def agent_home(environ: Mapping[str, str], variable: str, name: str) -> str:
    """An agent's own folder: what its variable says, else `name` in the home directory. One that is relative
    counts from here, as the agents themselves read it."""
    if given := environ.get(variable):
        return os.path.abspath(given)
    home = environ.get("HOME") or account_home() or "/"
    return os.path.join(os.path.abspath(home), name)


def kept_folder(state_folder: str) -> str:
    """Where the user's own variables for each worktree are kept."""
    return f"{state_folder}/overlays"


def scopes_folder(state_folder: str) -> str:
    """Where is kept what sessions were given, for the next server."""
    return f"{state_folder}/scopes"
