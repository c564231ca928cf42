"""Patterns for variable names: `*` any run, `?` one character; whole names, case ignored."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def fold(name: str) -> str:
    """What patterns compare: the reference folds case by Unicode, so a Kelvin sign is a k."""
    return name.lower()


def ascii_fold(name: str) -> str:
    """What fixed lists of names compare: ASCII letters in upper case, nothing else changed."""
    return name.upper() if name.isascii() else name.translate(_UPPER)


class Patterns:
    """A compiled list of patterns; `match` gives the first one that fits a name."""

    __slots__ = ("_exact", "_tests")

    def __init__(self, patterns: Iterable[str]) -> None:
        self._exact: dict[str, tuple[int, str]] = {}
        self._tests: list[tuple[int, Callable[[str], bool], str]] = []
        for place, pattern in enumerate(patterns):
            folded = fold(pattern)
            if not folded:
                continue  # the empty pattern matches nothing
            if "*" not in folded and "?" not in folded:
                self._exact.setdefault(folded, (place, pattern))
            else:
                self._tests.append((place, _test(folded), pattern))

    def match(self, folded: str) -> str | None:
        """The pattern that fits an already folded name, or None."""
        exact = self._exact.get(folded)
        for place, test, pattern in self._tests:
            if exact is not None and exact[0] < place:
                break
            if test(folded):
                return pattern
        return None if exact is None else exact[1]


def _test(pattern: str) -> Callable[[str], bool]:
    inner = pattern.strip("*")
    if "*" not in inner and "?" not in inner:
        head, tail = not pattern.startswith("*"), not pattern.endswith("*")
        if not head and not tail:
            return lambda name: inner in name
        if head:
            return lambda name: name.startswith(inner)
        return lambda name: name.endswith(inner)
    return lambda name: wildcard(pattern, name)


def wildcard(pattern: str, name: str) -> bool:
    """Whether the whole name fits; linear but for one remembered star, so no pattern can be slow."""
    place = at = 0
    star, mark = -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, mark = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", name[at]):
            place += 1
            at += 1
        elif star >= 0:
            mark += 1
            place, at = star + 1, mark
        else:
            return False
    return all(rest == "*" for rest in pattern[place:])
