"""Bytes as they come, cut into lines. Pure."""

from __future__ import annotations

LONGEST = 1 << 20  # bytes; what is longer comes in pieces, because somebody holds it meanwhile


class Lines:
    """Takes the pieces of one stream and gives its lines, without their ends.

    >>> lines = Lines()
    >>> lines.add(b"one\\r\\ntw"), lines.add(b"o\\n"), lines.rest()
    ([b'one'], [b'two'], [])
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._begun = b""

    def add(self, data: bytes) -> list[bytes]:
        *whole, self._begun = (self._begun + data).split(b"\n")
        found = [line.removesuffix(b"\r") for line in whole]
        while len(self._begun) > self._longest:
            found.append(self._begun[: self._longest])
            self._begun = self._begun[self._longest :]
        return found

    def rest(self) -> list[bytes]:
        """The last line, if it has no end."""
        begun, self._begun = self._begun, b""
        return [begun] if begun else []
