"""A file as people write it: its values, the line of each, and what is wrong with it."""

from __future__ import annotations

from ..errors import FileInvalid
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

    Path = tuple[str | int, ...]


@record
class Mistake:
    """One thing that is wrong in a file, and what to write instead. No `line`: it is about the whole file."""

    file: str
    line: int | None
    text: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}; {self.remedy}"


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raises one FileInvalid with all of them, in the order of the file, if there are any."""
    found = tuple(sorted(mistakes, key=lambda mistake: (mistake.file, mistake.line or 0)))
    if found:
        raise FileInvalid(found)


class Document:
    """A file's value, and the line of each part of it."""

    def __init__(self, file: str, value: Any, lines: dict[Path, int]) -> None:
        self.file = file
        self.value = value
        self._lines = lines

    def line(self, *path: str | int) -> int:
        """Where a key or an element was written; for one that was not, where it would belong."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


class JsonObject(dict[str, "Any"]):
    """A JSON object that remembers names that were written twice, as the merge of two files can do."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: list[str] = []
        if len(self) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen and name not in self.twice:
                    self.twice.append(name)
                seen.add(name)


class LineFinder:
    """A pass over text that was accepted: it decides nothing, and finds the line of each part."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0  # `_line` is the line of this offset

    def _pass(self, marks: Container[str]) -> None:
        while self._at < len(self._text) and self._text[self._at] in marks:
            self._at += 1

    def _pass_until(self, marks: Container[str]) -> None:
        while self._at < len(self._text) and self._text[self._at] not in marks:
            self._at += 1

    def _here(self) -> int:
        """The line that the pass has come to."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line
