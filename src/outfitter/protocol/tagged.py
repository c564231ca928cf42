"""Objects whose kind stands in a member of their own, read as the reference reads them.

Its refusals name the first mistake in the order of the message, and say of what stands below such a member
more than of what stands above: "integer `1`" there, "number" here. Only a list in place of an object, which
the reference takes for the members in their order, is refused.
"""

from __future__ import annotations

from ..errors import InvalidParams
from .fields import kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .jsontext import Json

    # Readers of all types stand in one table.
    Read = Callable[[Json], Any]

_U64 = 1 << 64
_I64 = -(1 << 63)


def members(value: Json, what: str, readers: Mapping[str, Read], *, below: bool = True) -> dict[str, Any]:
    """What the readers made of the members that they know."""
    if type(value) is not dict:
        raise unlike(value, what, below=below)
    return {name: readers[name](one) for name, one in value.items() if name in readers}


def required(found: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name not in found:
            raise missing(name)


def variant(value: Json, enum: str, tag: str, names: tuple[str, ...], *, below: bool = True) -> str:
    """Which of the kinds an object is."""
    if type(value) is not dict:
        if value == []:
            raise missing(tag)
        raise unlike(value, f"internally tagged enum {enum}")
    told = value.get(tag)
    if type(told) is str:
        if told not in names:
            raise unknown(told, names)
        return told
    if tag not in value:
        raise missing(tag)
    if below and type(told) is int and 0 <= told < _U64:
        if told < len(names):
            return names[told]
        raise InvalidParams(f"invalid value: integer `{told}`, expected variant index 0 <= i < {len(names)}")
    raise unlike(told, "variant identifier", below=below)


def choice(names: tuple[str, ...], *, below: bool = True) -> Callable[[Json], str]:
    """One of some names, or an object with one of them as its only member, which is null."""

    def read(value: Json) -> str:
        told = value
        if type(value) is dict:
            if len(value) != 1:
                raise InvalidParams("invalid value: map, expected map with a single key")
            told = next(iter(value))
        if type(told) is not str:
            raise unlike(told, "string or map", below=below)
        if told not in names:
            raise unknown(told, names)
        if type(value) is dict and value[told] is not None and not (below and value[told] == {}):
            raise unlike(value[told], "unit", below=below)
        return told

    return read


def text(value: Json, *, below: bool = True) -> str:
    if type(value) is not str:
        raise unlike(value, "a string", below=below)
    return value


def sequence(value: Json, *, below: bool = True) -> list[Json]:
    if type(value) is not list:
        raise unlike(value, "a sequence", below=below)
    return value


def or_none(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def nonzero(value: Json) -> int:
    if type(value) is not int:
        raise unlike(value, "a nonzero usize")
    if not 0 < value < _U64:
        if not _I64 <= value < _U64:
            size = "u128" if value > 0 else "i128"
            raise InvalidParams(f"invalid type: integer `{value}` as {size}, expected any value")
        raise InvalidParams(f"invalid value: integer `{value}`, expected a nonzero usize")
    return value


def missing(name: str) -> InvalidParams:
    return InvalidParams(f"missing field `{name}`")


def unknown(told: str, names: Iterable[str]) -> InvalidParams:
    quoted = [f"`{name}`" for name in names]
    expected = " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"
    shown = told if len(told) <= 64 else f"{told[:64]}…"
    return InvalidParams(f"unknown variant `{shown}`, expected {expected}")


def unlike(value: Json, expected: str, *, below: bool = True) -> InvalidParams:
    told = kind(value)
    if below and type(value) is int:
        told = f"integer `{value}`"
    elif below and type(value) is float:
        told = f"floating point `{value}`"
    return InvalidParams(f"invalid type: {told}, expected {expected}")
