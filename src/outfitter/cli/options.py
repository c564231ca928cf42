"""Options that several commands have."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .completion import environments

if TYPE_CHECKING:
    from collections.abc import Callable

    from .flags import Flag

_Command = TypeVar("_Command")


_MOST_SECONDS = 1e16  # as milliseconds, all that fits into a number of the wire


class Seconds(click.FloatRange):
    """A number of seconds: not negative, and one that a message can carry."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        if seconds > _MOST_SECONDS:
            self.fail(f"{value!r} is too many seconds", param, ctx)
        return seconds


class Assignment(click.ParamType[Any]):
    """NAME=VALUE. A mistake is told without the value: it may be somebody's password."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        if not name:
            self.fail("the name before the = is missing", param, ctx)
        return name, text


_KINDS: dict[str, Any] = {  # click's types have no common base in its annotations
    "text": click.STRING,
    "count": click.IntRange(min=1),
    "seconds": Seconds(min=0),
    "flag": click.BOOL,
    "directory": click.Path(exists=True, file_okay=False),
    "list": click.STRING,
    "pairs": Assignment(),
}
# For completion alone: it may be a path of another machine, whatever is there on this one.
PATH = click.Path(readable=False)


def option(flag: Flag) -> click.Option:
    """A flag of our tables as click has it; "directory" is a kind that only click reads: one that exists."""
    kind = click.Choice(flag.choices) if flag.choices else _KINDS[flag.kind]
    if flag.kind == "text" and flag.metavar in ("DIR", "FILE", "PATH"):
        kind = PATH
    return click.Option(
        [flag.option, flag.short] if flag.short else [flag.option],
        type=None if flag.kind == "flag" else kind,
        is_flag=flag.kind == "flag",
        multiple=flag.kind in ("list", "pairs"),
        default=flag.default,
        show_default=flag.default not in (None, False, ()),
        metavar=flag.metavar or None,
        help=flag.help,
        shell_complete=environments if flag.metavar == "NAME|URL" else None,
    )


def has(*table: Flag) -> Callable[[_Command], _Command]:
    """A decorator: the command has these options."""

    def decorate(command: _Command) -> _Command:
        # As click's own decorators leave them: the last one first.
        known = command.__dict__.setdefault("__click_params__", [])
        known.extend(option(flag) for flag in reversed(table))
        return command

    return decorate
