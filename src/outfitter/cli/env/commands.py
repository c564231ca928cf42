"""outfitter env and its commands as click sees them."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ..envflags import CWD, ENV, ENV_EXPLAIN, KIND, VALUES, WHERE, WISHES
from ..flags import JSON, Flag
from ..options import has

# As in env.export, which need not be imported for a list of words.
FORMATS = ("json", "shell", "fish", "powershell", "dotenv", "github", "claude")

_FILE = Flag("--file", "text", "Use this lock instead of outfitter.lock.", "FILE")


def _check_values(flags: dict[str, Any]) -> None:
    if flags["show_secrets"] and not flags["values"]:
        raise click.UsageError("--show-secrets prints secrets in plain text: add --values to confirm")


def _variables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return sorted(name for name in os.environ if name.startswith(incomplete))


def _places(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ...environments.file import load
    from ...errors import SettingInvalid

    words = ["here", "login", "daemon", "lock"]
    try:
        words += [one.id for one in load(os.environ, ctx.params.get("codex_home")).environments]
    except SettingInvalid:
        pass  # no time to complain
    return [word for word in words if word.startswith(incomplete)]


@click.group("env", invoke_without_command=True)
@has(*ENV)
@click.pass_context
def env_group(ctx: click.Context, /, **flags: Any) -> int:
    """Show the environment that commands get.

    Lists the names of variables, grouped by the layer that they come from. --values shows values too.
    """
    if ctx.invoked_subcommand is not None:
        for name in flags:
            if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                option = "--" + name.replace("_", "-")
                raise click.UsageError(
                    f"write {option} after the command: outfitter env {ctx.invoked_subcommand} {option}"
                )
        return 0
    _check_values(flags)
    from .show import show

    return show(flags)


@env_group.command("explain")
@has(*ENV_EXPLAIN)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_variables)
def explain_command(names: tuple[str, ...], **flags: Any) -> int:
    """Explain where variables come from and why some are missing.

    NAME is a variable or a program. For a program, shows its file and which entry of PATH leads to it.
    Without a NAME, explains every variable briefly.
    """
    _check_values(flags)
    from .explain import explain

    return explain(names, flags)


@env_group.command("diff")
@has(*WHERE[1:], CWD, KIND, VALUES[0], JSON)
@click.argument("a", shell_complete=_places)
@click.argument("b", shell_complete=_places)
def diff_command(a: str, b: str, **flags: Any) -> int:
    """Compare two environments.

    A and B can be `here`, `login` (the environment of a login shell), `daemon` (the configured default
    server), the name or ws:// URL of an executor, `lock` or a lock file, or a directory (`.`, `./sub`).

    The exit status is 0 if they are the same, 1 if they differ, and 2 on an error.
    """
    from .diff import diff

    return diff(a, b, flags)


@env_group.command("export")
@has(*WHERE, CWD, *WISHES)
@click.option("--format", type=click.Choice(FORMATS), help="The format to print.")
@has(
    Flag("--only", "list", "Print only variables whose name matches (* and ?).", "PATTERN"),
    Flag("--changed", "flag", "Print only what differs from the environment of this shell."),
    Flag("--show-secrets", "flag", "Print secrets too, in plain text; refused on a terminal."),
    Flag("--json", "flag", "The same as --format json."),
)
def export_command(**flags: Any) -> int:
    """Print the environment for a shell or another tool."""
    if (flags["format"] is None) != flags["json"]:
        raise click.UsageError(f"name one format: --format {'|'.join(FORMATS)}, or --json")
    flags["format"] = flags["format"] or "json"
    if flags["show_secrets"] and sys.stdout.isatty():
        raise click.UsageError(
            "--show-secrets does not print to a terminal: redirect the output to a file or a program"
        )
    from .export import export

    return export(flags)


@env_group.command("lock")
@has(
    CWD,
    _FILE,
    Flag("--layers", "list", "Lock project (default), all, or L0 to L6 (repeatable).", "LAYER"),
    Flag("--only", "list", "Lock variables that match this pattern only (repeatable).", "PATTERN"),
    Flag("--tool", "list", "Record the version of this program only (repeatable).", "NAME"),
    JSON,
)
def lock_command(**flags: Any) -> int:
    """Record the environment in outfitter.lock, without values.

    The lock covers what the project brings along, so it holds on every machine. `outfitter env check`
    compares the environment with this lock later.
    """
    from .lock import lock

    return lock(flags)


@env_group.command("check")
@has(CWD, _FILE, JSON)
def check_command(**flags: Any) -> int:
    """Compare the environment with its lock.

    The exit status is 0 if nothing has changed, 1 if something has, and 2 on an error.
    """
    from .check import check

    return check(flags)


_SESSION = (
    *WHERE,
    Flag("--scope", "text", "With --on: ID of the agent session.", "ID"),
    Flag("--dir", "text", "Use the worktree of this directory instead of the current one.", "DIR"),
)


def _check_session(flags: dict[str, Any]) -> None:
    if flags["on"] is None or flags["on"] == "local":
        if flags["scope"] is not None:
            raise click.UsageError("--scope names a session of a running server: add --on to name the server")
    elif flags["scope"] is None:
        raise click.UsageError("a server keeps variables per session: add --scope ID")


@env_group.command("set")
@has(
    *_SESSION, Flag("--secret", "flag", "With --on: treat the values as secrets, whatever their names."), JSON
)
@click.argument("words", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_command(words: tuple[str, ...], **flags: Any) -> int:
    """Set variables for all later commands.

    Sets them for a worktree, or with --on and --scope for an agent session on a running server.

    For a NAME without a value, reads the value from standard input, without echo on a terminal. Secrets are
    never written to disk: set them on a running server. The exit status is 1 if a variable was refused.
    """
    _check_session(flags)
    from .set import set_variables

    return set_variables(words, flags)


@env_group.command("unset")
@has(*_SESSION, Flag("--forget", "flag", "Undo an earlier set or unset instead."), JSON)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_variables)
def unset_command(names: tuple[str, ...], **flags: Any) -> int:
    """Remove variables from the environment of all later commands."""
    _check_session(flags)
    from .unset import unset_variables

    return unset_variables(names, flags)


@env_group.command("overlay")
@has(
    *_SESSION,
    Flag("--import", "text", "Read variables from a file of `export` lines; - is stdin.", "FILE"),
    Flag("--hook", "text", "With --import: FILE is the JSON that this hook printed.", "NAME"),
    Flag("--strict", "flag", "With --import: add nothing if a line is refused."),
    Flag("--drop", "text", "Remove everything that this producer added.", "PRODUCER"),
    JSON,
)
def overlay_command(**flags: Any) -> int:
    """List what producers add to all later commands.

    With --import, reads variables from a file. The file is not run by a shell: lines other than assignments
    are refused.
    """
    if flags["import"] is not None and flags["drop"] is not None:
        raise click.UsageError("--import and --drop cannot be used together")
    _check_session(flags)
    if flags["hook"] is not None and flags["import"] is None:
        raise click.UsageError("--hook needs --import FILE, or --import - for standard input")
    from .overlay import overlay

    return overlay(flags)


@env_group.command("list")
@has(
    Flag("--codex-home", "text", "List those of this Codex home instead of Outfitter's.", "DIR"),
    Flag("--json", "flag", "Print a JSON list."),
)
def list_command(**flags: Any) -> int:
    """List the named environments and their states.

    The default environment is marked with *.
    """
    from ..environments import list_environments

    return list_environments(flags)
