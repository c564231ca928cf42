"""What still holds behind a tool that makes a command's environment itself (the mode `wrap`).

The tool runs after every layer, so it could bring back what a layer refused. A program of ours stands between
the tool and the command (`host.tools.behind`): it takes away what the rules refuse to the tool's layer, and
puts back what other layers have said. Its words are the rules; the values are in variables of ours, because
everybody can see words.
"""

from __future__ import annotations

from ..record import EMPTY, record
from .layer import PROVIDER, Layer
from .lists import LIST_NAMES
from .names import REQUIRED, is_agents, is_name, is_runtime, is_withheld, loads_code
from .pattern import Patterns, fold
from .policy import DEFAULT_EXCLUDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .resolve import Resolved

# In front of a name: the value that it is to have whatever the tool says,
KEPT = "__OUTFITTER_KEPT_"
# and the one that it is to have if the tool takes it away.
NEEDED = "__OUTFITTER_NEEDED_"
# Between the rules and the command.
END = "--"


@record
class Behind:
    """`words` for the program between the tool and the command, and what is `added` to the tool's
    environment for it."""

    words: tuple[str, ...]
    added: Mapping[str, str]
    values: Mapping[str, str] = EMPTY  # what was resolved
    frozen: Sequence[Sequence[str]] = ()  # the files that the tools must find as they were checked
    hidden = ("added", "values")

    def given(self, env: Mapping[str, str]) -> dict[str, str]:
        """What the tool gets, made of what the command was to get: some of it may have been withheld or added
        since it was resolved, and that holds behind the tool, too."""
        all_of_it = dict(env)
        for name, value in self.added.items():
            if name.removeprefix(KEPT).removeprefix(NEEDED) in env:
                all_of_it[name] = value
        for name, value in env.items():
            if self.values.get(name) != value:
                all_of_it[f"{KEPT}{name}"] = value
        return all_of_it


def behind(resolved: Resolved) -> Behind:
    """What is to hold for a command behind the tools of its layers."""
    stack = resolved.stack
    wrapping = [layer for layer in stack.layers if layer.prefix]
    denied: list[str] = []
    if "L3" not in stack.rules.allow_from:
        for policy in stack.policies:
            denied += () if policy.ignore_default_excludes else DEFAULT_EXCLUDES
            denied += policy.exclude.texts
    allowed = sorted({name for one in wrapping for name in _allowed(one, resolved)})
    rules = Forbidden(denied, allowed)
    above = [
        layer
        for layer in resolved.layers
        if layer.level > PROVIDER and not layer.where_unset and layer.state in ("applied", "stale")
    ]
    unset = sorted({name for layer in above for name in layer.unset if name not in resolved.values})
    said = {name for layer in above for name in layer.values if name not in LIST_NAMES}
    added = {
        f"{KEPT}{name}": value
        for name, value in resolved.values.items()
        if name in said or rules.refuses(name)
    }
    for name in sorted(REQUIRED):
        if name in resolved.values and name not in said:
            added[f"{NEEDED}{name}"] = resolved.values[name]
    words: list[str] = []
    for kind, names in (("deny", denied), ("allow", allowed), ("unset", unset)):
        words += [word for name in dict.fromkeys(names) for word in (kind, name)]
    frozen = tuple([layer.frozen for layer in wrapping if layer.frozen])
    return Behind((*words, END), added, resolved.values, frozen)


def _allowed(layer: Layer, resolved: Resolved) -> Iterable[str]:
    """The names that load code and that the tool's layer may set all the same."""
    return resolved.stack.rules.allow_code_loading.get(layer.producer, frozenset())


class Forbidden:
    """Which names a tool may not set for a command."""

    def __init__(self, denied: Iterable[str], allowed: Iterable[str]) -> None:
        self._denied = Patterns(denied)
        self._allowed = frozenset(allowed)

    def refuses(self, name: str) -> bool:
        return (
            is_withheld(name)
            or is_runtime(name)
            or is_agents(name)
            or not is_name(name)
            or (loads_code(name) and name not in self._allowed)
            or self._denied.match(fold(name)) is not None
        )


def put_right(env: Mapping[str, str], words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The environment of a command, made of the one that the tool gives; and the command's words."""
    told: dict[str, list[str]] = {"deny": [], "allow": [], "unset": []}
    at = 0
    while words[at] != END:
        told[words[at]].append(words[at + 1])
        at += 2
    rules = Forbidden(told["deny"], told["allow"])
    ours = (KEPT, NEEDED)
    right = {
        name: value for name, value in env.items() if not name.startswith(ours) and not rules.refuses(name)
    }
    for name in told["unset"]:
        right.pop(name, None)
    for name, value in env.items():
        if name.startswith(KEPT):
            right[name.removeprefix(KEPT)] = value
        elif name.startswith(NEEDED):
            right.setdefault(name.removeprefix(NEEDED), value)
    return right, list(words[at + 1 :])
