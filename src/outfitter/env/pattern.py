"""Patterns for variable names: `*` any run, `?` one character; whole names, case ignored.

All patterns of a list are matched together, a character of the name at a time: so the time depends on the
length of the name and on the length of all patterns, and on nothing that stands in them.
"""

from __future__ import annotations

from ..errors import LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Patterns of one list that a client or a project may bring. Lists of people have ten; one with the name of
# every variable of a large machine has some hundred.
MAX_PATTERNS = 512
# Bytes of one of them: names of variables are shorter.
MAX_PATTERN_BYTES = 256
# Characters of all those with a wildcard: five times the longest list we know. A character of a name takes
# 0.3 µs with so many, so the names of one request (`protocol.fields`) take 20 ms.
MAX_WILDCARD_CHARACTERS = 1024

# So few simple patterns are quicker one by one: a test of C code each.
_FEW, _SHORT = 16, 32


def fold(name: str) -> str:
    """What patterns compare: the reference folds case by Unicode, so a Kelvin sign is a k."""
    return name.lower()


def check(patterns: Sequence[str], what: str) -> None:
    """Raises LimitExceeded where a list of patterns is longer than a stranger's may be."""
    if len(patterns) > MAX_PATTERNS:
        raise LimitExceeded(what, len(patterns), MAX_PATTERNS, "patterns", "join some of them with `*`")
    wild = 0
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_BYTES // 4:
            size = len(pattern.encode("utf-8", "surrogatepass"))
            if size > MAX_PATTERN_BYTES:
                raise LimitExceeded(
                    f"a pattern of {what}", size, MAX_PATTERN_BYTES, "bytes", "shorten it with `*`"
                )
        if _is_wild(pattern):
            wild += len(pattern)
    if wild > MAX_WILDCARD_CHARACTERS:
        raise LimitExceeded(
            f"all patterns with wildcards of {what}", wild, MAX_WILDCARD_CHARACTERS, "characters", "use fewer"
        )


class Patterns:
    """A compiled list of patterns; `match` gives the first one that fits a name."""

    __slots__ = ("_exact", "_together", "_wild", "texts")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.texts = tuple(patterns)
        self._exact: dict[str, tuple[int, str]] = {}
        self._wild: list[tuple[int, str, str]] = []
        self._together: Callable[[str], int] | None = None  # made when it is first needed
        for place, pattern in enumerate(self.texts):
            folded = fold(pattern)
            if _is_wild(folded):
                self._wild.append((place, folded, pattern))
            else:
                self._exact.setdefault(folded, (place, pattern))

    def match(self, folded: str) -> str | None:
        """The first pattern that fits an already folded name, or None."""
        exact = self._exact.get(folded)
        if self._wild:
            if self._together is None:
                self._together = _compile(self._folded)
            number = self._together(folded)
            if number >= 0:
                place, _, pattern = self._wild[number]
                if exact is None or place < exact[0]:
                    return pattern
        return None if exact is None else exact[1]

    @property
    def _folded(self) -> list[str]:
        return [pattern for _, pattern, _ in self._wild]

    def then(self, other: Patterns) -> None:
        """Names are matched against this list, then at once against the other one: in half the time."""
        if not (self._wild and other._wild):
            return
        self._together, alone = _compile(self._folded), _compile(other._folded)
        other._together = alone
        if not (_is_automaton(self._together) and _is_automaton(alone)):
            return
        both, border = Automaton([*self._folded, *other._folded]).match_both, len(self._wild)
        ahead: tuple[str | None, int] = (None, -1)  # replaced as a whole: threads may match, too

        def first(name: str) -> int:
            nonlocal ahead
            number, others = both(name, border)
            ahead = (name, others)
            return number

        def second(name: str) -> int:
            last, number = ahead
            return number if last == name else alone(name)

        self._together, other._together = first, second


def _is_automaton(match: Callable[[str], int]) -> bool:
    return isinstance(getattr(match, "__self__", None), Automaton)


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _compile(patterns: list[str]) -> Callable[[str], int]:
    """What tells the number of the first pattern that fits a name, or -1."""
    if len(patterns) <= _FEW:
        tests = [_simple(pattern) for pattern in patterns]
        if None not in tests:
            return _one_by_one(patterns, tests)  # type: ignore[arg-type]
    return Automaton(patterns).match


def _one_by_one(patterns: list[str], tests: list[Callable[[str], bool]]) -> Callable[[str], int]:
    heads = tuple([one.rstrip("*") for one in patterns if not one.startswith("*")])
    tails = tuple([one.lstrip("*") for one in patterns if not one.endswith("*")])
    inners = [one.strip("*") for one in patterns if one.startswith("*") and one.endswith("*")]

    def match(name: str) -> int:
        # Most names fit none: to find that out takes a fifth of the time.
        if not name.startswith(heads) and not name.endswith(tails):
            for inner in inners:
                if inner in name:
                    break
            else:
                return -1
        for number, test in enumerate(tests):
            if test(name):
                return number
        return -1

    return match


def _simple(pattern: str) -> Callable[[str], bool] | None:
    """A test for the usual forms `a*`, `*a` and `*a*`; None for others."""
    inner = pattern.strip("*")
    if _is_wild(inner) or len(inner) > _SHORT:
        return None
    head, tail = not pattern.startswith("*"), not pattern.endswith("*")
    if not head and not tail:
        return lambda name: inner in name
    if head:
        return lambda name: name.startswith(inner)
    return lambda name: name.endswith(inner)


class Automaton:
    """All patterns as one nondeterministic automaton; a state is a bit, the set of states one integer.

    A pattern of n characters, stars not counted, has n + 1 states: how many of them are matched. A character
    moves each state to the next one where the pattern has this character, or `?`; a state that stands at a
    star also stays. The pattern fits if its last state is reached with the end of the name.
    """

    __slots__ = ("_any", "_ends", "_last", "_moves", "_start", "_stay")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._start = self._stay = self._any = self._last = 0
        self._ends: dict[int, int] = {}  # the bit of a last state, as a length: the number of its pattern
        moves: dict[str, int] = {}
        place = 0
        for number, pattern in enumerate(patterns):
            self._start |= 1 << place
            for mark in pattern:
                if mark == "*":
                    self._stay |= 1 << place
                    continue
                place += 1
                if mark == "?":
                    self._any |= 1 << place
                else:
                    moves[mark] = moves.get(mark, 0) | 1 << place
            self._last |= 1 << place
            place += 1
            self._ends[place] = number
        self._moves = {mark: states | self._any for mark, states in moves.items()}

    def match(self, name: str) -> int:
        """The number of the first pattern that fits the whole name; -1 when none does."""
        states, stay, any_mark, moves = self._start, self._stay, self._any, self._moves.get
        for mark in name:
            states = states << 1 & moves(mark, any_mark) | states & stay
            if not states:
                return -1
        states &= self._last
        return self._ends[(states & -states).bit_length()] if states else -1

    def match_both(self, name: str, border: int) -> tuple[int, int]:
        """As `match`, for the patterns before a number, and for those from there on, counted from there."""
        states, stay, any_mark, moves = self._start, self._stay, self._any, self._moves.get
        for mark in name:
            states = states << 1 & moves(mark, any_mark) | states & stay
        states &= self._last
        first = -1
        while states:
            number = self._ends[(states & -states).bit_length()]
            if number >= border:
                return first, number - border
            first = number if first < 0 else first
            states &= states - 1
        return first, -1
