"""The commands as click sees them: help, completion, usage errors."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from .. import VERSION
from ..errors import OutfitterError
from ..plain import plain
from .env.commands import env_group
from .flags import SERVE, WHERE, WISHES
from .hook.commands import hook_group
from .options import Seconds, has, option


def run(args: list[str]) -> int:
    """Runs a command line; returns the exit status (2 for a usage error)."""
    _have_standard_streams()
    try:
        status = cli.main(args, prog_name="outfitter", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except OutfitterError as error:
        click.echo(f"outfitter: {plain(str(error))}", err=True)
        return 1


def _have_standard_streams() -> None:
    """Opens what our caller has closed (`<&-`): else the next file or socket would be taken for it."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="outfitter")
def cli() -> None:
    """Runs commands for coding agents in an environment that is an explicit contract."""


def _serve(**flags: Any) -> int:
    if flags["exit_on_stdin_close"]:
        raise click.UsageError("--exit-on-stdin-close is only accepted with --remote")
    from .serve import serve

    return serve(flags)


cli.add_command(
    click.Command(
        "serve",
        callback=_serve,
        params=[option(flag) for flag in SERVE],
        help="Serve commands to exec-server clients (the stock Codex client among them).",
    )
)


@cli.command("run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@has(*WHERE)
@click.option("--tty", "-t", is_flag=True, help="Give it a terminal: ours, in raw mode, when there is one.")
@click.option("--detach", "-d", is_flag=True, help="Leave it running on the server and print its id.")
@click.option("--explain", is_flag=True, help="Afterwards, say what its environment was made of (on stderr).")
@has(*WISHES)
@click.option(
    "--login",
    type=click.Choice(["allow", "strip", "reject"]),
    default=None,
    help="What becomes of a shell's login flag.",
)
@click.option(
    "--startup",
    type=click.Choice(["enforce", "repair", "report"]),
    default=None,
    help="What becomes of a shell's startup files.",
)
@click.option(
    "--from",
    "base",
    type=click.Choice(["client", "daemon", "merge"]),
    default=None,
    help="With --on a server of ours on this machine: whose environment commands start from.",
)
@click.option("--cwd", type=click.Path(), default=None, help="Run it in this directory of the executor.")
@click.option("--timeout", type=Seconds(min=0), default=None, help="End it after so many seconds.")
@click.option("--json", is_flag=True, help="One JSON line per event instead of the output itself.")
@click.argument("argv", nargs=-1, required=True, metavar="-- CMD [ARG]...")
def run_command(argv: tuple[str, ...], **flags: Any) -> int:
    """Run a command, here or on another machine, in an environment whose every variable has a known origin.

    The exit status is the command's; 124 when it took too long, 125 when it could not be started or its
    server was lost, 126 when it is not executable, 127 when it was not found.
    """
    if flags["detach"] and flags["timeout"] is not None:
        raise click.UsageError("--timeout does not go with --detach: nobody would be there to end it")
    from .run import run as run_here

    return run_here(argv, flags)


@cli.command("ps")
@has(*WHERE)
@click.option("--session", default=None, metavar="ID", help="List the processes of this session instead.")
@click.option("--json", is_flag=True, help="A JSON list.")
def ps_command(**flags: Any) -> int:
    """List the commands that `outfitter run --on` has started and that may still run."""
    from .ps import ps

    return ps(flags)


@cli.command("attach")
@has(*WHERE)
@click.option("--session", default=None, metavar="ID", help="ID is a process of this session, on --on.")
@click.option("--take-over", is_flag=True, help="Take it from the client that follows it now.")
@click.option("--json", is_flag=True, help="One JSON line per event instead of the output itself.")
@click.argument("ident", required=False, metavar="[ID]")
def attach_command(ident: str | None, **flags: Any) -> int:
    """Follow a command again: its output so far, as much as its server has kept, and what comes.

    ID is the first column of `outfitter ps`, or the beginning of it; it can be left out when there is
    only one. The exit status is the command's.
    """
    from .attach import attach

    return attach(ident, flags)


@cli.command("cp")
@has(*WHERE)
@click.option("--recursive", "-r", is_flag=True, help="Copy a folder with all that is in it.")
@click.option("--force", "-f", is_flag=True, help="Replace files, and copy into a folder that exists.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
def cp_command(source: str, destination: str, **flags: Any) -> int:
    """Copy files and trees between here and any environment.

    SRC and DST are paths here, NAME:PATH on a named environment, or :PATH on the one of --on. Each file is
    checked by its hash; a copy that broke off goes on where it stopped when the command is given again.
    """
    from .cp import cp

    return cp(source, destination, flags)


cli.add_command(env_group)
cli.add_command(hook_group)


@cli.command("doctor")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=None,
    metavar="DIR",
    help="For commands in this directory instead of the current one.",
)
@click.option("--no-login", is_flag=True, help="Do not ask the login shell: its startup files do not run.")
@click.option("--summary", is_flag=True, help="Only the problems, a line for each.")
@click.option("--all", is_flag=True, help="All details, of what is in order too.")
@click.option("--json", is_flag=True, help="A JSON object.")
@click.option("--no-color", is_flag=True, help="No colours.")
@click.option("--ascii", is_flag=True, help="No marks beyond ASCII.")
def doctor_command(**flags: Any) -> int:
    """Check what commands get as environment, and say what to type or edit where something is wrong.

    The exit status is 1 when there is an error; warnings alone are 0.
    """
    from .doctor import doctor

    return doctor(flags)


@cli.command("trust")
@click.argument("directory", required=False, type=click.Path(), metavar="[DIR]")
@click.option("--yes", is_flag=True, help="Allow what is shown, without being asked.")
@click.option("--revoke", is_flag=True, help="Take back what was allowed here.")
@click.option("--list", is_flag=True, help="List everything that was allowed.")
@click.option("--json", is_flag=True, help="A JSON object.")
def trust_command(directory: str | None, **flags: Any) -> int:
    """Show what the project's providers and its setup would run, and allow it.

    What is allowed is exactly what is there now: an edited file asks again. Providers with a store of their
    own (direnv, mise) are allowed there. The exit status is 0 when all may run.
    """
    from .trust import trust

    return trust(directory, flags)


@cli.command("setup")
@click.argument("directory", required=False, type=click.Path(), metavar="[DIR]")
@click.option("--status", is_flag=True, help="Only show how it is: run nothing.")
@click.option("--again", is_flag=True, help="Run it although nothing it depends on has changed.")
@click.option("--log", is_flag=True, help="Print what it printed the last time.")
@click.option("--json", is_flag=True, help="A JSON object.")
def setup_command(directory: str | None, **flags: Any) -> int:
    """Run what makes a worktree usable, unless that was done, and show what came of it.

    What is run is declared in [setup] of outfitter.toml and allowed with `outfitter trust`. The exit status
    is 1 when it failed or may not run.
    """
    if sum((flags["status"], flags["again"], flags["log"])) > 1:
        raise click.UsageError("--status, --again and --log do not go together")
    from .setup import setup

    return setup(directory, flags)


@cli.group("config")
def config_group() -> None:
    """Configuration: what holds for commands, and which file says so."""


@config_group.command("show")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=None,
    metavar="DIR",
    help="What holds in this directory instead of the current one.",
)
@click.option("--values", is_flag=True, help="Show the values of variables too.")
@click.option("--json", is_flag=True, help="A JSON object.")
def config_show_command(**flags: Any) -> int:
    """Show every setting, and the file and line that it comes from."""
    from .config import show

    return show(flags)


@config_group.command("schema")
def config_schema_command() -> int:
    """Print the JSON Schema of outfitter.toml and config.toml, for editors."""
    from .config import schema

    return schema()


@config_group.command("import-codex")
@click.argument("file", required=False, type=click.Path(), metavar="[FILE]")
def config_import_codex_command(file: str | None) -> int:
    """Print what a Codex config.toml says about the environment of commands, in our words.

    FILE is $CODEX_HOME/config.toml, or ~/.codex/config.toml, unless given.
    """
    from .config import import_codex

    return import_codex(file)
