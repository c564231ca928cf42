"""The session's overlay: what hooks, an editor and the user add to every later command, as data.

Each producer owns its contribution: putting it again replaces all of the former one, so nothing is doubled
and what is left out is gone. No file is read and no shell is asked when a command is started.
"""

from __future__ import annotations

from ..errors import OverlayRefused
from ..record import EMPTY, KW_ONLY, fill, record
from .layer import OVERRIDE, SESSION, Layer, Operation
from .origin import Origin
from .resolve import LARGEST_PAIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .redact import Secrets

# Who may contribute. `user` has no name behind it; all others are KIND:NAME.
KINDS = ("hook", "plugin", "user", "file", "editor", "named")
# Those that run again and bring their values anew; what the others have said, somebody has said himself.
HOOKS = ("hook", "plugin")
# Removals first, so that a producer never removes what it adds itself.
OPERATIONS = ("remove", "prepend", "append")
FIELDS = ("set", "unset", *OPERATIONS, "secrets")
LONGEST_PRODUCER = 1024  # a path may be in it
_EACH = 64  # bytes that a text takes besides what it says: many short ones are as large as one long one


@record
class Rejection:
    """What of a contribution was not taken. `name` is the variable's, or a field's. Values are never told."""

    producer: str
    name: str
    reason: str
    why: str

    def __str__(self) -> str:
        return f"{self.producer}: {self.name or 'an empty name'}: {self.why}"


@record
class Contribution:
    """What one producer says. `unset` takes a variable away, which is not the same as an empty value."""

    producer: str
    values: Mapping[str, str] = EMPTY
    _: KW_ONLY
    unset: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    secrets: frozenset[str] = frozenset()
    hidden = ("values", "operations")

    def __post_init__(self) -> None:
        unset, secrets = tuple(dict.fromkeys(self.unset)), frozenset(self.secrets)
        fill(self, values=dict(self.values), unset=unset, secrets=secrets)

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.producer.partition(":")[0]

    @property
    def is_hook(self) -> bool:
        """Whether it comes from something that runs again."""
        return self.kind in HOOKS

    @property
    def names(self) -> list[str]:
        """Every variable that it touches, in order."""
        return sorted({*self.values, *self.unset, *(one.variable for one in self.operations)})

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        entries = [text for one in self.operations for text in (one.variable, *one.values)]
        return _size(
            (self.producer, *self.values, *self.values.values(), *self.unset, *entries, *self.secrets)
        )

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Every value and every entry of a list, with the variable's name."""
        entries = [(one.variable, text) for one in self.operations for text in one.values]
        return [*self.values.items(), *entries]

    def secret_names(self, secrets: Secrets) -> list[str]:
        """The variables of which it says what must not be shown or kept: by mark, by name or by its look."""
        hidden = {name for name in self.names if name in self.secrets or secrets.holds(name, "")}
        hidden.update(name for name, text in self.texts if secrets.holds(name, text))
        return sorted(hidden)

    def without(self, names: Iterable[str]) -> Contribution:
        """The same, silent about some variables."""
        gone = frozenset(names)
        if gone.isdisjoint(self.names):
            return self
        return Contribution(
            self.producer,
            {name: value for name, value in self.values.items() if name not in gone},
            unset=[name for name in self.unset if name not in gone],
            operations=[one for one in self.operations if one.variable not in gone],
            secrets=self.secrets - gone,
        )

    def with_more(self, other: Contribution) -> Contribution:
        """What `other` says of its variables, and this one of all the rest."""
        rest = self.without(other.names)
        return Contribution(
            self.producer,
            {**rest.values, **other.values},
            unset=(*rest.unset, *other.unset),
            operations=(*rest.operations, *other.operations),
            secrets=rest.secrets | other.secrets,
        )

    def layer(self, origin: Origin | None = None, id: str = "") -> Layer:
        """It as a layer of the session; always a new one."""
        return Layer(
            SESSION,
            id or self.producer,
            origin or Origin("overlay", f"from {self.producer}"),
            self.values,
            unset=self.unset,
            operations=self.operations,
            secrets=self.secrets,
            producer=self.producer,
        )


