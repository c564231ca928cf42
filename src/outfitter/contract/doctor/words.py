"""Words that the findings of several checks share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FEW = 4


def excluding(names: Sequence[str]) -> str:
    return f"exclude = {listed(names)} under [shell_environment_policy]"


def listed(names: Sequence[str]) -> str:
    """A list as TOML has it."""
    return f"[{', '.join(map(quoted, names))}]"


def quoted(text: str) -> str:
    """Text as TOML has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def few(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


def counted(things: Sequence[object] | Mapping[str, str], word: str) -> str:
    number = len(things)
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"
