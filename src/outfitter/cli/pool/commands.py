"""outfitter pool as click sees it."""

from __future__ import annotations

from typing import Any

import click

from ..flags import JSON, JSON_ALREADY, Flag
from ..options import has

MAX_OUTPUT = 1 << 20  # of each stream of a task, as much as a server keeps


@click.group("pool")
def pool_group() -> None:
    """Run many tasks on many executors."""


@pool_group.command("run")
@has(
    Flag("--jobs", "text", "The tasks, one JSON object per line; - is standard input.", "FILE"),
    Flag("--out", "text", "Append one JSON object per finished task; - is standard output.", "FILE", "-"),
    Flag("--on", "text", "An engine, or a pool of pools.toml.", "ENGINE|NAME", "local"),
    Flag("--address", "text", "Where the engine is, if it must be told.", "ADDRESS"),
    Flag("--relay", "text", "The pool of a rendezvous, where nodes cannot be reached.", "URL"),
    Flag("--size", "count", "How many executors at a time. On this machine the default is its cores.", "N"),
    Flag("--cpus", "seconds", "Processors of each executor.", "N"),
    Flag("--memory", "text", "Memory of each executor: 4GiB.", "SIZE"),
    Flag("--image", "text", "Image of each executor, where the engine runs images.", "IMAGE"),
    Flag(
        "--limits",
        "text",
        "Limit each executor to its processors and memory: if possible (the default), only by control "
        "groups, or not at all.",
        choices=("wanted", "required", "none"),
    ),
    Flag("--retries", "text", "How often a task whose executor was lost is tried again.", "N", "0"),
    Flag("--resume", "flag", "Skip tasks that have a result in --out."),
    Flag("--rerun", "list", "With --resume: run tasks again whose result has this state.", "STATE"),
    Flag("--max-output", "count", "Bytes that are kept of each stream of a task.", "BYTES", MAX_OUTPUT),
    Flag("--name", "text", "What `outfitter pool status` calls this pool.", "NAME"),
    Flag("--metrics", "text", "Answer GET /metrics here, for Prometheus.", "IP:PORT"),
    JSON_ALREADY,
)
def run_command(**flags: Any) -> int:
    """Run the tasks of a file, each in a workspace of its own.

    A task is {"id": "a", "command": ["make", "test"]}; it may also have script, env, cwd, stdin, timeout,
    setup, group, cpus, memory, files and collect. Results come in order of completion. A task whose executor
    was lost is reported, and run again only with --retries.

    The exit status is 0 if every command exited with 0, 1 if some did not, 3 if some were lost or refused,
    130 after SIGINT and 143 after SIGTERM.
    """
    if flags["jobs"] is None:
        raise click.UsageError("--jobs is missing: name the file with the tasks")
    if not flags["retries"].isdecimal():
        raise click.UsageError(f"--retries {flags['retries']!r} is no number")
    flags["retries"] = int(flags["retries"])
    from .run import run

    return run(flags)


@pool_group.command("status")
@has(JSON)
@click.argument("name", required=False, metavar="[NAME]")
def status_command(name: str | None, **flags: Any) -> int:
    """List your pools that run on this machine, or show one."""
    from .status import status

    return status(name, flags)


@pool_group.command("drain")
@has(JSON)
@click.argument("name", metavar="NAME")
def drain_command(name: str, **flags: Any) -> int:
    """Have a pool take no more leases.

    Those that wait or are held go on to their end.
    """
    from .status import end

    return end(name, "drain", flags)


@pool_group.command("stop")
@has(JSON)
@click.argument("name", metavar="NAME")
def stop_command(name: str, **flags: Any) -> int:
    """End a pool, with all its executors and commands."""
    from .status import end

    return end(name, "stop", flags)
