"""Plain frozen value classes: made from their annotations, compared and shown by their fields.

`dataclasses` would do this too, but importing it costs more than binding the listening socket
(it brings `inspect`), and every module on the way to the first command pays for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import KW_ONLY as KW_ONLY
    from functools import cached_property
    from typing import Any, NoReturn, TypeVar
    from typing import dataclass_transform as dataclass_transform

    T = TypeVar("T")
    lazy = cached_property
else:
    KW_ONLY = None

    def dataclass_transform(**_):
        return lambda decorator: decorator

    class lazy:
        """A method whose value is made when somebody first asks for it, and is an attribute from then on."""

        def __init__(self, make):
            self._make = make

        def __get__(self, instance, owner):
            value = instance.__dict__[self._make.__name__] = self._make(instance)
            return value


_set = object.__setattr__
# The default of a field that holds a mapping: each value gets a new dict.
EMPTY: Mapping[Any, Any] = type(type.__dict__)({})


class _Signature:
    """What `help` and completion ask for: the arguments of an `__init__` that is not written yet."""

    def __get__(self, instance: object, owner: Any) -> object:
        from inspect import Signature, signature

        written = _written_now(owner)
        if written is None:
            raise AttributeError("__signature__")  # it shows its arguments itself
        _, *arguments = signature(written).parameters.values()
        return Signature(arguments)


_SIGNATURE = _Signature()


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Makes a class a frozen value: slots, `__init__`, equality, hash and repr from its annotated fields.

    Fields after `_: KW_ONLY` are given by name. A field whose default is `()` is kept as a tuple, whatever
    sequence it is given, but no text and no dict; one whose default is `EMPTY` gets a dict of its own.
    `__post_init__` may check the fields, and set them with `fill`. Equality, hash and repr that the class
    defines itself stay as they are; `hidden` names the fields whose values must not be in a repr, because
    they may be secret.
    """
    return make(cls, guarded=True)


@dataclass_transform(frozen_default=True)
def quick_record(cls: type[T]) -> type[T]:
    """A record that is made with every message: frozen for the type checker, but not at run time.

    The guard costs 0.1 us a field, which is 4 % of the server's time for one `true`.
    """
    return make(cls, guarded=False)


def make(cls: type[T], *, guarded: bool) -> type[T]:
    space = dict(cls.__dict__)
    names = tuple(name for name in cls.__annotations__ if name != "_")
    defaults = {name: space.pop(name) for name in names if name in space}
    for unwanted in ("__dict__", "__weakref__"):
        space.pop(unwanted, None)
    space |= {"__slots__": names, "__match_args__": names, "__signature__": _SIGNATURE}
    if guarded:
        space |= {"__setattr__": _frozen, "__delattr__": _frozen}
    for name, method in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _repr)):
        if space.get(name) is None:  # a class that defines `__eq__` alone has None as its `__hash__`
            space[name] = method
    kind: Any = type(cls)
    made: type[T] = kind(cls.__name__, cls.__bases__, space)
    _write_later(made, list(cls.__annotations__), defaults)
    return made


def fields(value: object) -> tuple[str, ...]:
    """The names of a record's fields, in their order. Takes a record or its class."""
    return value.__match_args__  # type: ignore[attr-defined, no-any-return]


def fill(value: object, **contents: object) -> None:
    """Sets fields of a record, in its `__post_init__`."""
    for name, content in contents.items():
        _set(value, name, content)


def replace(value: T, **changes: object) -> T:
    """A copy of a record with some fields changed."""
    kind = type(value)
    copy = kind.__new__(kind)
    for name in fields(kind):
        _set(copy, name, changes.pop(name) if name in changes else getattr(value, name))
    if changes:
        raise TypeError(f"{kind.__name__} has no field {', '.join(changes)}")
    return copy


# Values of a class before its `__init__` is worth writing: that takes as long as twenty of them.
_FEW = 20


