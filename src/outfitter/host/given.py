"""What this process was started with, where its interpreter has changed that: in the C locale, Python sets
LC_CTYPE at its start (PEP 538), and every program that it starts would inherit it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = b"LC_CTYPE"
_COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")  # what it may be set to
_replaced = False  # whether this process has another environment than its interpreter was started with


def lc_ctype() -> bytes | None:
    """The value that this process was given, from the block that the kernel keeps."""
    there = os.environb.get(_NAME)
    if there not in _COERCED or _replaced:
        return there
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read().split(b"\0")
    except OSError:  # not Linux: take what is there
        return there
    prefix = _NAME + b"="
    return next((entry[len(prefix) :] for entry in block if entry.startswith(prefix)), None)


def take_back() -> None:
    """From here on, programs that are started inherit LC_CTYPE as this process was given it."""
    given = lc_ctype()
    if given is not None:
        os.environb[_NAME] = given
    elif _NAME in os.environb:
        del os.environb[_NAME]


def replace(values: Mapping[str, str]) -> None:
    """What this process is given from now on: it is a copy of one that was started for others."""
    global _replaced
    _replaced = True
    os.environ.clear()
    os.environ.update(values)