class Overlay:
    """The contributions to one session, in their order: a later one wins. Never changed, only replaced.

    `id` tells sessions apart; `parent` is the one that this was copied from. `withheld` are names that no
    command of it gets from below, whatever is contributed later.
    """

    __slots__ = ("_entries", "id", "layers", "origin", "parent", "prefix", "withheld")

    def __init__(
        self,
        contributions: Sequence[Contribution] = (),
        *,
        id: str = "",
        parent: str = "",
        origin: Origin | None = None,
        prefix: str = "",
    ) -> None:
        """`origin` is told for every value, instead of its producer; `prefix` begins the ids of layers."""
        self.id = id
        self.parent = parent
        self.origin = origin
        self.prefix = prefix
        self.withheld: frozenset[str] = frozenset()
        self._entries: tuple[tuple[Contribution, Layer], ...] = ()
        self.layers: tuple[Layer, ...] = ()
        self._take([(one, self._layer(one)) for one in contributions])

    def __repr__(self) -> str:
        return f"Overlay({self.id!r}, {list(self.contributions)!r})"

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        return tuple(contribution for contribution, _ in self._entries)

    @property
    def size(self) -> int:
        return sum(contribution.size for contribution, _ in self._entries) + _size(self.withheld)

    def get(self, producer: str) -> Contribution | None:
        return next((one for one, _ in self._entries if one.producer == producer), None)

    def put(self, contribution: Contribution, *, merge: bool = False) -> Overlay:
        """With this in place of all that its producer has said before, and where that stood.

        With `merge`, what the producer has said of other variables stays. A contribution that says what is
        said already changes nothing: the same object comes back.
        """
        known = self.get(contribution.producer)
        if merge and known is not None:
            contribution = known.with_more(contribution)
        if known == contribution:
            return self
        new = (contribution, self._layer(contribution))
        if known is None:
            return self._with([*self._entries, new])
        return self._with([new if entry[0] is known else entry for entry in self._entries])

    def drop(self, producer: str, names: Sequence[str] = ()) -> Overlay:
        """Without what a producer has said, or only without what it has said of some variables."""
        known = self.get(producer)
        if known is None:
            return self
        rest = known.without(names)
        if names and rest.names:
            return self.put(rest)
        return self._with([entry for entry in self._entries if entry[0] is not known])

    def arranged(self, order: Sequence[str]) -> Overlay:
        """With the producers of `order` in that order, whichever of them was heard first.

        They share the places that they have; all others stay where they are.
        """
        rank = {producer: place for place, producer in enumerate(order)}
        named = sorted(
            (entry for entry in self._entries if entry[0].producer in rank),
            key=lambda entry: rank[entry[0].producer],
        )
        turn = iter(named)
        entries = [next(turn) if entry[0].producer in rank else entry for entry in self._entries]
        return self if entries == list(self._entries) else self._with(entries)

    def only(self, contributions: Sequence[Contribution]) -> Overlay:
        """With just these, each the one that is there already where it is equal."""
        known = {contribution.producer: (contribution, layer) for contribution, layer in self._entries}
        entries = []
        for one in contributions:
            there = known.get(one.producer)
            entries.append(there if there is not None and there[0] == one else (one, self._layer(one)))
        return self if entries == list(self._entries) else self._with(entries)

    def copy(self, id: str) -> Overlay:
        """The same under another id, as it is now; what happens to one later is nothing to the other."""
        twin = self._with(self._entries)
        twin.id = id
        twin.parent = self.id
        return twin

    def _with(self, entries: Sequence[tuple[Contribution, Layer]]) -> Overlay:
        twin = Overlay(id=self.id, parent=self.parent, origin=self.origin, prefix=self.prefix)
        twin.withheld = self.withheld
        # The tombstones are the same ones, too.
        twin.layers = self.layers
        twin._take(entries)
        return twin

    def _take(self, entries: Sequence[tuple[Contribution, Layer]]) -> None:
        last = self.layers[-1:] if self.withheld else ()
        self._entries = tuple(entries)
        self.layers = (*(layer for _, layer in entries), *last)

    def _layer(self, contribution: Contribution) -> Layer:
        return contribution.layer(self.origin, f"{self.prefix}{contribution.producer}")

    def withholding(self, names: Iterable[str]) -> Overlay:
        """Without these variables, now and whatever is contributed later."""
        gone = self.withheld.union(names)
        if gone == self.withheld:
            return self
        entries = self.only([one.without(gone) for one in self.contributions])._entries
        twin = self._with(())
        twin.withheld = gone
        origin = Origin("overlay", "removed when this session was forked")
        # Above what the user's configuration sets for everybody: a child has none of it either.
        twin.layers = (Layer(OVERRIDE, "narrowed", origin, unset=sorted(gone)),)
        twin._take(entries)
        return twin


