"""Params and results whose members are declared once: `decode` and `encode` follow from the fields.

A field's annotation says how its member is read and written, its name in camel case is the member's name,
and a member whose field has a default may be absent. `member` says what is different. Members are read in
the order of the fields, so that the first refusal is always the same one.
"""

from __future__ import annotations

from sys import modules

from ..record import dataclass_transform, quick_record, record
from .base64 import encode_text
from .fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    from .jsontext import Json

    T = TypeVar("T")
    Check = Callable[[Fields], object]
    # Readers and writers of all types stand in one table, so what they read and write is Any.
    Read = Callable[[Fields, str], Any]
    Write = Callable[[Any], Json]
    # field, name, whether it has no default, default, type of a value that needs no reading, what counts as
    # absent, how it is read, whether the default is left out, how it is written
    _Step = tuple[str, str, bool, object, type | None, tuple[object, ...], Read, bool, Write | None]
    _Part = tuple[Check | None, list[_Step]]

    class Shape:
        """What `shape` gives to a class that does not define it itself."""

        @classmethod
        def decode(cls, value: Json) -> Self:
            """The value that a JSON object stands for. Raises InvalidParams."""
            ...

        def encode(self) -> Json:
            """The JSON object, as `decode` reads it."""
            ...
else:
    Shape = object

_ABSENT = object()  # where None is a value


class _Member:
    """What a field says of its member, as `member` describes it."""

    __slots__ = ("default", "name", "null", "omit", "read", "required", "write")

    read: Read | None
    write: Write | None
    name: str
    default: object
    null: bool | None
    omit: bool
    required: bool


def member(
    read: Read | None = None,
    write: Write | None = None,
    *,
    name: str = "",
    default: object = _ABSENT,
    null: bool | None = None,
    omit: bool = False,
    required: bool = False,
) -> Any:  # the field has the type of its annotation
    """How a field's member differs from what its annotation says.

    `read` and `write` stand in for those of the annotation. `null` says whether null counts as absent: it
    does where the field may be None. A member with `omit` is not written when it has its default. One that
    is `required` may not be absent, although its field has a default.
    """
    told = _Member()
    told.read, told.write, told.name, told.default = read, write, name, default
    told.null, told.omit, told.required = null, omit, required
    return told


@dataclass_transform(frozen_default=True, field_specifiers=(member,))
def shape(
    struct: str = "", *, before: Check | None = None, check: Check | None = None, quick: bool = False
) -> Callable[[type[T]], type[T]]:
    """Makes a class a record, with `decode` and `encode` unless it has its own.

    By hand, they take two thirds of the time: classes that are read or written by the thousand do so.

    `struct` is what a refusal calls it, the name of the class unless said. `before` looks at the members
    before they are read; `check` after those without a default, and before the others. With `quick` the
    class is a `quick_record`.
    """

    def make(cls: type[T]) -> type[T]:
        space = cls.__dict__
        told = {field: space[field] for field in cls.__annotations__ if field in space}
        for field, one in told.items():
            if type(one) is _Member:  # its default goes where `record` looks for it
                if one.default is _ABSENT:
                    delattr(cls, field)
                else:
                    setattr(cls, field, one.default)
        made: Any = quick_record(cls) if quick else record(cls)
        if "decode" not in space:
            made.decode = staticmethod(_decoder(made, struct or cls.__name__, told, before, check))
        if "encode" not in space:
            made.encode = _encoder(made, told)
        return made  # type: ignore[no-any-return]

    return make


# Steps are made on first use: most classes of a program are never read or written.


def _steps(made: Any, told: dict[str, Any]) -> list[_Step]:
    return [_step(made, field, told.get(field, _ABSENT)) for field in made.__match_args__]


def _step(cls: type, field: str, told: Any) -> _Step:
    if type(told) is not _Member:
        told = member(default=told)
    annotation = cls.__annotations__[field]
    optional = annotation.endswith(" | None")
    read, write, kind = _form(annotation.removesuffix(" | None"), cls, told)
    needed = told.default is _ABSENT
    absent: tuple[object, ...] = ()
    if optional or not (needed or told.required):
        absent = (_ABSENT, None) if (optional if told.null is None else told.null) else (_ABSENT,)
    name = told.name or _camel(field)
    return field, name, needed, None if needed else told.default, kind, absent, read, told.omit, write


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join([word.capitalize() for word in others])


