"""outfitter completion and help: what a shell and a person ask about the commands themselves."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

from ..errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_OUTFITTER_COMPLETE"


class _WholeWords(ShellComplete):
    """`--on=b` becomes `--on=build`. click says `build`, and zsh puts that in the place of the whole word."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        option, equals, _ = incomplete.partition("=")
        found = super().get_completions(args, incomplete)
        if equals and option.startswith("--"):
            for item in found:
                if item.type == "plain":
                    item.value = f"{option}={item.value}"
        return found


class _Zsh(_WholeWords, ZshComplete):
    pass


class _Fish(_WholeWords, FishComplete):
    pass


class _Bash(BashComplete):
    """bash says `--on`, `=` and `b`, and replaces the last of them."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in args:
            if word == "=" and words and words[-1].startswith("--"):
                continue  # what follows is the option's value
            words.append(word)
        return words, "" if incomplete == "=" else incomplete


add_completion_class(_Bash)
add_completion_class(_Zsh)
add_completion_class(_Fish)


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
    return _context(root, words, settings).get_help()


def described(root: click.Command, words: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for programs. Raises click.UsageError."""
    context = _context(root, words, settings)
    command = context.command
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    return {
        "command": context.command_path,
        "usage": command.get_usage(context).removeprefix("Usage: "),
        "help": inspect.cleandoc(command.help or "").replace("\b\n", ""),
        "options": [
            {
                "names": [*option.opts, *option.secondary_opts],
                "value": None if option.is_flag else option.make_metavar(context),
                "repeatable": option.multiple,
                "help": option.help or "",
            }
            for option in options
            if not option.hidden
        ],
        "commands": [name for name in below if not _at(command, name, context).hidden],
    }


def _context(root: click.Command, words: Sequence[str], settings: Mapping[str, Any]) -> click.Context:
    context = click.Context(root, info_name="outfitter", **settings)
    for word in words:
        found = _at(context.command, word, context)
        context = click.Context(found, parent=context, info_name=word)
    return context


def _at(command: click.Command, word: str, context: click.Context) -> click.Command:
    if not isinstance(command, click.Group):
        raise click.UsageError(f"`{context.command_path}` has no further commands", context)
    _, found, _ = command.resolve_command(context, [word])
    if found is None:
        raise click.UsageError(f"`{context.command_path}` has no command {word!r}", context)
    return found
