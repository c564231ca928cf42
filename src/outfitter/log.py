"""Diagnostics through the standard `logging`, without importing it for nobody.

Importing `logging` costs more than starting to listen. An application that wants to see our records has
imported it; until somebody has, nobody can be listening, and a line goes nowhere. Marks as in websockets:
`<` received, `>` sent, `=` state changed, `!` went wrong. Values of variables, file contents and
command lines are never logged. What is logged may be a peer's words: they stay on their line, and steer no
terminal.
"""

from __future__ import annotations

import sys

_SHOWN = 1000  # characters of one argument: a peer may have chosen it


def note(side: str, mark: str, text: str, *args: object) -> None:
    """A line for people who follow what happens; `side` is "server" or "client"."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logger = logging.getLogger(f"outfitter.{side}")
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(f"{mark} {text}", *map(_safe, args))


def warn(side: str, text: str, *args: object, exc_info: bool = False) -> None:
    """Something went wrong that nobody is told otherwise."""
    import logging

    logging.getLogger(f"outfitter.{side}").warning(f"! {text}", *map(_safe, args), exc_info=exc_info)


def fault(side: str, what: str, error: BaseException) -> None:
    """A fault of our own: its kind and where it happened, but not its text, which may be sensitive."""
    import traceback

    places = "".join(traceback.format_tb(error.__traceback__)).rstrip().replace("%", "%%")
    warn(side, f"%s: internal error, %s\nTraceback:\n{places}", what, type(error).__name__)


def _safe(argument: object) -> object:
    """An argument as it may stand in a log: on one line, printable, and not without end."""
    if isinstance(argument, int | float):
        return argument
    text = str(argument)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}…"
    # Without an import or a codec: both open files, and this may be said because no more can be opened.
    return text if text.isprintable() else "".join([_plain(mark) for mark in text])


def _plain(mark: str) -> str:
    return mark if mark.isprintable() else repr(mark)[1:-1]
