"""The commands as click sees them: help, completion, usage errors."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import Any

import click

from .. import VERSION
from ..errors import OutfitterError
from ..plain import plain
from ..protocol.operating import SIGNALS
from . import completion
from .agents.commands import agent_group, contract_group
from .completion import SHELLS
from .env.commands import env_group
from .envflags import SANDBOX, WHERE
from .flags import JSON, JSON_ALREADY, PROTECT, REMOTE_ONLY, SERVE, Flag
from .hook.commands import hook_group
from .options import PATH, has
from .pool.commands import pool_group
from .relay.commands import enrol_command, forward_command, rendezvous_group, up_command
from .runflags import DETACH_KEYS, EVENTS, RUN


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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, "-V", "--version", prog_name="outfitter")
def cli() -> None:
    """Run commands for coding agents, in environments that Outfitter can explain."""


@cli.command("serve")
@has(*SERVE)
def serve_command(**flags: Any) -> int:
    """Run commands for exec-server clients, such as Codex."""
    if flags["remote"] is not None:
        from .relay.remote import serve_remote

        return serve_remote(flags)
    for option in REMOTE_ONLY:
        if flags[option]:
            raise click.UsageError(f"--{option.replace('_', '-')} is only accepted with --remote")
    from .serve import serve

    return serve(flags)


@cli.command("run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@has(*RUN)
@click.argument("argv", nargs=-1, required=True, metavar="-- CMD [ARG]...", type=PATH)
def run_command(argv: tuple[str, ...], **flags: Any) -> int:
    """Run a command here or on another machine.

    The command gets an environment in which every variable has a known origin; --explain shows it. On a
    terminal, with --on, the keys ~d at the beginning of a line leave the command running. With --sandbox,
    what the command may not do fails, and a last line on stderr says which flag would allow it.

    The exit status is the command's own, or 124 after a timeout, 125 if the command could not be started or
    the server was lost, 126 if it is not executable, and 127 if it was not found.
    """
    flags["detach"] = flags["detach"] or flags["detach_for"] is not None
    if flags["detach"] and flags["timeout"] is not None:
        raise click.UsageError(
            "--timeout cannot be used with --detach: nothing would be left here to end the command"
        )
    from .run import run as run_here

    return run_here(argv, flags)


@cli.command("ps")
@has(
    *WHERE,
    Flag("--session", "text", "List the processes of this session instead.", "ID"),
    Flag("--server", "text", "List every command on this server that you may see.", "NAME|URL"),
    Flag("--json", "flag", "Print a JSON list."),
)
def ps_command(**flags: Any) -> int:
    """List commands that `outfitter run --on` started.

    A command stays on the list while its server may still know it. With --server, list what runs there,
    whoever started it: your own commands, or, for an operator of the server, everybody's.
    """
    if flags["server"] is not None and (flags["session"] is not None or flags["on"] is not None):
        raise click.UsageError("--server cannot be used with --on or --session")
    from .ps import ps

    return ps(flags)


@cli.command("attach")
@has(
    *WHERE,
    Flag("--session", "text", "Look for the process ID in this session of the server --on.", "ID"),
    Flag("--take-over", "flag", "Take the command over from the client that is attached to it now."),
    DETACH_KEYS,
    EVENTS,
)
@click.argument("ident", required=False, metavar="[ID]")
def attach_command(ident: str | None, **flags: Any) -> int:
    """Follow a command that is already running.

    Prints the output that the server still has, then new output as it comes. On a terminal, the keys ~d at
    the beginning of a line leave the command running, and so does SIGTERM; ~~ stands for ~.

    ID is the first column of `outfitter ps`, or its first characters. It can be omitted if only one command
    is listed. The exit status is that of the command.
    """
    from .attach import attach

    return attach(ident, flags)


def _server(server: str | None, flags: dict[str, Any], *, needed: str = "") -> str:
    """The server that is meant, by its place in the command line or by --on as elsewhere."""
    if server is not None and flags["on"] is not None:
        raise click.UsageError("name the server once: as an argument, or with --on")
    found = server or flags["on"]
    if found is None and needed:
        raise click.UsageError(f"name the server: {needed}")
    return found or ""


@cli.command("sessions")
@has(*WHERE, JSON)
@click.argument("server", required=False, metavar="[NAME|URL]", shell_complete=completion.environments)
def sessions_command(server: str | None, **flags: Any) -> int:
    """List the sessions of a server.

    You see your own sessions; an operator of the server sees everybody's.
    """
    from .operating import sessions

    return sessions(_server(server, flags) or None, flags)


@cli.command("kill")
@has(
    *WHERE,
    Flag("--session", "text", "ID is a process of this session of the server --on.", "ID"),
    Flag("--server", "text", "ID is a PID of `outfitter ps --server` on this server.", "NAME|URL"),
    Flag("--signal", "text", "Send this signal instead, to the command's group.", choices=tuple(SIGNALS)),
    Flag("--grace", "seconds", "Send SIGTERM first and wait this long.", "SECONDS"),
    JSON,
)
@click.argument("ident", metavar="ID")
def kill_command(ident: str, **flags: Any) -> int:
    """End a command on a server, with everything that it started.

    ID is the first column of `outfitter ps`, or its first characters. The exit status is 1 if nothing was
    ended.
    """
    if flags["server"] is not None and (flags["session"] is not None or flags["on"] is not None):
        raise click.UsageError("--server cannot be used with --on or --session")
    if flags["signal"] is not None and flags["grace"] is not None:
        raise click.UsageError("--signal and --grace cannot be used together")
    from .operating import kill

    return kill(ident, flags)


@cli.command("drain")
@has(*WHERE, JSON)
@click.argument("server", required=False, metavar="NAME|URL", shell_complete=completion.environments)
def drain_command(server: str | None, **flags: Any) -> int:
    """Have a server take no new sessions, and end when it can.

    Clients that have a session go on and may come back to it. SIGUSR1 does the same.
    """
    from .operating import drain

    return drain(_server(server, flags, needed="NAME|URL"), flags)


@cli.command("upgrade")
@has(*WHERE, JSON)
@click.argument("server", required=False, metavar="PID|NAME|URL", shell_complete=completion.environments)
def upgrade_command(server: str | None, **flags: Any) -> int:
    """Have a server replace itself by the installed version.

    The server keeps its process id, its sessions and its running commands; clients reconnect by themselves.
    If the new version cannot take over, the server goes on as it is, and the exit status is 1.
    """
    from .upgrade import upgrade

    return upgrade(_server(server, flags, needed="PID|NAME|URL"), flags)


@cli.command("cp")
@has(
    *WHERE,
    Flag("--recursive", "flag", "Copy directories with everything in them.", short="-r"),
    Flag("--force", "flag", "Replace existing files and copy into existing directories.", short="-f"),
    Flag("--quiet", "flag", "Show no progress.", short="-q"),
    JSON,
)
@click.argument("source", metavar="SRC", type=PATH)
@click.argument("destination", metavar="DST", type=PATH)
def cp_command(source: str, destination: str, **flags: Any) -> int:
    """Copy files and directories to or from an executor.

    SRC and DST are local paths, NAME:PATH on a named environment, or :PATH on the executor of --on. A
    directory becomes DST; if DST ends with a slash, it goes into DST. Every file is checked by its hash. To
    continue an interrupted copy, run the same command again.
    """
    from .cp import cp

    return cp(source, destination, flags)


@cli.group("sandbox")
def sandbox_group() -> None:
    """Show what a sandbox lets a command do."""


@sandbox_group.command("explain", context_settings={"allow_interspersed_args": False})
@has(
    *SANDBOX,
    PROTECT,
    Flag("--cwd", "directory", "Explain commands in this directory instead of the current one.", "DIR"),
    JSON,
)
@click.argument("argv", nargs=-1, metavar="[-- CMD [ARG]...]")
def sandbox_explain_command(argv: tuple[str, ...], **flags: Any) -> int:
    """Show what a sandbox means here.

    Lists what is readable, writable, protected, hidden and reachable, which startup files are masked, and the
    flag or the line of a file that each comes from. Without --sandbox, the configuration decides. The exit
    status is 1 if this sandbox cannot be enforced here.
    """
    from .sandbox import explain

    return explain(argv, flags)


@cli.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@has(JSON)
def completion_command(shell: str, json: bool) -> int:
    """Print what a shell needs to complete our command lines.

    bash: add `eval "$(outfitter completion bash)"` to ~/.bashrc. zsh: the same with zsh in ~/.zshrc. fish:
    write it to ~/.config/fish/completions/outfitter.fish. Commands, flags and named environments are
    completed.
    """
    text = completion.script(shell, cli)
    if json:
        click.echo(dumps({"shell": shell, "script": text}))
    else:
        click.echo(text, nl=False)
    return 0


@cli.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@has(JSON)
def help_command(command: tuple[str, ...], json: bool) -> int:
    """Show the help of a command, or the list of commands."""
    if json:
        click.echo(dumps(completion.described(cli, command, cli.context_settings)))
    else:
        click.echo(completion.page(cli, command, cli.context_settings))
    return 0


cli.add_command(agent_group)
cli.add_command(contract_group)
cli.add_command(env_group)
cli.add_command(hook_group)
cli.add_command(pool_group)
cli.add_command(rendezvous_group)
cli.add_command(enrol_command)
cli.add_command(up_command)
cli.add_command(forward_command)


@cli.command("doctor")
@has(
    Flag("--cwd", "directory", "Check commands in this directory instead of the current one.", "DIR"),
    Flag("--no-login", "flag", "Do not start the login shell, so its startup files do not run."),
    Flag("--summary", "flag", "Show only the problems, one line each."),
    Flag("--all", "flag", "Show all details, also of checks that pass."),
    Flag("--fix", "flag", "Afterwards, make the edits that can be made, one by one, after a question."),
    Flag("--yes", "flag", "With --fix: make them without asking."),
    JSON,
    Flag("--no-color", "flag", "Print without colours."),
    Flag("--ascii", "flag", "Print only ASCII characters."),
)
def doctor_command(**flags: Any) -> int:
    """Check the environment that commands get and suggest fixes.

    Each problem comes with the command to type or the line to edit. The exit status is 1 if a check finds
    an error; warnings do not count.
    """
    if flags["yes"] and not flags["fix"]:
        raise click.UsageError("--yes needs --fix")
    if flags["fix"] and flags["json"]:
        raise click.UsageError("--fix cannot be used with --json: it asks")
    from .doctor import doctor

    return doctor(flags)


@cli.command("init")
@click.argument("directory", required=False, type=click.Path(), metavar="[DIR]")
@has(
    Flag("--agent", "list", "Set up this agent, installed or not (repeatable).", choices=("codex", "claude")),
    Flag("--yes", "flag", "Make what is shown without asking."),
    Flag("--json", "flag", "Print the edits as a JSON object and change nothing."),
)
def init_command(directory: str | None, **flags: Any) -> int:
    """Set up a project, and the agents of this user.

    Writes outfitter.toml, unless the project has one; Codex's environments.toml, so that its commands run
    through Outfitter; and the hooks in Claude Code's settings.json. Each change is shown first. What a file
    had before stays beside it. The exit status is 1 if something is left to do.
    """
    from .init import init

    return init(directory, flags)


@cli.command("trust")
@click.argument("directory", required=False, type=click.Path(), metavar="[DIR]")
@has(
    Flag("--yes", "flag", "Allow what is shown without asking."),
    Flag("--revoke", "flag", "Take back what was allowed in DIR."),
    Flag("--list", "flag", "List everything that is allowed, in all directories."),
    JSON,
)
def trust_command(directory: str | None, **flags: Any) -> int:
    """Show what a project would run and set, and allow it.

    Lists the files and commands of the project's providers and of its setup, and each effect of what its
    files set. Permission is for the present content only: after an edit, Outfitter asks again. direnv and
    mise keep their own permissions, which are granted with those tools. The exit status is 0 if everything
    is allowed.
    """
    from .trust import trust

    return trust(directory, flags)


@cli.command("setup")
@click.argument("directory", required=False, type=click.Path(), metavar="[DIR]")
@has(
    Flag("--status", "flag", "Show the state of the setup and run nothing."),
    Flag("--again", "flag", "Run the setup even if nothing that it depends on has changed."),
    Flag("--log", "flag", "Print the output of the last run."),
    JSON,
)
def setup_command(directory: str | None, **flags: Any) -> int:
    """Run the setup of a worktree, unless it is up to date.

    The setup is declared under [setup] in outfitter.toml and allowed with `outfitter trust`. The exit status
    is 1 if the setup failed or may not run.
    """
    if sum((flags["status"], flags["again"], flags["log"])) > 1:
        raise click.UsageError("--status, --again and --log cannot be used together")
    from .setup import setup

    return setup(directory, flags)


@cli.group("service")
def service_group() -> None:
    """Keep a server running with systemd."""


_WHOSE = (
    Flag("--user", "flag", "A service of your own (the default)."),
    Flag("--system", "flag", "A service of the machine; needs root."),
)


@service_group.command("install")
@has(*_WHOSE, Flag("--print", "flag", "Print the unit and change nothing."), JSON)
@click.argument("arguments", nargs=-1, metavar="[-- FLAG...]")
def service_install_command(arguments: tuple[str, ...], **flags: Any) -> int:
    """Write a systemd unit for `outfitter serve` and start it.

    Everything after -- goes to `outfitter serve`. Unless it has --listen, the server listens on
    ws://127.0.0.1:4500. A system service needs --run-as, so that commands are not root's.
    """
    if flags["print"] and flags["json"]:
        raise click.UsageError("--print and --json cannot be used together")
    serve_command.make_context("outfitter serve", list(arguments))  # a mistake is told before it is a unit's
    from .service import install

    return install(arguments, flags)


@service_group.command("remove")
@has(*_WHOSE, JSON)
def service_remove_command(**flags: Any) -> int:
    """Stop the service and remove its unit."""
    from .service import remove

    return remove(flags)


@cli.group("config")
def config_group() -> None:
    """Show the configuration and where it comes from."""


@config_group.command("show")
@has(
    Flag("--cwd", "directory", "Show the settings for this directory instead of the current one.", "DIR"),
    Flag("--values", "flag", "Show the values of variables too."),
    JSON,
)
def config_show_command(**flags: Any) -> int:
    """Show every setting with its file and line."""
    from .config import show

    return show(flags)


@config_group.command("schema")
@has(JSON_ALREADY)
def config_schema_command(json: bool) -> int:
    """Print the JSON Schema of outfitter.toml and config.toml."""
    from .config import schema

    return schema()


@config_group.command("import-codex")
@has(JSON)
@click.argument("file", required=False, type=click.Path(), metavar="[FILE]")
def config_import_codex_command(file: str | None, **flags: Any) -> int:
    """Convert Codex's environment settings to Outfitter's.

    Prints lines for outfitter.toml or config.toml. FILE defaults to $CODEX_HOME/config.toml, or to
    ~/.codex/config.toml if CODEX_HOME is not set.
    """
    from .config import import_codex

    return import_codex(file, flags)
