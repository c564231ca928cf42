"""outfitter completion and help: what a shell and a person ask about the commands themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from ..errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_OUTFITTER_COMPLETE"


def script(shell: str, root: click.Command) -> str:
    """What a shell reads to complete our command lines."""
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(root, {}, "outfitter", _VARIABLE)
    # Not `source()`: it starts a bash to ask for its version, and may complain on stdout.
    return str(made.source_template % made.source_vars())


def environments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of environments that begin so."""
    from ..environments.file import LOCAL, load

    try:
        found = load(os.environ, ctx.params.get("codex_home"))
    except SettingInvalid:
        return []  # no time to complain
    names = [LOCAL] if found.include_local else []
    return [name for name in (*names, *(one.id for one in found.environments)) if name.startswith(incomplete)]


def page(root: click.Command, words: Sequence[str], settings: Mapping[str, Any]) -> str:
    """The help of a command, given by its words. Raises click.UsageError."""
    with click.Context(root, info_name="outfitter", **settings) as top:
        return _page(root, top, words)


def _page(command: click.Command, context: click.Context, words: Sequence[str]) -> str:
    if not words:
        return command.get_help(context)
    if not isinstance(command, click.Group):
        raise click.UsageError(f"`{context.command_path}` has no further commands", context)
    name, found, _ = command.resolve_command(context, [words[0]])
    if found is None:
        raise click.UsageError(f"`{context.command_path}` has no command {words[0]!r}", context)
    with click.Context(found, parent=context, info_name=name) as below:
        return _page(found, below, words[1:])
