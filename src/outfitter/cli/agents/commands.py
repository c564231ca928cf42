"""outfitter agent and outfitter contract as click sees them."""

from __future__ import annotations

from typing import Any

import click

from ..envflags import WHERE
from ..flags import JSON, Flag
from ..options import has

SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_CONTRACT = Flag(
    "--contract", "text", "The launch contract (default: [agents] of the project's outfitter.toml).", "FILE"
)


@click.group("agent")
def agent_group() -> None:
    """Launch agents under a contract."""


@agent_group.command("run")
@has(
    *WHERE,
    _CONTRACT,
    Flag("--kind", "text", "The kind of launch; the contract may declare more.", "KIND", "headless"),
    Flag("--model", "text", "The model that the agent uses.", "NAME"),
    Flag("--add-dir", "list", "Another directory that the agent may use.", "DIR"),
    Flag("--sandbox", "text", "How much the agent may do.", choices=SANDBOXES),
    Flag("--confine", "text", "Run the agent itself in a sandbox of the executor.", choices=SANDBOXES[:2]),
    Flag("--session", "text", "With --kind resume: the session to go on with (default: the last).", "ID"),
    Flag("--home", "text", "The agent's own folder of configuration and sessions.", "DIR"),
    Flag("--env", "pairs", "Set a variable for this launch."),
    Flag("--arg", "list", "Another argument for the agent itself.", "WORD"),
    Flag("--cwd", "text", "Start the agent in this directory of the executor.", "PATH"),
    Flag("--tty", "flag", "Allocate a terminal.", short="-t"),
    Flag("--dry-run", "flag", "Show the command and its environment, and start nothing."),
    Flag("--json", "flag", "Print one JSON line per event, as run does; with --dry-run, a JSON object."),
)
@click.argument("backend", metavar="AGENT")
@click.argument("prompt", nargs=-1, metavar="[-- PROMPT]")
def agent_run_command(backend: str, prompt: tuple[str, ...], **flags: Any) -> int:
    """Start an agent as its launch contract says.

    AGENT is codex, claude, gemini or one that an installed package brings. The exit status is the agent's
    own, or 125 if the contract refuses the launch; then every broken rule is named.
    """
    from .run import run

    return run(backend, " ".join(prompt), flags)


@agent_group.command("list")
@has(JSON)
def agent_list_command(**flags: Any) -> int:
    """List the agents that can be launched, and what each never inherits."""
    from .contracts import list_agents

    return list_agents(flags)


@click.group("contract")
def contract_group() -> None:
    """Check what launches of agents must keep."""


@contract_group.command("check")
@has(
    Flag("--agent", "list", "Check this agent only.", "NAME"),
    Flag("--kind", "list", "Check this kind of launch only.", "KIND"),
    Flag("--env", "pairs", "A variable that the harness passes with every launch."),
    JSON,
)
@click.argument("file", required=False, type=click.Path(), metavar="[FILE]")
def contract_check_command(file: str | None, **flags: Any) -> int:
    """Check every agent and every kind of launch against a contract.

    FILE is a launch contract (default: [agents] of the project's outfitter.toml). The exit status is 1 if
    a rule is broken.
    """
    from .contracts import check

    return check(file, flags)


@contract_group.command("diff")
@has(JSON)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
def contract_diff_command(before: str, after: str, **flags: Any) -> int:
    """Compare two agents, or two versions of a contract.

    A and B are names of agents, or files. The exit status is 1 if they differ.
    """
    from .contracts import diff

    return diff(before, after, flags)


@contract_group.command("init")
@has(
    Flag("--kind", "list", "A kind of launch to write (default: all that ship).", "KIND"),
    Flag("--name", "text", "The name of the contract.", "NAME", "project"),
    Flag("--cwd", "directory", "Take the environment of commands in this directory.", "DIR"),
    JSON,
)
def contract_init_command(**flags: Any) -> int:
    """Print a first contract.

    It requires what a command has here today, except variables that every machine has. Remove what your
    launches do not need.
    """
    from .contracts import init

    return init(flags)
