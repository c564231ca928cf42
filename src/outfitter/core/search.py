"""Finding text in files, decided but not done: what fits a line, how much of it is shown, when to stop.

Lines are searched one by one, each once: what is told of a line is its first match. Columns and offsets
count characters; bytes that are not UTF-8 count as one each.
"""

from __future__ import annotations

import re

from ..errors import Refused
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SNIFF = 8 << 10  # of a file; a NUL in there makes it binary, as grep has it


@record
class Match:
    """A line that fits: `text[start:end]` does, and begins at `column` of the whole line, from 1."""

    line: int
    column: int
    text: str
    start: int
    end: int


class Needle:
    """What is looked for. Raises Refused when it cannot be."""

    def __init__(self, pattern: str, *, regex: bool, case_sensitive: bool) -> None:
        if not pattern:
            raise Refused("the pattern is empty")
        if "\n" in pattern:
            raise Refused("the pattern contains a line break, but lines are searched one by one")
        flags = 0 if case_sensitive else re.IGNORECASE
        try:
            self._find = re.compile(pattern if regex else re.escape(pattern), flags).search
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(f"the pattern is not valid: {error}") from None
        # What is nowhere in a file is in no line of it: most files need not be looked at closely.
        needed = (required(pattern) if regex else pattern) if case_sensitive else ""
        self._needed = needed.encode("utf-8", "replace")

    def matches(self, data: bytes, width: int) -> Iterator[Match]:
        """The lines of a file that fit, of each at most `width` characters."""
        if self._needed not in data:
            return
        find = self._find
        text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            found = find(line)
            if found is not None:
                yield shown(number, line, found.start(), found.end(), width)


def required(pattern: str) -> str:
    """The longest text that everything has in it that fits an expression, as far as that is plain to see."""
    if "|" in pattern or "(?" in pattern:
        return ""  # one of several, or other rules
    best = run = ""
    depth = place = 0
    while place < len(pattern):
        mark = pattern[place]
        place += 1
        literal = ""
        if mark == "\\":
            mark = pattern[place : place + 1]
            place += 1
            if mark in "xuUN" or mark.isdigit():
                return ""  # what follows belongs to it
            if not mark.isalnum():
                literal = mark
        elif mark == "[":
            # Up to its end; a bracket right at the beginning, or escaped, does not end it.
            place += 2 if pattern[place : place + 2] == "^]" else pattern[place : place + 1] == "]"
            while place < len(pattern) and pattern[place] != "]":
                place += 2 if pattern[place] == "\\" else 1
            place += 1
        elif mark in "()":
            depth += 1 if mark == "(" else -1
        elif mark not in ".^$*+?{}":
            literal = mark
        elif mark == "{":
            place = pattern.find("}", place) + 1 or len(pattern)
        if literal and not depth and pattern[place : place + 1] not in _MAYBE_NONE:
            run += literal
        else:
            best, run = max(best, run, key=len), ""
    return max(best, run, key=len)


_MAYBE_NONE = ("*", "?", "{")  # what comes before them need not be there


def shown(number: int, line: str, start: int, end: int, width: int) -> Match:
    """A match with as much of its line as fits: some of what comes before it, and the rest after."""
    column = start + 1
    if len(line) > width:
        cut = min(max(0, start - width // 4), len(line) - width)
        line = line[cut : cut + width]
        start -= cut
        end = min(end - cut, width)
    return Match(number, column, line, start, end)


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SNIFF]


class SearchBudget:
    """What one search may still spend; `truncated` once something is used up."""

    __slots__ = ("_bytes", "_files", "_matches", "_response", "truncated")

    def __init__(self, *, matches: int, files: int, total_bytes: int, response_bytes: int) -> None:
        self._matches = matches
        self._files = files
        self._bytes = total_bytes
        self._response = response_bytes
        self.truncated = False

    def read(self, size: int) -> bool:
        """Whether a file of this size may be looked at."""
        if self._files <= 0 or self._bytes < size:
            self.truncated = True
            return False
        self._files -= 1
        self._bytes -= size
        return True

    def tell(self, size: int, matches: int = 1) -> bool:
        """Whether so much more fits in the answer."""
        if self._matches < matches or self._response < size:
            self.truncated = True
            return False
        self._matches -= matches
        self._response -= size
        return True
