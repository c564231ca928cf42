"""Diagnostics through the standard `logging`, without importing it for nobody.

Importing `logging` costs more than starting to listen. An application that wants to see our records has
imported it; until somebody has, nobody can be listening: a note goes nowhere, and a warning to stderr, as
`logging` itself would send it. Marks as in websockets: `<` received, `>` sent, `=` state changed, `!` went
wrong. Values of variables, file contents and command lines are never logged. What is logged may be a peer's
words: they stay on their line, and steer no terminal.

A warning never raises and opens nothing: it is most needed where no descriptor and no memory is left.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

_SHOWN = 1000  # characters of one argument: a peer may have chosen it
_WARNING = 30  # logging's number for it
_PIECE = 1000  # characters that a pipe takes whole if it has any room: 4096 bytes
_PLACES = 50  # of a traceback: the innermost ones, where a recursion has no end


def note(side: str, mark: str, text: str, *args: object) -> None:
    """A line for people who follow what happens; `side` is "server" or "client"."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logger = logging.getLogger(f"outfitter.{side}")
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(f"{mark} {text}", *map(_safe, args))


def tell(side: str, mark: str, text: str, *args: object) -> None:
    """A line for people who want to know who comes and goes (level info)."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logger = logging.getLogger(f"outfitter.{side}")
        if logger.isEnabledFor(logging.INFO):
            logger.info(f"{mark} {text}", *map(_safe, args))


def warn(side: str, text: str, *args: object) -> None:
    """Something went wrong that nobody is told otherwise. Never raises."""
    try:
        safe = tuple(map(_safe, args))
        logging = sys.modules.get("logging")
        logger = None if logging is None else logging.getLogger(f"outfitter.{side}")
        if logger is not None and logger.hasHandlers():
            logger.warning(f"! {text}", *safe)
        elif logger is None or logger.isEnabledFor(_WARNING):
            stream = sys.stderr if side == "client" else UnhurriedStream(sys.stderr)
            stream.write(f"! {text % safe if safe else text}\n")
            stream.flush()
    except Exception:
        pass  # nobody is left to tell


class UnhurriedStream:
    """A stream without what it cannot take at once: who does not read a server's log holds up no client."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        for start in range(0, len(text), _PIECE):
            if not self._has_room():
                return
            self._stream.write(text[start : start + _PIECE])
            self._stream.flush()

    def flush(self) -> None:
        """Nothing waits."""

    def _has_room(self) -> bool:
        select = sys.modules.get("select")  # of every server's loop
        try:
            fd = self._stream.fileno()
        except (OSError, ValueError):
            return True  # no file
        if select is None:
            return True
        room = select.poll()
        room.register(fd, select.POLLOUT)
        return bool(room.poll(0))


def fault(side: str, what: str, error: BaseException) -> None:
    """A fault of our own: its kind and where it happened, but not its text, which may be sensitive.

    Never raises.
    """
    try:
        # Not `traceback`: its import needs descriptors, and it reads the sources.
        places = _places(error.__traceback__).replace("%", "%%")
        warn(side, f"%s: internal error, %s\nTraceback:\n{places}", what, type(error).__name__)
    except Exception:
        pass


def _places(trace: TracebackType | None) -> str:
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    return "\n".join(places[-_PLACES:])


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
