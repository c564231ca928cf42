"""Typed access to the members of a params object, with the reference's refusals.

A `text`, `flag` and so on must be there with the right type; `..._or_none` may be absent or null;
`flag_or(default)` may be absent but not null. Unknown members are never looked at, so that versions
may differ.
"""

from __future__ import annotations

from ..errors import InvalidParams
from . import base64, uri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

_U64 = 1 << 64


class Fields:
    """The members of one object; `struct` names it in refusals."""

    __slots__ = ("members",)

    def __init__(self, value: Json, struct: str) -> None:
        if type(value) is not dict:
            raise InvalidParams(f"invalid type: {kind(value)}, expected struct {struct}")
        self.members: dict[str, Json] = value

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def raw(self, name: str) -> Json:
        try:
            return self.members[name]
        except KeyError:
            raise InvalidParams(f"missing field `{name}`") from None

    def raw_or_none(self, name: str) -> Json:
        return self.members.get(name)

    def text(self, name: str) -> str:
        value = self.raw(name)
        if type(value) is not str:
            raise wrong(value, "a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self.members.get(name)
        if value is not None and type(value) is not str:
            raise wrong(value, "a string")
        return value

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if type(value) is not bool:
            raise wrong(value, "a boolean")
        return value

    def flag_or(self, name: str, default: bool) -> bool:
        return self.flag(name) if name in self.members else default

    def unsigned(self, name: str) -> int:
        value = self.members.get(name)
        return value if type(value) is int and 0 <= value < _U64 else unsigned(self.raw(name))

    def unsigned_or_none(self, name: str) -> int | None:
        value = self.members.get(name)
        return None if value is None else unsigned(value)

    def items(self, name: str) -> list[Json]:
        value = self.raw(name)
        if type(value) is not list:
            raise wrong(value, "a sequence")
        return value

    def texts(self, name: str) -> list[str]:
        found = self.items(name)
        for item in found:
            if type(item) is not str:
                raise wrong(item, "a string")
        return found

    def text_map(self, name: str) -> dict[str, str]:
        value = self.raw(name)
        if type(value) is not dict:
            raise wrong(value, "a map")
        for item in value.values():
            if type(item) is not str:
                raise wrong(item, "a string")
        return value

    def base64(self, name: str) -> bytes:
        value = self.raw(name)
        return b"".join(value.decode()) if type(value) is base64.Blob else base64.decode(self.text(name))

    def uris(self, name: str) -> list[uri.FileUri]:
        return [uri.parse(text) for text in self.texts(name)]

    def uri(self, name: str) -> uri.FileUri:
        return uri.parse(self.text(name))

    def object_or_none(self, name: str, struct: str) -> Fields | None:
        value = self.members.get(name)
        return None if value is None else Fields(value, struct)

    def document(self, name: str) -> Json:
        """An object that is passed on as it is; None for anything else."""
        value = self.members.get(name)
        return value if type(value) is dict else None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of the named variants; the object form with a null payload counts too."""
        value = self.raw(name)
        if type(value) is dict and len(value) == 1 and next(iter(value.values())) is None:
            value = next(iter(value))
        if type(value) is not str:
            raise wrong(value, "a variant")
        if value not in allowed:
            names = ", ".join(f"`{item}`" for item in allowed)
            expected = names if len(allowed) == 1 else f"one of {names}"
            raise InvalidParams(f"unknown variant `{value}`, expected {expected}")
        return value


def unsigned(value: Json) -> int:
    if type(value) is int and 0 <= value < _U64:
        return value
    if type(value) in (int, float):
        raise InvalidParams("invalid number")
    raise wrong(value, "u64")


def wrong(value: Json, expected: str) -> InvalidParams:
    return InvalidParams(f"invalid type: {kind(value)}, expected {expected}")


def kind(value: Json) -> str:
    """What a refusal calls a value: its type, never more of it than a short string."""
    if value is None:
        return "null"
    if type(value) is bool:
        return f"boolean `{'true' if value else 'false'}`"
    if type(value) in (int, float):
        return "number"
    if type(value) is str:
        return f'string "{value}"' if len(value) <= 64 else "string"
    return "sequence" if type(value) is list else "map"
