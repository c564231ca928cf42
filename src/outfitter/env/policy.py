"""Which of an executor's variables a command inherits: numbered steps, one verdict per variable.

The steps and their order are the reference's: inherit, default excludes, exclude, set, include-only,
never-inherited names. Pure: the starting variables are an argument.
"""

from __future__ import annotations

from ..record import record, replace
from .names import ascii_fold, is_withheld
from .origin import EXECUTOR, POLICY_SET, REQUEST_POLICY, SHELL_SNAPSHOT, Origin
from .pattern import Patterns, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CORE_NAMES = frozenset(
    ("PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER")
)
DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")
_DEFAULT_PATTERNS = Patterns(DEFAULT_EXCLUDES)


@record
class Verdict:
    """What became of one variable: kept or not, by which rule, with the origin of its value."""

    name: str
    kept: bool
    origin: Origin
    rule: str


class Policy:
    """A compiled policy. `inherit` is "all", "core" or "none".

    `name` is what its rules are called in verdicts: the member of a request, or the table of a file.
    """

    __slots__ = (
        *("exclude", "ignore_default_excludes", "include_only", "inherit", "name", "places", "set"),
        *("source", "text", "where"),
    )

    def __init__(
        self,
        inherit: str,
        ignore_default_excludes: bool = False,
        exclude: tuple[str, ...] = (),
        set: tuple[tuple[str, str], ...] = (),
        include_only: tuple[str, ...] = (),
        *,
        name: str = "envPolicy",
        source: Origin | None = None,
        places: Mapping[str, Origin] | None = None,
    ) -> None:
        self.name = name
        self.source = POLICY_SET if source is None else source
        self.where = REQUEST_POLICY if source is None else source
        self.places = places or {}
        # What it says, for fingerprints.
        self.text = repr((inherit, ignore_default_excludes, exclude, set, include_only))
        self.inherit = inherit
        self.ignore_default_excludes = ignore_default_excludes
        self.exclude = Patterns(exclude)
        self.set = dict(set)
        # Whether the list is empty counts, not whether its patterns can match anything.
        self.include_only = Patterns(include_only) if include_only else None
        if self.include_only is not None:
            self.exclude.then(self.include_only)

    @property
    def include_word(self) -> str:
        """The wire and the files spell it differently."""
        return "includeOnly" if self.name == "envPolicy" else "include_only"

    def place(self, rule: str) -> Origin:
        """Where a rule of a verdict stands, as exactly as is known."""
        key = rule.removeprefix(f"{self.name}.")
        return self.places.get(key) or self.places.get(key.split(" ", 1)[0]) or self.where

    def denies(self, name: str) -> str | None:
        """The exclude rule that keeps a name out, whoever brings it; None when there is none."""
        folded = fold(name)
        if not self.ignore_default_excludes:
            pattern = _DEFAULT_PATTERNS.match(folded)
            if pattern is not None:
                return f"default exclude {pattern}"
        pattern = self.exclude.match(folded)
        return None if pattern is None else f"{self.name}.exclude {pattern}"


@record
class Inherited:
    """What a policy leaves of a starting environment: the values, and a verdict for each name."""

    values: dict[str, str]
    verdicts: dict[str, Verdict]


def apply(policy: Policy, start: Mapping[str, str], wanted: frozenset[str] = frozenset()) -> Inherited:
    """Runs the policy over the starting variables. To `wanted` ones `inherit` does not apply."""
    values: dict[str, str] = {}
    verdicts: dict[str, Verdict] = {}
    rules: dict[str, str] = {}
    for name, value in start.items():
        verdict = verdicts[name] = _inherit(policy, name, name in wanted)
        if verdict.kept:
            values[name] = value
            rules[name] = _taken_away(policy, name)
    for name, value in policy.set.items():
        values[name] = value
        verdicts[name] = Verdict(name, True, policy.source, f"{policy.name}.set")
    for name in list(values):
        rule = rules[name] if name in rules else _taken_away(policy, name)
        if rule:
            verdicts[name] = replace(verdicts[name], kept=False, rule=rule)
            del values[name]
    return Inherited(values, verdicts)


def _inherit(policy: Policy, name: str, wanted: bool) -> Verdict:
    """Steps 1 to 3: what comes over from the executor at all."""
    words = policy.name
    if wanted:
        rule = policy.denies(name)
        return Verdict(name, rule is None, SHELL_SNAPSHOT, rule or "part of the snapshot that was asked for")
    if policy.inherit == "none":
        return Verdict(name, False, EXECUTOR, f'{words}.inherit is "none"')
    if policy.inherit == "core" and ascii_fold(name) not in CORE_NAMES:
        return Verdict(name, False, EXECUTOR, f'{words}.inherit is "core" and the name is not in its list')
    rule = policy.denies(name)
    if rule is not None:
        return Verdict(name, False, EXECUTOR, rule)
    return Verdict(name, True, EXECUTOR, f'{words}.inherit is "{policy.inherit}"')


def _taken_away(policy: Policy, name: str) -> str:
    """Steps 5 and 6, which also hold for what step 4 set: the rule that takes a name away, if one does."""
    if policy.include_only is not None and policy.include_only.match(fold(name)) is None:
        return f"no pattern of {policy.name}.{policy.include_word} matches"
    return "never passed to a command" if is_withheld(name) else ""
