"""Errors of a server as its caller knows them: the thing is named, and Python's own types apply. Pure."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from .. import errors
from ..errors import RequestFailed
from ..protocol.codes import NOT_FOUND
from ..protocol.uri import parse

if TYPE_CHECKING:
    from ..errors import ErrorData

_KINDS: dict[str, type[RequestFailed]] = {
    "ENOENT": errors.NotFound,
    "EACCES": errors.PermissionDenied,
    "EPERM": errors.PermissionDenied,
    "EEXIST": errors.AlreadyExists,
    "EISDIR": errors.IsADirectory,
    "ENOTDIR": errors.NotADirectory,
}


def file_failure(error: RequestFailed, path: str) -> RequestFailed:
    """The error of a request about a path, which it names."""
    symbol = _symbol(error)
    kind = _KINDS.get(symbol, RequestFailed)
    return _made(kind, error, symbol, path=path)


def directory_failure(error: RequestFailed, path: str) -> RequestFailed:
    """The error of a request for a file that is a directory."""
    return _made(errors.IsADirectory, error, "EISDIR", path=path)


def launch_failure(error: RequestFailed, program: str, cwd: str) -> RequestFailed:
    """The error of a command that was not started: its program or its directory is named."""
    symbol = _symbol(error)
    told: ErrorData = error.data or {}
    kind = _KINDS.get(symbol, RequestFailed)
    subject = told.get("subject")
    if subject == "cwd":
        return _made(kind, error, symbol, path=native(cwd))
    if subject in ("program", "interpreter") or (subject is None and symbol):
        kind = errors.ProgramNotFound if kind is errors.NotFound else kind
        return _made(kind, error, symbol, program=program)
    return _made(RequestFailed, error, symbol)


def _symbol(error: RequestFailed) -> str:
    """The operating system's word for it; "" if it has none."""
    told: ErrorData = error.data or {}
    if symbol := told.get("errno"):
        return symbol
    # The reference's servers say it at the end of their text alone.
    number = error.message.rpartition("(os error ")[2].removesuffix(")")
    if number.isdecimal() and error.message.endswith(")"):
        return errno.errorcode.get(int(number), "")
    return "ENOENT" if error.code == NOT_FOUND else ""


def _made(
    kind: type[RequestFailed],
    error: RequestFailed,
    symbol: str,
    *,
    path: str | None = None,
    program: str | None = None,
) -> RequestFailed:
    made = kind(*error.sent)
    made.errno = getattr(errno, symbol, None)
    made.path = path
    made.program = program
    if isinstance(made, OSError):
        made.filename = path if path is not None else program
    return made


def native(text: str) -> str:
    """A path as programs of the executor know it; its URI if it has no such form."""
    try:
        return parse(text).local_path()
    except (errors.InvalidParams, ValueError):
        return text
