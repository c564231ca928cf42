"""This process's own environment: the one place that reads it on a child's behalf."""

from __future__ import annotations

import os

from ..host.given import lc_ctype


def load() -> dict[str, str]:
    """A copy; bytes outside UTF-8 as surrogate escapes, as everywhere in Outfitter.

    LC_CTYPE is what we were given, not what our own interpreter made of it at its start.
    """
    values = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
    given = lc_ctype()
    if given is not None:
        values["LC_CTYPE"] = given.decode("utf-8", "surrogateescape")
    else:
        values.pop("LC_CTYPE", None)
    return values