def narrowed(
    parent: Overlay, id: str, *, unset: Iterable[str] = (), hide_secrets: Secrets | None = None
) -> Overlay:
    """A child's overlay: its parent's as it is now, under an `id` of its own, with less if wanted.

    It may have less than its parent, never more: what is taken away here stays away. With `hide_secrets` all
    that it calls secret, and what producers have marked, goes. Nothing of the child reaches the parent.
    Raises ValueError when the child would have its parent's id.
    """
    if id == parent.id:
        raise ValueError("a fork needs an id of its own")
    gone = set(unset)
    if hide_secrets is not None:
        for one in parent.contributions:
            gone.update(one.secret_names(hide_secrets))
    return parent.copy(id).withholding(gone)


def _size(texts: Iterable[str]) -> int:
    return sum(_EACH + (len(text) if text.isascii() else 4 * len(text)) for text in texts)


# What producers send


def why_no_producer(producer: str) -> str:
    """What is wrong with a producer's name; empty when nothing is."""
    kind, colon, name = producer.partition(":")
    if kind not in KINDS or (kind == "user") == bool(colon) or (colon and not name):
        kinds = ", ".join(f"`{one}:`" for one in KINDS if one != "user")
        return f"a producer is `user`, or one of {kinds} followed by a name"
    if len(producer) > LONGEST_PRODUCER or not producer.isprintable():
        return f"a producer's name must be printable and have at most {LONGEST_PRODUCER} characters"
    return ""


def read(
    producer: str, told: Mapping[str, object], *, strict: bool = False, ignore_case: bool = False
) -> tuple[Contribution, tuple[Rejection, ...]]:
    """A producer's words, checked: what is wrong is left out, and told with the producer's name.

    `told` has the FIELDS, all of them optional: `set` is a map from names to strings, or null to take the
    variable away; `unset` and `secrets` are lists of names; the others are maps from list variables to lists
    of entries. `ignore_case`: two spellings of a name are the same, as on Windows. Raises OverlayRefused when
    `strict` and anything is wrong.
    """
    reader = _Reader(producer, ignore_case)
    contribution = reader.read(told)
    rejected = tuple(reader.rejected)
    if strict and rejected:
        raise OverlayRefused(producer, tuple(map(str, rejected)))
    return contribution, rejected


