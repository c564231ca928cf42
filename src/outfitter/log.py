"""Diagnostics through the standard `logging`, without importing it for nobody.

Importing `logging` costs more than starting to listen. An application that wants to see our records has
imported it; until somebody has, nobody can be listening: a note goes nowhere, and a warning to stderr, as
`logging` itself would send it. Marks as in websockets: `<` received, `>` sent, `=` state changed, `!` went
wrong. Values of variables, file contents and command lines are never logged.

A warning never raises and opens nothing: it is most needed where no descriptor and no memory is left.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_PLACES = 50  # of a traceback: the innermost ones, where a recursion has no end


def note(side: str, mark: str, text: str, *args: object) -> None:
    """A line for people who follow what happens; `side` is "server" or "client"."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(f"outfitter.{side}").debug(f"{mark} {text}", *args)


def warn(side: str, text: str, *args: object) -> None:
    """Something went wrong that nobody is told otherwise. Never raises."""
    try:
        logging = sys.modules.get("logging")
        if logging is not None:
            logging.getLogger(f"outfitter.{side}").warning(f"! {text}", *args)
        else:
            sys.stderr.write(f"! {text % args if args else text}\n")
            sys.stderr.flush()
    except Exception:
        pass  # nobody is left to tell


def fault(side: str, what: str, error: BaseException) -> None:
    """A fault of our own: its kind and where it happened, but not its text, which may be sensitive.

    Never raises.
    """
    try:
        # Not `traceback`: its import needs descriptors, and it reads the sources.
        warn(
            side,
            "%s: internal error, %s\nTraceback:\n%s",
            what,
            type(error).__name__,
            _places(error.__traceback__),
        )
    except Exception:
        pass


def _places(trace: TracebackType | None) -> str:
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    return "\n".join(places[-_PLACES:])
