"""Typed access to the members of a params object, with the reference's refusals.

A `text`, `flag` and so on must be there with the right type; `..._or_none` may be absent or null;
`flag_or(default)` may be absent but not null. Unknown members are never looked at, so that versions
may differ.
"""

from __future__ import annotations

from ..refusals import InvalidParams, LimitExceeded
from . import base64, uri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .jsontext import Json

_U64 = 1 << 64
# Bytes of an identifier that a client chooses (of a process, a write, a handle, a request …): they are kept,
# some by the thousand. A UUID has 36.
MAX_IDENTIFIER = 256
# Variables in one map of a request, and bytes of all their names. The largest environments that people have
# (a pod among hundreds of services) have 30 KiB of names. The kernel bounds the values: 128 KiB each.
MAX_VARIABLES = 4096
MAX_NAMES_BYTES = 36 << 10
MAX_SET_NAMES_BYTES = 16 << 10
MAX_PATHS = 1024  # of one request: sixteen times what the only method with a list of them takes
MAX_PATHS_CHARACTERS = 128 << 10  # of all of them: where each byte is three characters, that takes 20 ms


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

    def ident(self, name: str) -> str:
        """A text that names something. Raises LimitExceeded."""
        value = self.text(name)
        if len(value) > MAX_IDENTIFIER // 4:
            check_identifier(value, f"`{name}`")
        return value

    def ident_or_none(self, name: str) -> str | None:
        return None if self.members.get(name) is None else self.ident(name)

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

    def variables(self, name: str) -> dict[str, str]:
        """A map of variables. Raises LimitExceeded."""
        value = self.text_map(name)
        if len(value) > MAX_VARIABLES:
            raise LimitExceeded(f"`{name}`", len(value), MAX_VARIABLES, "variables", _FEWER)
        return value

    def base64(self, name: str) -> bytes:
        value = self.raw(name)
        return b"".join(value.decode()) if type(value) is base64.Blob else base64.decode(self.text(name))

    def uris(self, name: str) -> list[uri.FileUri]:
        """Paths. Raises LimitExceeded."""
        found = self.texts(name)
        if len(found) > MAX_PATHS:
            raise LimitExceeded(f"`{name}`", len(found), MAX_PATHS, "paths", "send fewer")
        size = sum(map(len, found))
        if size > MAX_PATHS_CHARACTERS:
            raise LimitExceeded(f"`{name}`", size, MAX_PATHS_CHARACTERS, "characters", "send fewer")
        return [uri.parse(text) for text in found]

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
            names = (" or " if len(allowed) == 2 else ", ").join(f"`{item}`" for item in allowed)
            expected = names if len(allowed) < 3 else f"one of {names}"
            raise InvalidParams(f"unknown variant `{value}`, expected {expected}")
        return value


_FEWER = "send fewer, or have a file or the project's configuration set them"


def check_names(variables: Mapping[str, str], what: str, limit: int = MAX_NAMES_BYTES) -> None:
    """Raises LimitExceeded where there are more names than anybody has variables."""
    if len(variables) > MAX_VARIABLES:
        raise LimitExceeded(what, len(variables), MAX_VARIABLES, "variables", _FEWER)
    size = len("".join(variables).encode("utf-8", "surrogatepass"))
    if size > limit:
        raise LimitExceeded(f"the names of {what}", size, limit, "bytes", _FEWER)


def check_identifier(text: str, what: str) -> None:
    """Raises LimitExceeded where an identifier is longer than it may be."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_IDENTIFIER:
        raise LimitExceeded(what, size, MAX_IDENTIFIER, "bytes", "use a shorter one, a UUID say")


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
