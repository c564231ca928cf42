"""YAML as people write it about skills: every scalar is a text, no tags, no name twice.

The events are PyYAML's. What a scalar means (a number, a switch) is the reader's business, who knows what is
wanted there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_DEEPEST = 32  # of what people write about a skill; an alias in itself has no end
_MOST = 10_000  # values: aliases multiply
_SHORT = 1000  # characters; each may be one level deeper, and to compose so many takes little of a stack
_TOO_DEEP = "not YAML for people: it is too deep or too large"


def parse(text: str) -> Any:
    """Texts, lists and dicts; None for an empty document. Raises ValueError."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if len(text) > _SHORT:
            _refuse_deep(yaml.parse(text, Loader=loader))
        node = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"not YAML: {type(error).__name__}") from None
    return None if node is None else _Reader().value(node, 0)


def _refuse_deep(events: Iterable[Any]) -> None:
    """Raises ValueError. PyYAML composes one level inside of another, and ends this process where its stack
    ends: at 40,000 of them."""
    from yaml import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in events:
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST + 1:
            raise ValueError(_TOO_DEEP)


def parse_loosely(text: str) -> Any:
    """The same, and where that fails, texts are taken as they stand: `name: a: b` is "a: b".

    Raises ValueError.
    """
    try:
        return parse(text)
    except ValueError:
        quoted = "\n".join(map(_quoted, text.split("\n")))
        if quoted == text:
            raise
        return parse(quoted)


def _quoted(line: str) -> str:
    key, colon, value = line.partition(": ")
    value = value.strip()
    if not colon or not value or value[0] in "'\"|>[{&*!#":
        return line
    return f"{key}: '{value.replace(chr(39), chr(39) * 2)}'"


class _Reader:
    """Makes values of nodes."""

    def __init__(self) -> None:
        self._left = _MOST

    def value(self, node: Any, depth: int) -> Any:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            raise ValueError(_TOO_DEEP)
        if node.id == "scalar":
            return node.value
        if node.id == "sequence":
            return [self.value(one, depth + 1) for one in node.value]
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self.value(key, depth + 1)
            if not isinstance(name, str) or name in found:
                raise ValueError("a name is no text, or stands twice")
            found[name] = self.value(value, depth + 1)
        return found
