"""The commands as click sees them: help, completion, usage errors."""

from __future__ import annotations

import os
import sys
from math import isfinite
from typing import Any

import click

from .. import VERSION
from ..errors import OutfitterError
from .flags import SERVE, Flag


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
        click.echo(f"outfitter: {error}", err=True)
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


class _Seconds(click.FloatRange):
    """A number of seconds: finite, not negative."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


def _option(flag: Flag) -> click.Option:
    kinds: dict[str, Any] = {  # click's types have no common base in its annotations
        "text": click.STRING,
        "count": click.IntRange(min=1),
        "seconds": _Seconds(min=0),
        "flag": click.BOOL,
        "list": click.STRING,
    }
    kind = click.Choice(flag.choices) if flag.choices else kinds[flag.kind]
    return click.Option(
        [flag.option],
        type=None if flag.kind == "flag" else kind,
        is_flag=flag.kind == "flag",
        multiple=flag.kind == "list",
        default=flag.default,
        show_default=flag.default not in (None, False, ()),
        metavar=flag.metavar or None,
        help=flag.help,
    )


def _serve(**flags: Any) -> int:
    if flags["exit_on_stdin_close"]:
        raise click.UsageError("--exit-on-stdin-close is only accepted with --remote")
    from .serve import serve

    return serve(flags)


cli.add_command(
    click.Command(
        "serve",
        callback=_serve,
        params=[_option(flag) for flag in SERVE],
        help="Serve commands to exec-server clients (the stock Codex client among them).",
    )
)


class _Assignment(click.ParamType[Any]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text


def _where(command: Any) -> Any:
    """The options that say on which environment."""
    for option in (
        click.option(
            "--token-file",
            type=click.Path(),
            default=None,
            metavar="FILE",
            help="With --on URL: the file with the bearer token.",
        ),
        click.option(
            "--codex-home",
            type=click.Path(file_okay=False),
            default=None,
            metavar="DIR",
            help="Take the named environments from this Codex home instead of our own folder.",
        ),
        click.option("--on", default=None, metavar="NAME|URL", help="The environment, by name or ws:// URL."),
    ):
        command = option(command)
    return command


@cli.command("run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@_where
@click.option("--tty", "-t", is_flag=True, help="Give it a terminal: ours, in raw mode, when there is one.")
@click.option("--detach", "-d", is_flag=True, help="Leave it running on the server and print its id.")
@click.option("--explain", is_flag=True, help="Afterwards, say where every variable came from (on stderr).")
@click.option(
    "--inherit",
    type=click.Choice(["all", "core", "none"]),
    default="all",
    show_default=True,
    help="Which of the executor's variables the command inherits.",
)
@click.option("--default-excludes", is_flag=True, help="Withhold *KEY*, *SECRET* and *TOKEN*.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Withhold matching variables (* and ?).")
@click.option("--include-only", multiple=True, metavar="PATTERN", help="Pass only matching variables.")
@click.option("--set", multiple=True, type=_Assignment(), help="Set a variable.")
@click.option("--cwd", type=click.Path(), default=None, help="Run it in this directory of the executor.")
@click.option("--timeout", type=_Seconds(min=0), default=None, help="End it after so many seconds.")
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
@_where
@click.option("--session", default=None, metavar="ID", help="List the processes of this session instead.")
@click.option("--json", is_flag=True, help="A JSON list.")
def ps_command(**flags: Any) -> int:
    """List the commands that `outfitter run --on` has started and that may still run."""
    from .ps import ps

    return ps(flags)


@cli.command("attach")
@_where
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
@_where
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


@cli.group("env")
def env_group() -> None:
    """Environments: where commands can run."""


@env_group.command("list")
@click.option(
    "--codex-home",
    type=click.Path(file_okay=False),
    default=None,
    metavar="DIR",
    help="Those of this Codex home instead of our own.",
)
@click.option("--json", is_flag=True, help="A JSON list.")
def env_list_command(**flags: Any) -> int:
    """List the named environments, each with its state. The default one is marked with *."""
    from .environments import list_environments

    return list_environments(flags)
