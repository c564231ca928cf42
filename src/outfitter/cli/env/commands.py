"""outfitter env and its commands as click sees them."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ..flags import CWD, ENV, ENV_EXPLAIN, JSON, VALUES, WHERE, WISHES, Flag
from ..options import has

# As in env.export, which need not be imported for a list of words.
FORMATS = ("json", "shell", "fish", "powershell", "dotenv", "github", "claude")

_FILE = Flag("--file", "text", "The lock, instead of outfitter.lock.", None, "FILE")


def _check_values(flags: dict[str, Any]) -> None:
    if flags["show_secrets"] and not flags["values"]:
        raise click.UsageError(
            "--show-secrets prints secrets in plain text: say --values as well if you mean it"
        )


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
    """Show the environment that a command would get: names by the layer that they come from.

    Values are shown only when they are asked for. The commands below tell more.
    """
    if ctx.invoked_subcommand is not None:
        for name in flags:
            if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                option = "--" + name.replace("_", "-")
                raise click.UsageError(
                    f"{option} goes behind the command: outfitter env {ctx.invoked_subcommand}"
                )
        return 0
    _check_values(flags)
    from .show import show

    return show(flags)


@env_group.command("explain")
@has(*ENV_EXPLAIN)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_variables)
def explain_command(names: tuple[str, ...], **flags: Any) -> int:
    """Say why variables are what they are, and where those that are missing went.

    NAME is a variable, or a program: then its file is told, and whose entry of PATH leads there. Without any,
    everything is told in short.
    """
    _check_values(flags)
    from .explain import explain

    return explain(names, flags)


@env_group.command("diff")
@has(*WHERE[1:], CWD, VALUES[0], JSON)
@click.argument("a", shell_complete=_places)
@click.argument("b", shell_complete=_places)
def diff_command(a: str, b: str, **flags: Any) -> int:
    """Compare two environments: names, and the entries of lists.

    A and B are `here`, `login` (what a login shell makes of it), `daemon` (the configured default server),
    the name or ws:// URL of an environment, `lock` or a lock file, or a directory (`.`, `./sub`).

    The exit status is 0 when they are the same, 1 when they differ, 2 for trouble.
    """
    from .diff import diff

    return diff(a, b, flags)


@env_group.command("export")
@has(*WHERE, CWD, *WISHES)
@click.option("--format", type=click.Choice(FORMATS), required=True, help="For whom it is written.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Only variables whose name matches (* and ?).")
@click.option("--changed", is_flag=True, help="Only what differs from the environment of this command line.")
@click.option("--show-secrets", is_flag=True, help="Secrets as well, in plain text; not to a terminal.")
def export_command(**flags: Any) -> int:
    """Print the environment that a command would get, in the words of a shell or a tool."""
    if flags["show_secrets"] and sys.stdout.isatty():
        raise click.UsageError(
            "secrets are not printed on a terminal: send the output to a file or a program"
        )
    from .export import export

    return export(flags)


@env_group.command("lock")
@has(CWD, _FILE)
@click.option(
    "--tool", multiple=True, metavar="NAME", help="Note the version of this program, and of no others."
)
def lock_command(**flags: Any) -> int:
    """Write down what the environment is, without any value, so that `env check` notices when it changes."""
    from .lock import lock

    return lock(flags)


@env_group.command("check")
@has(CWD, _FILE, JSON)
def check_command(**flags: Any) -> int:
    """Compare the environment with its lock.

    The exit status is 0 when nothing has changed, 1 when something has, 2 for trouble.
    """
    from .check import check

    return check(flags)


_SESSION = (
    *WHERE,
    Flag("--scope", "text", "With --on: the session that it is for, by its id.", None, "ID"),
    Flag("--dir", "text", "For the worktree of this directory instead of the current one.", None, "DIR"),
)


def _check_session(flags: dict[str, Any]) -> None:
    if flags["on"] is None or flags["on"] == "local":
        if flags["scope"] is not None:
            raise click.UsageError("--scope is a session of a running server: name that with --on")
    elif flags["scope"] is None:
        raise click.UsageError("a server keeps this for a session: name one with --scope ID")


@env_group.command("set")
@has(*_SESSION, Flag("--secret", "flag", "With --on: these values are secret, whatever their names.", False))
@click.argument("words", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_command(words: tuple[str, ...], **flags: Any) -> int:
    """Set variables for all later commands in a worktree, or with --on for those of a session there.

    A NAME without a value takes it from standard input, unseen if that is a terminal. Secrets are not kept on
    disk: give them to a running server. The exit status is 1 when something was refused.
    """
    _check_session(flags)
    from .set import set_variables

    return set_variables(words, flags)


@env_group.command("unset")
@has(*_SESSION, Flag("--forget", "flag", "Forget what was set or unset, instead.", False))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_variables)
def unset_command(names: tuple[str, ...], **flags: Any) -> int:
    """Take variables away from all later commands, wherever they come from."""
    _check_session(flags)
    from .unset import unset_variables

    return unset_variables(names, flags)


@env_group.command("overlay")
@has(
    *_SESSION,
    Flag("--import", "text", "Take the variables of a file with export lines; - is stdin.", None, "FILE"),
    Flag("--hook", "text", "With --import: the file is what this hook printed, as JSON.", None, "NAME"),
    Flag("--strict", "flag", "With --import: nothing, if a line is refused.", False),
    Flag("--drop", "text", "Forget everything that this producer has said.", None, "PRODUCER"),
    JSON,
)
def overlay_command(**flags: Any) -> int:
    """List who adds to the environment of later commands, and which variables; or read a file for it.

    No shell is asked: what a file has besides assignments is refused, line by line.
    """
    if flags["import"] is not None and flags["drop"] is not None:
        raise click.UsageError("--import and --drop do not go together")
    _check_session(flags)
    if flags["hook"] is not None and flags["import"] is None:
        raise click.UsageError("--hook needs --import FILE, or --import - for standard input")
    from .overlay import overlay

    return overlay(flags)


@env_group.command("list")
@has(
    Flag("--codex-home", "text", "Those of this Codex home instead of our own.", None, "DIR"),
    Flag("--json", "flag", "A JSON list.", False),
)
def list_command(**flags: Any) -> int:
    """List the named environments, each with its state. The default one is marked with *."""
    from ..environments import list_environments

    return list_environments(flags)
