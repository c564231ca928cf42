"""What every answer has in common: a type that a server writes and a client reads.

A server sends what `wire` gives; a client gets the same type back from `decode`. An answer that is written
often has a `wire` of its own, by hand: to build and encode a dict costs five times as much.
"""

from __future__ import annotations

from ..record import record
from .jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from .jsontext import Json

    # JSON text, whole, or in parts that need not be joined first.
    Wire = str | list[bytes]


class Result:
    """An answer. Subclasses are records with `encode`, or with a `wire` of their own, and `decode`."""

    __slots__ = ()

    @classmethod
    def decode(cls, result: Json) -> Self:
        """The answer as a client reads it. Raises InvalidParams."""
        raise TypeError(f"{cls.__name__} is for servers")

    def encode(self) -> Json:
        """The answer as a JSON value."""
        raise TypeError(f"{type(self).__name__} is written by hand")

    def wire(self) -> Wire:
        """The answer as JSON text."""
        return dumps(self.encode())


@record
class Written(Result):
    """An answer whose JSON text was written elsewhere: in another process, say."""

    parts: list[bytes]

    def wire(self) -> list[bytes]:
        return self.parts


@record
class Done(Result):
    """An answer that says nothing but that it was done."""

    def encode(self) -> Json:
        return {}

    def wire(self) -> str:
        return "{}"

    @classmethod
    def decode(cls, result: Json) -> Done:
        return DONE


DONE = Done()


def flag(value: bool) -> str:
    """A boolean as JSON text."""
    return "true" if value else "false"
