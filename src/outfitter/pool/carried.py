"""Records of the interface as plain values, for engines that carry them to another process.

Neither end needs the other's version of a record: what one does not know, it leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..record import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def told(value: object) -> dict[str, object]:
    """What is in a record, as a dict of numbers, texts, lists and dicts."""
    return {name: _plain(getattr(value, name)) for name in fields(value)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def heard(kind: type[T], values: Mapping[str, object]) -> T:
    """The record of which somebody has told."""
    return kind(**{name: _frozen(values[name]) for name in fields(kind) if name in values})


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
