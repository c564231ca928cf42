"""TOML as most files have it, read without `tomllib`, which takes 23 ms to import.

Tables, strings without escapes, whole numbers, booleans, arrays and inline tables. Everything else, and
everything that is wrong, is left to `tomllib`: what is read here is what `tomllib` reads.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_LONGEST_NUMBER = 18  # digits
_DEEPEST = 16  # arrays and tables in each other; deeper is not how people write it


class _NotPlain(Exception):
    """Somebody else has to read it."""


def loads(text: str) -> dict[str, Any] | None:
    """What `tomllib.loads` gives; None if the text is not plain."""
    if '"""' in text or "'''" in text:
        return None
    try:
        return _Reader(text).read()
    except _NotPlain:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._row = 0
        self._line = ""
        self._at = 0
        self._root: dict[str, Any] = {}
        self._headers: dict[int, bool] = {}  # tables by id that headers made; True: a header was its own
        self._arrays: set[int] = set()  # arrays of tables by id

    def read(self) -> dict[str, Any]:
        table = self._root
        while self._row < len(self._lines):
            self._begin_line()
            if self._at == len(self._line) or self._line[self._at] == "#":
                continue
            if self._line[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._end_of_line()
        return self._root

    def _begin_line(self) -> None:
        self._line, self._at = self._lines[self._row], 0
        self._row += 1
        if not self._line.isprintable() and not self._line.replace("\t", "").isprintable():
            raise _NotPlain  # a control character, which may not be there
        self._blanks()

    def _blanks(self) -> None:
        line, at = self._line, self._at
        while line[at : at + 1] in (" ", "\t"):
            at += 1
        self._at = at

    def _end_of_line(self) -> None:
        self._blanks()
        if self._line[self._at : self._at + 1] not in ("", "#"):
            raise _NotPlain

    def _take(self, mark: str) -> bool:
        """Whether it stands here; then it is passed, and the blanks behind it."""
        if not self._line.startswith(mark, self._at):
            return False
        self._at += len(mark)
        self._blanks()
        return True

    def _next(self) -> None:
        """Passes blanks, comments and ends of lines inside of an array."""
        self._blanks()
        while self._line[self._at : self._at + 1] in ("", "#"):
            if self._row == len(self._lines):
                raise _NotPlain
            self._begin_line()

    # Tables

    def _header(self) -> dict[str, Any]:
        is_array = self._line.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        path = [self._bare()]
        while self._line[self._at : self._at + 1] == ".":
            self._at += 1
            path.append(self._bare())
        if not self._line.startswith("]]" if is_array else "]", self._at):
            raise _NotPlain
        self._at += 2 if is_array else 1
        above = self._root
        for name in path[:-1]:
            above = self._within(above, name)
        if is_array:
            return self._element(above, path[-1])
        table = self._within(above, path[-1])
        if self._headers[id(table)]:
            raise _NotPlain  # twice
        self._headers[id(table)] = True
        return table

    def _within(self, above: dict[str, Any], name: str) -> dict[str, Any]:
        """A table that a header names, and that no pair has made."""
        if name not in above:
            made: dict[str, Any] = {}
            above[name] = made
            self._headers[id(made)] = False
        table = above[name]
        if id(table) not in self._headers or type(table) is not dict:
            raise _NotPlain
        return table

    def _element(self, above: dict[str, Any], name: str) -> dict[str, Any]:
        """One more table of an array."""
        if name not in above:
            above[name] = []
            self._arrays.add(id(above[name]))
        array, table = above[name], dict[str, "Any"]()
        if id(array) not in self._arrays:
            raise _NotPlain
        array.append(table)
        return table

    def _pair(self, table: dict[str, Any], depth: int = 0) -> None:
        name = self._string() if self._line[self._at] in "\"'" else self._bare()
        self._blanks()
        if name in table or not self._take("="):
            raise _NotPlain
        table[name] = self._value(depth)

    def _bare(self) -> str:
        begin, line = self._at, self._line
        while line[self._at : self._at + 1] in _BARE:
            self._at += 1
        if self._at == begin:
            raise _NotPlain
        return line[begin : self._at]

    # Values

    def _value(self, depth: int) -> Any:
        mark = self._line[self._at : self._at + 1]
        if mark in ('"', "'"):
            return self._string()
        if mark in ("[", "{"):
            if depth == _DEEPEST:
                raise _NotPlain
            return self._array(depth + 1) if mark == "[" else self._inline(depth + 1)
        word = self._bare()
        if word in ("true", "false"):
            return word == "true"
        digits = word.removeprefix("-")
        plain = digits.isdecimal() and (digits[0] != "0" or digits == "0") and len(digits) <= _LONGEST_NUMBER
        if not plain:
            raise _NotPlain  # nor is what follows a point or a colon: nothing may stand behind a number
        return int(word)

    def _string(self) -> str:
        mark = self._line[self._at]
        end = self._line.find(mark, self._at + 1)
        text = self._line[self._at + 1 : end]
        if end < 0 or (mark == '"' and "\\" in text):
            raise _NotPlain
        self._at = end + 1
        return text

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        self._next()
        while not self._take("]"):
            found.append(self._value(depth))
            self._next()
            if not self._take(",") and self._line[self._at : self._at + 1] != "]":
                raise _NotPlain
            self._next()
        return found

    def _inline(self, depth: int) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        self._blanks()
        while not self._take("}"):
            if self._at == len(self._line):
                raise _NotPlain
            self._pair(found, depth)
            self._blanks()
            is_more = self._take(",")
            # Here a comma has something behind it.
            if is_more == (self._line[self._at : self._at + 1] == "}"):
                raise _NotPlain
        return found
