"""Plain value classes: compared by their slots, shown by their slots.

`dataclasses` would do this too, but importing it costs more than binding the listening socket
(it brings `inspect`), and every module on the way to the first command pays for it.
"""

from __future__ import annotations


class Record:
    """Base for values with `__slots__`: equal when the same type holds equal slots."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__slots__)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"
