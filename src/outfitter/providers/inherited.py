"""This process's own environment: the one place that reads it on a child's behalf."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What the interpreter sets LC_CTYPE to by itself in the C locale (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
_replaced = False  # whether this process has another environment than its interpreter was started with


def load() -> dict[str, str]:
    """A copy; bytes outside UTF-8 as surrogate escapes, as everywhere in Outfitter.

    LC_CTYPE is what we were given, not what our own interpreter made of it at its start.
    """
    values = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
    if values.get("LC_CTYPE") in _COERCED and not _replaced:
        given = _given(b"LC_CTYPE=")
        if given is None:
            del values["LC_CTYPE"]
        else:
            values["LC_CTYPE"] = given.decode("utf-8", "surrogateescape")
    return values


def replace(values: Mapping[str, str]) -> None:
    """What this process inherits from now on: it is a copy of one that was started for others."""
    global _replaced
    _replaced = True
    os.environ.clear()
    os.environ.update(values)


def _given(prefix: bytes) -> bytes | None:
    """The value that this process was started with, from the block that the kernel keeps."""
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read().split(b"\0")
    except OSError:  # not Linux: take what is there
        return os.environb.get(prefix[:-1])
    return next((entry[len(prefix) :] for entry in block if entry.startswith(prefix)), None)