def _decoder(
    made: type[T], struct: str, told: dict[str, Any], before: Check | None, check: Check | None
) -> Callable[[Json], T]:
    parts: list[_Part] = []
    by_name: list[str] = []

    def decode(value: Json) -> T:
        nonlocal parts, by_name
        if not parts:
            steps = _steps(made, told)
            needed, others = [one for one in steps if one[2]], [one for one in steps if not one[2]]
            if "_" in made.__annotations__:
                by_name = [one[0] for one in needed + others]
            parts = [(before, needed), (check, others)] if check else [(before, needed + others)]
        fields = value if type(value) is Fields else Fields(value, struct)
        get = fields.members.get
        values: list[object] = []
        for look, steps in parts:
            if look is not None:
                look(fields)
            for _, name, _, default, kind, absent, read, _, _ in steps:
                found = get(name, _ABSENT)
                if type(found) is kind:
                    values.append(found)
                elif found in absent:
                    values.append(default)
                else:
                    values.append(read(fields, name))
        return made(**dict(zip(by_name, values, strict=True))) if by_name else made(*values)

    return decode


def _encoder(made: type, told: dict[str, Any]) -> Callable[[object], Json]:
    steps: list[_Step] = []

    def encode(self: object) -> Json:
        nonlocal steps
        steps = steps or _steps(made, told)
        members = {}
        for field, name, _, default, _, _, _, omit, write in steps:
            value = getattr(self, field)
            if not (omit and value == default):
                members[name] = value if write is None or value is None else write(value)
        return members

    return encode


# How a member of a type is read, and how it is written.


def choice(*allowed: str) -> Read:
    """Reads one of the named variants."""

    def read(fields: Fields, name: str) -> Any:
        found = fields.members.get(name)
        return found if found in allowed else fields.choice(name, allowed)

    return read


def said(fields: Fields, name: str) -> bool:
    """Whether a member is true: anything else counts as absent."""
    return fields.raw_or_none(name) is True


def rows(struct: str, *names: str) -> tuple[Read, Write]:
    """Reads and writes tuples of texts that stand as a list of objects; `struct` is what one is called."""

    def read(fields: Fields, name: str) -> list[tuple[str, ...]]:
        found = [Fields(one, struct) for one in fields.items(name)]
        return [tuple([one.text(each) for each in names]) for one in found]

    return read, lambda told: [dict(zip(names, one, strict=True)) for one in told]


def _form(annotation: str, cls: type, told: _Member) -> tuple[Read, Write | None, type | None]:
    if annotation in _FORMS:
        read, write, kind = _FORMS[annotation]
        return told.read or read, told.write or write, None if told.read else kind
    if told.read is not None:
        return told.read, told.write, None
    inner = annotation.removeprefix("list[").removesuffix("]")
    shape = modules[cls.__module__].__dict__[inner]
    if inner == annotation:
        return lambda fields, name: shape.decode(fields.raw(name)), shape.encode, None
    return (
        lambda fields, name: [shape.decode(one) for one in fields.items(name)],
        lambda values: [one.encode() for one in values],
        None,
    )


# A value of the type in the third place is taken as it is: to ask `Fields` takes three times as long.
_FORMS: dict[str, tuple[Read, Write | None, type | None]] = {
    "str": (Fields.text, None, str),
    "bool": (Fields.flag, None, bool),
    "int": (Fields.unsigned, None, None),
    "bytes": (Fields.base64, encode_text, None),
    "FileUri": (Fields.uri, lambda uri: uri.text, None),
    "list[FileUri]": (Fields.uris, lambda uris: [uri.text for uri in uris], None),
    "list[str]": (Fields.texts, None, None),
    "tuple[str, ...]": (lambda fields, name: tuple(fields.texts(name)), list, None),
    "dict[str, str]": (Fields.text_map, None, None),
}
