"""outfitter hook and its commands as click sees them."""

from __future__ import annotations

from typing import Any

import click

from ..flags import HOOK_CLAUDE, HOOK_CODEX
from ..options import has


@click.group("hook")
def hook_group() -> None:
    """For the hooks of agents: give the commands of a session the project's environment."""


@hook_group.command("claude")
@has(*HOOK_CLAUDE)
def claude_command(**flags: Any) -> int:
    """Read a hook's input of Claude Code on stdin, and write the environment to $CLAUDE_ENV_FILE.

    For SessionStart, CwdChanged and FileChanged. What to put into settings.json: --print-settings. A session
    is never held up: what goes wrong is told in one line, and the exit status is 0.
    """
    from .claude import claude

    return claude(flags)


@hook_group.command("codex")
@has(*HOOK_CODEX)
def codex_command(**flags: Any) -> int:
    """Read a SessionStart hook's input of Codex on stdin, and tell the model about the environment.

    Codex 0.166.0 takes no variables from a hook. Its commands get the environment from a server of ours:
    --print-environments.
    """
    from .codex import codex

    return codex(flags)
