"""One layer of an environment: what one producer sets, removes and adds to lists.

Layers are data. Level 0 is the executor's own environment, 1 the login shell's snapshot, 2 the policy, 3 the
project's providers, 4 its setup, 5 the session's overlay, 6 the user's overrides, 7 the request, 8 Outfitter.
"""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, fill, quick_record, record
from .names import HARMLESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .origin import Origin

BASE, SNAPSHOT, POLICY, PROVIDER, SETUP, SESSION, OVERRIDE, REQUESTED, RUNTIME_LEVEL = range(9)
STATES = ("applied", "off", "blocked", "missing", "failed", "stale", "not-applicable")
# Who speaks in a request. A client of the reference's protocol is taken at its word, as the reference does.
AUTHORS = ("client", "user", "model")
_MOST_TOLD = 8  # names in a line


@record
class Operation:
    """What a layer does to a list variable."""

    variable: str
    op: str
    values: tuple[str, ...]
    origin: Origin | None = None


@quick_record
class Layer:
    """What one producer contributes.

    `origin` is where its values come from, `origins` where particular ones do. `root` makes relative list
    entries absolute. `where_unset` layers only fill gaps. `digest` stands for the inputs (a file's content).
    `prefix` goes in front of a command's argv: a tool that makes the environment itself, for each command.
    `frozen` is what the tool must find as it was checked: a folder, then paths and their digests in turn.
    `makes` is what such a tool was seen to set: it is judged as if the layer set it, and not applied.
    `lost` is what of it is no data, as (kind, name, what would keep it): ("function", "greet", "wrap").
    `awaits` is what a person types to allow a layer that a stranger may have written; until then it may set
    harmless names (`env.names.HARMLESS`) and add to the end of PATH, and nothing else.
    `said` is the end of what its tool wrote to stderr: masked, and nothing in it moves a cursor.
    `asked`: its client wants just this, so what policies `inherit` does not concern it; their lists do.
    """

    level: int
    id: str
    origin: Origin
    values: Mapping[str, str] = EMPTY
    _: KW_ONLY
    unset: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    origins: Mapping[str, Origin] = EMPTY
    producer: str = ""
    state: str = "applied"
    note: str = ""
    secrets: frozenset[str] = frozenset()
    root: str | None = None
    author: str = "user"
    where_unset: bool = False
    digest: str = ""
    cost_ms: float = 0.0
    prefix: Sequence[str] = ()
    frozen: Sequence[str] = ()
    makes: Mapping[str, str] = EMPTY
    lost: Sequence[tuple[str, str, str]] = ()
    awaits: str = ""
    said: str = ""
    asked: bool = False

    def __post_init__(self) -> None:
        if not self.producer:
            fill(self, producer=self.id)

    def __repr__(self) -> str:
        return f"Layer({self.name} {self.id} {self.state}: {', '.join([*self.values, *self.unset])})"

    @property
    def name(self) -> str:
        """L0 to L8."""
        return f"L{self.level}"

    def origin_of(self, name: str) -> Origin:
        return self.origins.get(name, self.origin)


def is_harmless(name: str, value: str | None, op: str) -> bool:
    """Whether anybody's file may do this to a variable. `value` is None to take it away."""
    return (name, op) == ("PATH", "append") or (name in HARMLESS and value is not None and op == "set")


def waiting(layer: Layer) -> list[str]:
    """The variables that a layer would change once a person allows it."""
    if not layer.awaits or layer.state != "applied":
        return []
    names = [name for name, value in layer.values.items() if not is_harmless(name, value, "set")]
    names += layer.unset
    names += [one.variable for one in layer.operations if not is_harmless(one.variable, "", one.op)]
    return list(dict.fromkeys(names))


def suggestions(layers: Iterable[Layer]) -> list[str]:
    """What waits for a person's word, a line for each project: which variables, and what to type."""
    found: dict[str, list[str]] = {}
    for layer in layers:
        if layer.awaits and (names := waiting(layer)):
            found.setdefault(layer.awaits, []).extend(names)
    lines = []
    for awaits, names in found.items():
        names = list(dict.fromkeys(names))
        more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
        named = ", ".join(names[:_MOST_TOLD])
        lines.append(f"the project would change {named}{more}: to see how, and to allow it, type: {awaits}")
    return lines


def complains(said: str) -> bool:
    """Whether a tool reported an error though it ended well: direnv does if a line of an .envrc fails."""
    for line in said.lower().split("\n"):
        if "error" in line or line.endswith((": command not found", ": no such file or directory")):
            return True
        # As shells name the place of a mistake: "./.envrc:3: ...", "x.sh: line 3: ..."
        if any(part.strip().removeprefix("line ").isdecimal() for part in line.split(":")[1:-1]):
            return True
    return False


def trouble(layer: Layer) -> str:
    """A layer that is not there although it should be, in one line: what it is, and what to do."""
    state = "has failed" if layer.state == "failed" else f"is {layer.state}"
    return f"{layer.id} {state}: {layer.note}" if layer.note else f"{layer.id} {state}"
