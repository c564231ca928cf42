"""outfitter init: a project's outfitter.toml, and the settings that have agents use Outfitter."""

from __future__ import annotations

import os
from json import dumps, loads
from shlex import join
from tomllib import loads as loads_toml
from typing import TYPE_CHECKING, Any

from ..agents.hooks import claude_settings, codex_environments
from ..contract.config import PROJECT_FILE, find_project_file
from ..contract.doctor.fixes import json_text
from ..errors import OutfitterError, SettingInvalid
from ..places import agent_home
from .console import say
from .edits import Edit, offer, text_of
from .env.asking import folder_of
from .env.output import emit_json
from .hook.session import ourselves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

AGENTS = ("codex", "claude")
_PROJECT = """\
# What commands in this project get. `outfitter config schema` has every key, `config show` what applies.
# What is set here waits for `outfitter trust`.

[env]
set = {}
prepend = {}  # PATH = ["bin"]
"""


def init(directory: str | None, flags: dict[str, Any]) -> int:
    """Shows and makes the edits; returns the exit status: 0 if nothing is left. Raises OutfitterError."""
    folder = folder_of(directory)
    agents = flags["agent"] or _installed(os.environ)
    wanted: dict[str, Callable[[], Edit | None]] = {PROJECT_FILE: lambda: project(folder)}
    if "codex" in agents:
        wanted["Codex"] = lambda: codex(os.environ)
    if "claude" in agents:
        wanted["Claude Code"] = lambda: claude(os.environ)
    if not agents and not flags["json"]:
        say("no agent has a home here (~/.codex, ~/.claude): add --agent codex or --agent claude")
    edits, left = [], 0
    for name, find in wanted.items():
        try:
            edit = find()
        except OutfitterError as error:
            say(f"{name}: {error}")
            left += 1
            continue
        if edit is not None:
            edits.append(edit)
        elif not flags["json"]:
            say(f"{name}: nothing to do")
    if flags["json"]:
        told = [{"path": one.path, "why": one.why, "difference": one.difference} for one in edits]
        emit_json({"edits": told})
        return 1 if left or edits else 0
    for edit in edits:
        try:
            left += not offer(edit, yes=flags["yes"])
        except SettingInvalid as error:  # a project may be read-only: the agents' files are not
            say(str(error))
            left += 1
    return 1 if left else 0


def _installed(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that have a home here."""
    homes = {"codex": _codex_home(environ), "claude": _claude_home(environ)}
    return tuple([agent for agent in AGENTS if os.path.isdir(homes[agent])])


def _codex_home(environ: Mapping[str, str]) -> str:
    return agent_home(environ, "CODEX_HOME", ".codex")


def _claude_home(environ: Mapping[str, str]) -> str:
    return agent_home(environ, "CLAUDE_CONFIG_DIR", ".claude")


def project(folder: str) -> Edit | None:
    """A first file for a project that has none."""
    if find_project_file(folder) is not None:
        return None
    return Edit(os.path.join(folder, PROJECT_FILE), None, _PROJECT, "settings of this project")


def codex(environ: Mapping[str, str]) -> Edit | None:
    """Codex runs commands through a server of ours. Raises SettingInvalid, FileInvalid."""
    from ..environments.file import FILE, read

    path = os.path.join(_codex_home(environ), FILE)
    program, *words = ourselves()
    text = codex_environments(program, words)
    before = text_of(path)
    if before is None:
        return Edit(path, None, text, "Codex runs commands through Outfitter")
    known = read(path)  # who has mistakes in it mends them first
    if known is not None and any(_is_ours(one.program, one.args) for one in known.environments):
        return None
    if known is not None and any(one.id == "outfitter" for one in known.environments):
        raise SettingInvalid(f"an environment in {path} is named `outfitter` already: rename it")
    kept = before.rstrip("\r\n")
    added = ("\n\n" if kept else "") + text[text.index("[[environments]]") :]
    after = kept + (added.replace("\n", "\r\n") if "\r\n" in before else added)
    try:
        loads_toml(after.removeprefix("\ufeff"))
    except ValueError:
        raise SettingInvalid(
            f"{path} has its environments as one list: write a [[environments]] table for each first"
        ) from None
    return Edit(path, before, after, 'Codex can run commands through Outfitter: default = "outfitter"')


def _is_ours(program: str | None, args: Sequence[str]) -> bool:
    """Whether an environment is a server of Outfitter that Codex starts."""
    return program is not None and "serve" in args and any("outfitter" in word for word in (program, *args))


def claude(environ: Mapping[str, str]) -> Edit | None:
    """Claude Code's hooks apply a project's environment. Raises SettingInvalid."""
    path = os.path.join(_claude_home(environ), "settings.json")
    before = text_of(path)
    ours = claude_settings(join([*ourselves(), "hook", "claude"]))
    after = merged(before, ours, path)
    if after is None:
        return None
    return Edit(path, before, after, "Claude Code applies the environment of each project")


def merged(before: str | None, ours: dict[str, Any], path: str) -> str | None:
    """Settings with our hooks behind those that are there; None if ours are there. Raises SettingInvalid."""
    try:
        settings = loads(before) if before and before.strip() else {}
    except (ValueError, RecursionError):
        raise SettingInvalid(
            f"{path} is not JSON: add what `outfitter hook claude --print-settings` prints"
        ) from None
    hooks = settings.setdefault("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict):
        raise SettingInvalid(
            f"{path} has no table of hooks: add what `outfitter hook claude --print-settings` prints"
        )
    changed = False
    for event, entries in ours["hooks"].items():
        there = hooks.setdefault(event, [])
        if not isinstance(there, list):
            raise SettingInvalid(f"hooks.{event} in {path} is not a list: correct it first")
        if "hook claude" not in dumps(there):
            there.extend(entries)
            changed = True
    try:
        return json_text(settings, before or "") if changed else None
    except (ValueError, RecursionError):
        raise SettingInvalid(
            f"{path} cannot be edited safely: add what `outfitter hook claude --print-settings` prints"
        ) from None
