"""Diagnostics through the standard `logging`, without importing it for nobody.

Importing `logging` costs more than starting to listen. An application that wants to see our records has
imported it; until somebody has, nobody can be listening, and a line goes nowhere. Marks as in websockets:
`<` received, `>` sent, `=` state changed, `!` went wrong. Values of variables, file contents and
command lines are never logged.
"""

from __future__ import annotations

import sys


def note(side: str, mark: str, text: str, *args: object) -> None:
    """A line for people who follow what happens; `side` is "server" or "client"."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(f"outfitter.{side}").debug(f"{mark} {text}", *args)


def warn(side: str, text: str, *args: object, exc_info: bool = False) -> None:
    """Something went wrong that nobody is told otherwise."""
    import logging

    logging.getLogger(f"outfitter.{side}").warning(f"! {text}", *args, exc_info=exc_info)


def fault(side: str, what: str, error: BaseException) -> None:
    """A fault of our own: its kind and where it happened, but not its text, which may be sensitive."""
    import traceback

    places = "".join(traceback.format_tb(error.__traceback__))
    warn(side, "%s: internal error, %s\nTraceback:\n%s", what, type(error).__name__, places.rstrip())
