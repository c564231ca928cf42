"""The mode `wrap`: a tool's own way to run a command, as the words in front of it. Never a shell's text."""

from __future__ import annotations

from .base import Resolution, still_lost
from .files import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def wrapped(snapshot: Resolution, prefix: Sequence[str]) -> Resolution:
    """A snapshot without its data, for a tool that starts each command itself.

    That there is a snapshot tells that the tool can do its work; one that failed is returned as it is.
    """
    if snapshot.state != "applied":
        return snapshot
    from shlex import join

    return Resolution(
        "applied",
        lost=still_lost(snapshot.lost, "wrap"),
        watch=snapshot.watch,
        producer=snapshot.producer,
        note=f"commands are run as: {join(prefix)} COMMAND",
        stderr_tail=snapshot.stderr_tail,
        prefix=prefix,
        makes={**snapshot.set, **{one.variable: ":".join(one.values) for one in snapshot.operations}},
    )


def as_it_is(env: Mapping[str, str]) -> tuple[str, ...]:
    """Words between a tool and a command that keep the tool from reading the command as something else.

    `uv run x.py` runs Python whatever the file's first line says, and poetry has scripts of its own for some
    names. `nice` with nothing to change starts any program under the name it was given; `env`
    would take a path with `=` for a variable.
    """
    return (program("nice", env) or "/usr/bin/nice", "-n", "0", "--")


def setting(values: Mapping[str, str]) -> tuple[str, ...]:
    """Words in front of a tool that set variables for it, and for the command. Not for secrets."""
    return ("/usr/bin/env", *(f"{name}={value}" for name, value in values.items()))
