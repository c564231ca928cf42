"""Agents whose hooks we are: what an earlier hook has written stays in a session, whoever wrote it."""

from __future__ import annotations

import os
from shlex import quote

from ...openers import plain_file
from ...places import agent_home
from ...record import record
from .check import Check, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

MARK = b"# >>> outfitter hook >>>"  # that of `agents.hooks`
_MANAGED = "/etc/claude-code/managed-settings.json"
_MOST_SESSIONS = 500  # that are looked at: those of months
_LARGEST = 1 << 20  # of a file that is read; what hooks write has 64 KiB


@record
class ClaudeHooks:
    """What Claude Code has of ours: its folder of sessions, those with our part, whether a hook is set."""

    folder: str
    sessions: tuple[str, ...]
    configured: bool


def claude(machine: Machine) -> ClaudeHooks:
    folder = f"{_home(machine)}/session-env"
    found = []
    try:
        for session in sorted(os.listdir(folder))[:_MOST_SESSIONS]:
            if any(
                MARK in read_bytes(f"{folder}/{session}/{name}") for name in _names(f"{folder}/{session}")
            ):
                found.append(session)
    except OSError:
        pass  # there is no such agent here
    configured = any(b"hook claude" in read_bytes(path) for path in settings_files(machine))
    return ClaudeHooks(folder, tuple(found), configured)


def _home(machine: Machine) -> str:
    return agent_home(machine.environ, "CLAUDE_CONFIG_DIR", ".claude")


def settings_files(machine: Machine) -> list[str]:
    """Where Claude Code reads its settings: the user's, the project's, and the machine's."""
    places = (_home(machine), f"{machine.cwd}/.claude")
    return [*(f"{place}/settings{kind}.json" for place in places for kind in ("", ".local")), _MANAGED]


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".sh")]
    except OSError:
        return []


def read_bytes(path: str) -> bytes:
    """What a file begins with; nothing if it is not there."""
    try:
        with open(path, "rb", opener=plain_file) as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def claude_hooks(claude: ClaudeHooks) -> Finding:
    if claude.configured or not claude.sessions:
        how = (
            "the hook is set up"
            if claude.configured
            else "no session of Claude Code has variables of the hook"
        )
        return Finding("ok", how)
    count = len(claude.sessions)
    return Finding(
        "warning",
        f"sessions of Claude Code have variables of a hook that neither your settings nor those of this "
        f"project run: {count}; when resumed, their commands have old values",
        [f"{claude.folder}/{session}" for session in claude.sessions[:3]],
        f"Run `rm -r {quote(claude.folder)}`, unless another project's settings run the hook.",
    )


CHECKS = (Check("agents.claude", (claude,), claude_hooks),)
