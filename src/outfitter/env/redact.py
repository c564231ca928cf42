"""Which values are secret, and how a value is shown: never by accident."""

from __future__ import annotations

from .pattern import Patterns, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SECRET_NAMES = (
    *("*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*"),
    *("*_KEY", "*APIKEY*", "*_PAT", "*_DSN"),
)
# Names that look secret and are not: hiding them would hide what people ask about.
_KNOWN_PLAIN = frozenset(("SSH_AUTH_SOCK",))
# Shorter values occur by chance in any text.
SHORTEST_MASKED = 6


class Secrets:
    """The names that are secret: the usual ones, and those that the user adds."""

    __slots__ = ("_patterns",)

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._patterns = Patterns((*SECRET_NAMES, *more))

    def holds(self, name: str, value: str) -> bool:
        """Whether a variable is secret, by its name or by what its value looks like."""
        if name in _KNOWN_PLAIN:
            return False
        return self._patterns.match(fold(name)) is not None or looks_secret(value)

    def among(self, values: Mapping[str, str]) -> list[tuple[str, str]]:
        """The secret ones of some variables, for `mask_pairs`."""
        return [(name, value) for name, value in values.items() if self.holds(name, value)]


def looks_secret(value: str) -> bool:
    """A URL with a password in it, be it one of several, or a private key."""
    if value.startswith("-----BEGIN ") and "PRIVATE KEY" in value:
        return True
    return "://" in value and any(map(_has_password, value.split("://")[1:]))


def _has_password(rest: str) -> bool:
    """Of a URL, what follows its scheme."""
    authority = rest.split("/", 1)[0]
    account, at, _ = authority.rpartition("@")
    return bool(at) and ":" in account and not account.endswith(":")


def holding(texts: Sequence[tuple[str, str]], secrets: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Which of some variables, (name, value), have a secret value in theirs: (name, name of the secret)."""
    everything = "\0".join(text for _, text in texts)
    there = [
        (name, value) for name, value in secrets if len(value) >= SHORTEST_MASKED and value in everything
    ]
    return [(name, part) for part, value in there for name, text in texts if value in text]


def mask_pairs(text: str, secrets: Iterable[tuple[str, str]]) -> str:
    """The text without any of the secret values, each replaced by its name: (name, value).

    Where two values overlap in the text, all of both goes: no part of one stays.
    """
    spans: list[tuple[int, int, str, int]] = []
    for name, value in secrets:
        size = len(value)
        if size < SHORTEST_MASKED:
            continue
        at = text.find(value)
        while at >= 0:
            # What overlaps with itself is one span: a text of one letter has as many as it is long.
            start, end = at, at + size
            while (at := text.find(value, at + 1, end + size - 1)) >= 0:
                end = at + size
            spans.append((start, -size, name, end))
            at = text.find(value, end)
    parts = []
    done = 0
    covered = 0  # up to here there is nothing to be seen
    for start, _, name, end in sorted(spans):
        if start >= covered:
            parts += [text[done:start], f"[secret:{name}]"]
        covered = done = max(covered, end)
    parts.append(text[done:])
    return "".join(parts)
