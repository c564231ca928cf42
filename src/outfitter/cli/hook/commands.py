"""outfitter hook and its commands as click sees them."""

from __future__ import annotations

from typing import Any

import click

from ..envflags import HOOK_CLAUDE, HOOK_CODEX
from ..options import has


@click.group("hook")
def hook_group() -> None:
    """Apply a project's environment from an agent's hook."""


@hook_group.command("claude")
@has(*HOOK_CLAUDE)
def claude_command(**flags: Any) -> int:
    """Apply the environment to a Claude Code session.

    Reads the input of a SessionStart, CwdChanged or FileChanged hook from stdin and writes the environment
    to $CLAUDE_ENV_FILE. To install the hook, see --print-settings.

    A problem never blocks the session: the hook reports it in one line and exits with status 0.
    """
    from .claude import claude

    return claude(flags)


@hook_group.command("codex")
@has(*HOOK_CODEX)
def codex_command(**flags: Any) -> int:
    """Describe the environment to the model of a Codex session.

    Reads the input of a SessionStart hook from stdin.

    Codex 0.166.0 does not accept variables from a hook. Its commands get the environment from an Outfitter
    server instead: see --print-environments.
    """
    from .codex import codex

    return codex(flags)
