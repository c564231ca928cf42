"""Where a client's token comes from. It is asked for again for every connection, because tokens expire."""

from __future__ import annotations

import os

from ..errors import DialFailed, OutfitterError, SettingInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from os import PathLike

    Token = str | PathLike[str] | Callable[[], str | Awaitable[str]]

_LARGEST = 16 << 10  # bytes; more is no token


def read_token(path: str) -> str:
    """The token in a file, without blanks around it. Raises DialFailed, which passes: files are replaced."""
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read(_LARGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DialFailed(f"cannot read the token file {path}: {reason}", retryable=True) from None
    if not token:
        raise DialFailed(f"the token file {path} is empty", retryable=True)
    return token


async def current(token: Token | None) -> str | None:
    """The token as it is now. Raises DialFailed, SettingInvalid, and what is Outfitter's of a callable."""
    if token is None or isinstance(token, str):
        return token
    if not callable(token):
        return read_token(os.fspath(token))
    try:
        found = token()
        if not isinstance(found, str) and hasattr(found, "__await__"):
            found = await found
    except OutfitterError:
        raise
    except Exception as error:
        # Not its text, which may have a secret in it.
        what = type(error).__name__
        raise DialFailed(f"the function that gives the token failed: {what}", retryable=True) from error
    if not isinstance(found, str):
        raise SettingInvalid(f"the function that gives the token gave {type(found).__name__}, not text")
    return found
