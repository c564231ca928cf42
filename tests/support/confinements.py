"""Confinements compared: what one allows and another does not."""

from __future__ import annotations

from outfitter.core.narrowing import _places, strictest
from outfitter.core.permissions import Confinement


def is_within(inner: Confinement, outer: Confinement) -> bool:
    """Whether one confinement allows nothing that another does not."""
    if inner.network and not outer.network:
        return False
    if not outer.files:
        return True
    if not inner.files:
        return False
    if not set(outer.globs) <= set(inner.globs):
        return False
    paths = _places(inner, outer)
    return all(strictest(inner.access(path), outer.access(path)) == inner.access(path) for path in paths)
