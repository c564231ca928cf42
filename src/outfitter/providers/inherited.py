"""This process's own environment: the one place that reads it on a child's behalf."""

from __future__ import annotations

import os


def load() -> dict[str, str]:
    """A copy; bytes outside UTF-8 as surrogate escapes, as everywhere in Outfitter."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
