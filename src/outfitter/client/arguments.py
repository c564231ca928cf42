"""What callers give, checked at the call and in the words of the wire. Pure."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidParams

if TYPE_CHECKING:
    #: A path on the executor: text or a PathLike; relative ones start at its working directory.
    Place = str | os.PathLike[str]
    #: A command: its program and arguments; with `shell`, one text.
    Command = Sequence[str | os.PathLike[str]] | str

_SHELL = "/bin/sh"  # of an executor that does not say
_U64 = 1 << 64  # numbers of the wire are below this


def words(command: Command, *, shell: bool = False, shell_path: str | None = None) -> list[str]:
    """The argv of a command. Raises TypeError, or InvalidParams for what no command can be given."""
    if shell:
        if not isinstance(command, str):
            raise TypeError(f"with shell=True a command is one text, not {type(command).__name__}")
        return [shell_path or _SHELL, "-c", _word("the command", command)]
    if isinstance(command, str | bytes | bytearray | os.PathLike):
        raise TypeError(
            f"a command is a list of its program and arguments, not {command!r}: write [...], or give "
            "shell=True for a text that the executor's shell runs"
        )
    if not isinstance(command, Sequence):
        raise TypeError(f"a command is a list of its program and arguments, not {command!r}")
    argv = [_word(f"argument {place}", part) for place, part in enumerate(command)]
    if not argv or not argv[0]:
        raise InvalidParams(
            "a command has at least a program: the list is empty, or begins with an empty text"
        )
    return argv


def _word(what: str, part: object) -> str:
    text = part if isinstance(part, str) else os.fspath(part) if isinstance(part, os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"{what} is {part!r}: text or a path is wanted, not {type(part).__name__}")
    if "\0" in text:
        raise InvalidParams(f"{what} contains a NUL byte, which no command can be given")
    return encodable(what, text)


def encodable(what: str, text: str) -> str:
    """The text, if it can be sent. Raises TypeError or InvalidParams."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidParams(f"{what} is not UTF-8, which cannot be sent: {text!r}") from None
    return text


def place(path: Place) -> str:
    """A path as text. Raises TypeError or InvalidParams."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is text or a PathLike of text, not {type(path).__name__}")
    if "\0" in text:
        raise InvalidParams(f"the path {text!r} contains a NUL byte")
    try:
        text.encode(errors="surrogateescape")  # names of files need not be UTF-8
    except UnicodeEncodeError:
        raise InvalidParams(f"no file can have the name {text!r}") from None
    return text


def octets(data: bytes | str) -> bytes:
    """Input as a command reads it: text becomes UTF-8. Raises TypeError."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a command's input is bytes or text, not {type(data).__name__}")


def signal_name(given: str | int) -> str:
    """ "TERM" for "TERM", "SIGTERM" or 15. Raises TypeError or InvalidParams."""
    if not isinstance(given, str | int):
        raise TypeError(f"a signal is a name such as TERM, or its number, not {given!r}")
    try:
        if isinstance(given, int):
            return signal.Signals(given).name.removeprefix("SIG")
        return signal.Signals["SIG" + given.upper().removeprefix("SIG")].name.removeprefix("SIG")
    except (KeyError, ValueError):
        raise InvalidParams(f"{given!r} is no signal: give a name such as TERM, or its number") from None


def seconds(what: str, value: float | None) -> None:
    """Raises TypeError or InvalidParams unless it is a time, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    if not value >= 0:
        raise InvalidParams(f"{what} must not be below 0, and is {value!r}")
    try:
        float(value)
    except OverflowError:
        raise InvalidParams(f"{what} is longer than a clock can count") from None


def milliseconds(what: str, value: float) -> int:
    """A time as the wire has it. Raises TypeError or InvalidParams, also if no request can carry it."""
    seconds(what, value)
    if not value * 1000 < _U64:
        raise InvalidParams(f"{what} is longer than a request can say, and is {value!r}")
    return int(value * 1000)


def count(what: str, value: int | None, least: int = 0, most: int | None = None) -> None:
    """Raises TypeError or InvalidParams unless it is a number within these bounds, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, not {value!r}")
    if value < least:
        raise InvalidParams(f"{what} must not be below {least}, and is {value!r}")
    if most is not None and value > most:
        raise InvalidParams(f"{what} must not be above {most}, and is {value!r}")


def called(what: str, value: object) -> None:
    """Raises TypeError unless it can be called, or is None."""
    if value is not None and not callable(value):
        raise TypeError(f"{what} is a function, not {value!r}")


def made(what: str, value: object, kind: type | tuple[type, ...], how: str) -> None:
    """Raises TypeError unless it is of this kind, or None."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{what} is made with {how}, and is {value!r}")


def terminal_size(rows: int, cols: int) -> tuple[int, int]:
    """Raises TypeError or InvalidParams."""
    for what, value in (("rows", rows), ("cols", cols)):
        count(what, -1 if value is None else value, 1, 65_535)
    return rows, cols