def _write_later(cls: type, names: list[str], defaults: dict[str, object]) -> None:
    """Writes `__init__` when it is used often: most classes of a program have few values, or none."""
    places = names[: names.index("_")] if "_" in names else names
    known = set(fields(cls))
    post: Any = getattr(cls, "__post_init__", None)
    made = 0

    def __init__(self: object, *args: Any, **given: Any) -> None:
        nonlocal made
        made += 1
        contents = {**defaults, **given, **dict(zip(places, args, strict=False))}
        wrong = len(args) > len(places) or not given.keys().isdisjoint(places[: len(args)])
        if made > _FEW or wrong or contents.keys() != known:
            # Worth it now; and where something is wrong, the written one says what.
            cls.__init__ = _written(cls, names, defaults)  # type: ignore[misc]
            cls.__init__(self, *args, **given)  # type: ignore[misc]
            return
        for name, content in contents.items():
            if defaults.get(name) == ():
                content = _listed(name, content)
            _set(self, name, {} if content is EMPTY else content)
        if post is not None:
            post(self)

    cls.__init__ = __init__  # type: ignore[misc]


def _listed(name: str, content: Any) -> tuple[Any, ...]:
    """Raises TypeError for what would become a list of letters, or of names without their values."""
    if isinstance(content, str | bytes | dict):
        raise TypeError(f"`{name}` is a list, not {type(content).__name__}: write [...]")
    return tuple(content)


def write_all() -> None:
    """Writes the `__init__` of every record there is: for a process whose copies will need them."""
    pending: list[Any] = [object]
    while pending:
        for cls in type.__subclasses__(pending.pop()):
            pending.append(cls)
            if written := _written_now(cls):
                cls.__init__ = written


def _written_now(cls: Any) -> Callable[..., None] | None:
    """The `__init__` of a record that has none of its own yet."""
    begun = cls.__init__
    if getattr(begun, "__qualname__", "") != "_write_later.<locals>.__init__":
        return None
    known = dict(zip(begun.__code__.co_freevars, begun.__closure__, strict=True))
    return _written(cls, known["names"].cell_contents, known["defaults"].cell_contents)


def _written(cls: type, names: list[str], defaults: dict[str, object]) -> Callable[..., None]:
    known: dict[str, object] = {}
    arguments, lines = [], []
    guarded = cls.__setattr__ is _frozen
    for name in names:
        if name == "_":
            arguments.append("*")
            continue
        arguments.append(f"{name}=_default_{name}" if name in defaults else name)
        content = name
        if defaults.get(name) == ():
            content = f"{name} if {name}.__class__ is tuple else _listed({name!r}, {name})"
            known["_listed"] = _listed
        elif defaults.get(name) is EMPTY:
            content = f"{{}} if {name} is _default_{name} else {name}"
        lines.append(f" _set_{name}(self, {content})" if guarded else f" self.{name} = {content}")
        known[f"_set_{name}"] = getattr(cls, name).__set__
        known[f"_default_{name}"] = defaults.get(name)
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec(f"def __init__(self, {', '.join(arguments)}):\n" + ("\n".join(lines) or " pass"), known)
    written: Any = known["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    written.__module__ = cls.__module__  # help() asks for it since Python 3.13
    return written  # type: ignore[no-any-return]


def _frozen(self: object, name: str, *_: object) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


def _equal(self: object, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in fields(self))


def _hash(self: object) -> int:
    return hash((type(self), *(getattr(self, name) for name in fields(self))))


def _repr(self: object) -> str:
    hidden: tuple[str, ...] = getattr(self, "hidden", ())
    contents = [(name, getattr(self, name)) for name in fields(self)]
    shown = [f"{name}={_names(value) if name in hidden else repr(value)}" for name, value in contents]
    return f"{type(self).__name__}({', '.join(shown)})"


def _names(value: object) -> str:
    """What may be shown of a hidden field: the names in a mapping, and nothing of anything else."""
    return repr(sorted(value)) if isinstance(value, dict) else "..."