class _Reader:
    def __init__(self, producer: str, ignore_case: bool) -> None:
        self._producer = producer
        self._ignore_case = ignore_case
        self.rejected: list[Rejection] = []

    def read(self, told: Mapping[str, object]) -> Contribution:
        for field in told:
            if field not in FIELDS:
                known = ", ".join(FIELDS)
                self._reject(str(field), "field", f"unknown field; known fields are {known}")
        values: dict[str, str] = {}
        unset: dict[str, None] = {}
        for name, value in self._map(told, "set").items():
            if not self._is_name(name):
                continue
            if value is None:
                unset[name] = None
            elif self._is_value(name, value):
                values[name] = str(value)
        unset |= dict.fromkeys(name for name in self._list(told, "unset") if self._is_name(name))
        operations = [
            Operation(name, op, entries)
            for op in OPERATIONS
            for name, written in self._map(told, op).items()
            if self._is_name(name) and (entries := self._entries(name, written))
        ]
        secrets = [name for name in self._list(told, "secrets") if self._is_name(name)]
        wrong = frozenset(self._contradictions(values, unset, [one.variable for one in operations]))
        for name in wrong:
            values.pop(name, None)
            unset.pop(name, None)
        operations = [one for one in operations if one.variable not in wrong]
        return Contribution(
            self._producer, values, unset=tuple(unset), operations=operations, secrets=frozenset(secrets)
        )

    def _contradictions(
        self, values: Mapping[str, str], unset: Mapping[str, None], lists: list[str]
    ) -> list[str]:
        found = [name for name in values if name in unset]
        for name in found:
            self._reject(name, "conflict", "both set and removed: leave one of them out")
        if self._ignore_case:
            spellings: dict[str, set[str]] = {}
            for name in (*values, *unset, *lists):
                spellings.setdefault(name.upper(), set()).add(name)
            for names in spellings.values():
                if len(names) > 1:
                    for name in sorted(names):
                        self._reject(name, "conflict", "the same name in two spellings: keep one of them")
                    found += names
        return found

    def _reject(self, name: str, reason: str, why: str) -> None:
        self.rejected.append(Rejection(self._producer, name, reason, why))

    def _map(self, told: Mapping[str, object], field: str) -> Mapping[str, object]:
        value = told.get(field)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._reject(field, "field", "it must be an object whose keys are names of variables")
        return {}

    def _list(self, told: Mapping[str, object], field: str) -> list[str]:
        value = told.get(field)
        if isinstance(value, list | tuple) and all(type(one) is str for one in value):
            return list(value)
        if value is not None:
            self._reject(field, "field", "it must be a list of names")
        return []

    def _is_name(self, name: str) -> bool:
        """Those that only shells drop are refused for all layers with the same words, when resolved."""
        if name and "=" not in name and "\0" not in name:
            return True
        self._reject(name, "name", "a name must not be empty and must not contain `=` or NUL")
        return False

    def _is_value(self, name: str, value: object) -> bool:
        if type(value) is not str:
            self._reject(name, "value", "a value must be a string, or null to remove the variable")
        elif "\0" in value:
            self._reject(name, "value", "the value contains a NUL byte")
        elif len(name) + len(value.encode("utf-8", "surrogatepass")) + 1 > LARGEST_PAIR:
            self._reject(name, "value", f"larger than the {LARGEST_PAIR} bytes that a program can get")
        else:
            return True
        return False

    def _entries(self, name: str, written: object) -> tuple[str, ...]:
        entries = [written] if type(written) is str else written
        if not isinstance(entries, list | tuple) or not all(type(one) is str for one in entries):
            self._reject(name, "value", "the entries of a list must be a list of strings")
        elif any(not one or "\0" in one for one in entries):
            self._reject(name, "value", "an entry of a list must not be empty and must not contain NUL")
        elif sum(map(len, entries)) + len(name) > LARGEST_PAIR // 4:
            self._reject(name, "value", "more entries than a program can get")
        else:
            return tuple(entries)
        return ()


def read_kept(told: Iterable[dict[str, object]]) -> list[Contribution]:
    """Contributions as they were kept on disk, each with its producer. Raises ValueError where one is not as
    it was written, and KeyError, TypeError or AttributeError where it is nothing of the kind."""
    found = []
    for one in told:
        producer = str(one.pop("producer"))
        contribution, rejected = read(producer, one)
        if rejected or why_no_producer(producer):
            raise ValueError(producer)
        found.append(contribution)
    return found


def encode(contribution: Contribution) -> dict[str, object]:
    """What `read` makes the same contribution of; with all values."""
    told: dict[str, object] = {}
    if contribution.values:
        told["set"] = dict(contribution.values)
    if contribution.unset:
        told["unset"] = list(contribution.unset)
    for op in OPERATIONS:
        entries: dict[str, list[str]] = {}
        for one in contribution.operations:
            if one.op == op:
                entries.setdefault(one.variable, []).extend(one.values)
        if entries:
            told[op] = entries
    if contribution.secrets:
        told["secrets"] = sorted(contribution.secrets)
    return told


def describe(contribution: Contribution) -> Any:
    """The same for people and programs: names only."""
    return {
        "producer": contribution.producer,
        "kind": contribution.kind,
        "set": sorted(contribution.values),
        "unset": sorted(contribution.unset),
        **{
            op: sorted({one.variable for one in contribution.operations if one.op == op})
            for op in ("prepend", "append", "remove")
        },
        "secrets": sorted(contribution.secrets),
    }
