"""This process's own environment: the one place that reads it on a child's behalf."""

from __future__ import annotations

import os

# What the interpreter sets LC_CTYPE to by itself in the C locale (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def load() -> dict[str, str]:
    """A copy; bytes outside UTF-8 as surrogate escapes, as everywhere in Outfitter.

    An LC_CTYPE that nobody gave us, but our own interpreter made up at its start, is not in it.
    """
    values = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
    if values.get("LC_CTYPE") in _COERCED and not _was_given(b"LC_CTYPE"):
        del values["LC_CTYPE"]
    return values


def _was_given(name: bytes) -> bool:
    """Whether we were started with this variable, by the block the kernel keeps."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(name + b"=") for entry in file.read().split(b"\0"))
    except OSError:
        return True
