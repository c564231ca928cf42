"""Launch contracts: what each kind of launch requires, forbids and sets, whichever agent it starts.

A kind of launch is data: five ship with Outfitter, and a harness declares its own. Nothing here touches the
machine, so that a contract can be checked with nothing installed.
"""

from __future__ import annotations

from ..errors import SettingInvalid
from ..record import EMPTY, KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# The kinds that ship with Outfitter, and why each of them starts an agent.
KINDS = {
    "skill": "a headless worker that runs one skill",
    "orchestrator": "a headless session that dispatches others",
    "headless": "one prompt, no skill, nobody at a terminal",
    "resume": "a stored session goes on",
    "interactive": "a person at a terminal",
}
# What an agent's own commands tell their executor: which kind of launch they belong to. `outfitter run` does.
KIND_VARIABLE = "OUTFITTER_LAUNCH_KIND"
HOLES = ("backend", "kind", "contract")  # what a baseline value may have in braces


def first_match(rules: Iterable[str], name: str) -> str | None:
    """The first rule that a name meets: the name itself, or a prefix with `*` behind it. Case counts."""
    for rule in rules:
        if name == rule or (rule.endswith("*") and name.startswith(rule[:-1])):
            return rule
    return None


@record
class Kind:
    """One kind of launch.

    `requires` are names that the launch must have, with a value unless they are in `may_be_empty` too.
    `forbids` are names, or prefixes with `*`, that it must not have. `baseline` is set for every launch of
    the kind; `{backend}`, `{kind}` and `{contract}` in a value stand for their names.
    """

    name: str
    _: KW_ONLY
    requires: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    baseline: Mapping[str, str] = EMPTY
    may_be_empty: tuple[str, ...] = ()


@record
class LaunchContract:
    """All kinds of launch of one harness.

    No launch inherits `private` names, which are the harness's own, or `exclusive` ones, which belong to a
    headless launch alone: both are names or prefixes with `*`, and are only ever set afresh. An executor
    runs no command of the kinds in `enforce` that does not have what its kind requires.
    """

    name: str
    kinds: tuple[Kind, ...]
    _: KW_ONLY
    private: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    enforce: tuple[str, ...] = ()

    def kind(self, name: str) -> Kind:
        """Raises SettingInvalid for a kind that the contract does not declare."""
        for kind in self.kinds:
            if kind.name == name:
                return kind
        known = ", ".join(kind.name for kind in self.kinds)
        raise SettingInvalid(f"contract `{self.name}` has no launch kind `{name}`: it has {known}")

    def baseline(self, kind: Kind, backend: str) -> dict[str, str]:
        """What every launch of a kind is given, for one backend."""
        stands_for = {"{backend}": backend, "{kind}": kind.name, "{contract}": self.name}
        filled = {}
        for name, value in kind.baseline.items():
            for hole, meaning in stands_for.items():
                value = value.replace(hole, meaning)
            filled[name] = value
        return filled


# What holds where nobody has declared anything: the backends' own rules, and no more.
DEFAULT = LaunchContract("default", tuple(Kind(name) for name in KINDS))


# Judging

MISSING, EMPTY_VALUE, FORBIDDEN = "missing", "empty", "forbidden"


@record
class Violation:
    """One broken rule. `name` is the variable, or the flag; `why` says which layer brought or dropped it."""

    rule: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def violations(
    kind: Kind, values: Mapping[str, str], brought: Callable[[str], str], dropped: Callable[[str], str]
) -> list[Violation]:
    """Every rule of a kind that an environment breaks. `brought` says where a variable came from, `dropped`
    why one is not there, or ""."""
    found = []
    for name in kind.requires:
        if name not in values:
            why = dropped(name)
            told = f"required, and no layer sets it{f'; the inherited one was dropped: {why}' if why else ''}"
            found.append(Violation(MISSING, name, told))
        elif not values[name] and name not in kind.may_be_empty:
            found.append(Violation(EMPTY_VALUE, name, f"required, and empty: {brought(name)}"))
    for name in values:
        if rule := first_match(kind.forbids, name):
            found.append(Violation(FORBIDDEN, name, f"{rule} is forbidden: {brought(name)}"))
    return found
