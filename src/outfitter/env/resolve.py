"""Layers → the exact environment of a command. The one place that says in which order and by which rules.

A `Stack` is everything below the request, folded once; `resolve` puts a request on top, many times. The
history of each variable is told by folding again, with the same code and somebody listening: most commands
are never explained.
"""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, record, replace
from ..refusals import EnvironmentTooLarge
from .layer import (
    BASE,
    OVERRIDE,
    POLICY,
    PROVIDER,
    REQUESTED,
    RUNTIME_LEVEL,
    SESSION,
    SETUP,
    SNAPSHOT,
    Layer,
    is_harmless,
)
from .lists import LIST_NAMES, ListValue, leads_somewhere
from .names import (
    REQUIRED,
    SETUP_NAMES,
    SHELL_MAINTAINED,
    is_agents,
    is_name,
    is_runtime,
    is_withheld,
    loads_code,
)
from .origin import REQUEST_POLICY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .origin import Origin
    from .policy import Policy

# One NAME=value is at most 32 pages with its end (MAX_ARG_STRLEN); beyond that nothing can be executed.
LARGEST_PAIR = 131_071
# Half of what a kernel takes with an 8 MiB stack, so that there is room for arguments.
DEFAULT_TOTAL = 1 << 20


@record
class Rules:
    """What holds for a whole stack.

    `allow_from` names layers ("L3") that may bring back what an exclude list removed; `allow_code_loading`
    the names that a producer may set although they load code. `tidy` drops what must not be in PATH even
    where no layer touched it. `total` bounds the environment; None leaves that to the kernel.
    """

    _: KW_ONLY
    allow_from: frozenset[str] = frozenset()
    allow_code_loading: Mapping[str, frozenset[str]] = EMPTY
    list_names: frozenset[str] = LIST_NAMES
    tidy: bool = True
    total: int | None = DEFAULT_TOTAL


@record
class Event:
    """What one layer did to one variable. `value` is for those who may see it."""

    level: int
    layer: str
    action: str
    why: str
    origin: Origin | None
    value: str | None
    hidden = ("value",)


@record
class Refusal:
    """An entry of a layer that was left out; the rest of the layer applies."""

    level: int
    layer: str
    name: str
    reason: str
    why: str


History = dict[str, list[Event]]


class Stack:
    """Layers 0 to 6, folded. Values are plain text; `values` is not to be changed."""

    __slots__ = ("_mistakes", "_size", "layers", "lists", "policies", "refused", "rules", "values")

    def __init__(self, layers: Sequence[Layer], policies: Sequence[Policy], rules: Rules) -> None:
        """`layers` lowest first. Raises EnvironmentTooLarge."""
        self.layers = tuple(layers)
        self.policies = tuple(policies)
        self.rules = rules
        fold = self._fold(None)
        self.values = fold.values
        self.lists = fold.lists
        self.refused = fold.refused
        self._size = _check(fold.values, rules.total)
        self._mistakes: tuple[str, ...] | None = None

    @property
    def path_mistakes(self) -> tuple[str, ...]:
        """What is probably a mistake in what layers say about PATH, a line each."""
        if self._mistakes is None:
            self._mistakes = ()
            # What a client of the reference's protocol says itself is taken as it is, without a word.
            policies = [one for one in self.policies if self.rules.tidy or one.where is not REQUEST_POLICY]
            if len(self.layers) > 1 or policies:  # more than the base
                from .pathmistakes import path_mistakes

                self._mistakes = path_mistakes(self.layers, policies, self.values.get("PATH"))
        return self._mistakes

    def _fold(self, history: History | None) -> _Fold:
        fold = _Fold(self.policies, self.rules, history)
        wanted: frozenset[str] = frozenset()  # whatever policies inherit
        for layer in self.layers:
            if layer.level <= SNAPSHOT:
                fold.overlay(layer)
                if layer.asked:
                    wanted = wanted.union(layer.values, [one.variable for one in layer.operations])
        for policy in self.policies:
            fold.filter(policy, wanted)
        if not self.policies:
            fold.withhold()
        for layer in self.layers:
            if layer.level > SNAPSHOT:
                fold.overlay(layer)
        fold.finish(fold.values if self.rules.tidy else ())
        return fold

    def resolve(self, request: Layer | None, runtime: Sequence[Layer] = ()) -> Resolved:
        """A request's variables on top, then Outfitter's own. Raises EnvironmentTooLarge."""
        if request is None and not runtime:
            return Resolved(self, self.values, None, (), ())
        if (
            request is not None
            and (
                request.author != "client"
                or request.unset
                or request.operations
                # A whole value of a list is what was said, to the letter, where nothing is tidied up.
                or (self.rules.tidy and not self.rules.list_names.isdisjoint(request.values))
            )
        ) or [layer for layer in runtime if layer.operations or layer.unset]:
            fold = self._top(request, runtime, None)
            _check(fold.values, self.rules.total)
            return Resolved(self, fold.values, request, runtime, fold.refused[len(self.refused) :])
        # The usual request, without the fold: 200 variables are copied in 2 µs.
        values = dict(self.values)
        size = self._size
        refused: list[Refusal] = []
        if request is not None:
            values.update(request.values)
            for name, value in request.values.items():
                if is_withheld(name):
                    del values[name]
                    refused.append(_refusal(request, name, *_WITHHELD))
                    continue
                pair = len(name) + len(value) + 2
                size += pair
                if pair > LARGEST_PAIR // 4:
                    _check_pair(name, value)
        for layer in runtime:
            for name, value in layer.values.items():
                if not layer.where_unset or _is_gap(values, name):
                    values[name] = value
                    size += len(name) + len(value) + 2
                    if len(value) > LARGEST_PAIR // 5:
                        _check_pair(name, value)
        if self.rules.total is not None and size * 4 > self.rules.total:
            _check(values, self.rules.total)
        return Resolved(self, values, request, runtime, refused)

    def _top(self, request: Layer | None, runtime: Sequence[Layer], history: History | None) -> _Fold:
        if history is None:
            fold = _Fold(self.policies, self.rules, None)
            fold.values = dict(self.values)
            fold.lists = {name: value.copy() for name, value in self.lists.items()}
            fold.refused = list(self.refused)
        else:
            fold = self._fold(history)
        if request is not None:
            fold.overlay(request)
            changed = {*request.values, *(one.variable for one in request.operations)}
            fold.finish(changed if self.rules.tidy else ())
        for layer in runtime:
            fold.overlay(layer)
            if layer.operations:
                fold.finish()
        return fold


class Resolved:
    """The exact environment of one command. `values` is complete and final."""

    __slots__ = ("_refused", "request", "runtime", "stack", "values")

    def __init__(
        self,
        stack: Stack,
        values: dict[str, str],
        request: Layer | None,
        runtime: Sequence[Layer],
        refused: Sequence[Refusal],
    ) -> None:
        self.stack = stack
        self.values = values
        self.request = request
        self.runtime = runtime
        self._refused = refused

    @property
    def layers(self) -> list[Layer]:
        """Every layer that took part, lowest first."""
        return [*self.stack.layers, *([] if self.request is None else [self.request]), *self.runtime]

    @property
    def refused(self) -> list[Refusal]:
        """What layers wanted and did not get."""
        return [*self.stack.refused, *self._refused]

    def history(self) -> tuple[History, dict[str, ListValue]]:
        """What each layer did to each variable that any of them knew of, and the lists in segments."""
        history: History = {}
        fold = self.stack._top(self.request, self.runtime, history)
        assert fold.values == self.values, "told twice, the same story comes out"
        for name, value in fold.values.items():
            if name in self.stack.rules.list_names and name not in fold.lists:
                fold.list_of(name, value)
        return history, fold.lists


def resolve(
    layers: Sequence[Layer],
    policies: Sequence[Policy],
    request: Layer | None = None,
    runtime: Sequence[Layer] = (),
    rules: Rules | None = None,
) -> Resolved:
    """All at once. Raises EnvironmentTooLarge."""
    return Stack(layers, policies, rules or Rules()).resolve(request, runtime)


class _Fold:
    """The state while layers are put on top of each other."""

    def __init__(self, policies: Sequence[Policy], rules: Rules, history: History | None) -> None:
        self.values: dict[str, str] = {}
        self.lists: dict[str, ListValue] = {}
        self.refused: list[Refusal] = []
        self._policies = policies
        self._rules = rules
        self._history = history
        self._from: dict[str, Layer] = {}  # the layer of each value; kept only while somebody listens
        self._twice: frozenset[str] = frozenset()  # what the layer at hand sets and takes away

    def list_of(self, name: str, value: str) -> ListValue:
        """The segments of a value that no layer has looked into yet."""
        known = self.lists.get(name)
        if known is None:
            known = self.lists[name] = ListValue(name)
            if name in self.values:
                known.set(value, *self._source(name))
                known.dropped.clear()
        return known

    def _source(self, name: str) -> tuple[int, str]:
        layer = self._from.get(name)
        return (BASE, "base") if layer is None else (layer.level, layer.id)

    # Layers 0, 1 and 3 to 8

    def overlay(self, layer: Layer) -> None:
        if layer.state not in ("applied", "stale"):
            return
        if layer.level == BASE and self._history is None and not self.values:
            self.values = dict(layer.values)
            return
        # Once for all of them: whoever sends a hundred thousand names must not hold everybody up.
        self._twice = frozenset(layer.unset).intersection(layer.values) if layer.unset else frozenset()
        for name in layer.unset:
            refusal = self._judge(layer, name, None)
            if refusal is not None:
                self._refuse(layer, refusal)
            else:
                there = self.values.pop(name, None) is not None
                self.lists.pop(name, None)
                self._from.pop(name, None)
                why = "removed" if there else "was not set"
                self._tell(layer.level, layer.id, name, "unset", why, layer.origin_of(name), None)
        for name, value in layer.values.items():
            refusal = self._judge(layer, name, value)
            if refusal is None and name == "PATH" and not _takes_all(layer) and not leads_somewhere(value):
                refusal = _refusal(layer, name, *_NEEDED)
            if refusal is not None:
                self._refuse(layer, refusal)
            elif not layer.where_unset or _is_gap(self.values, name):
                self._set(layer, name, value)
        for operation in layer.operations:
            name = operation.variable
            op = operation.op
            if layer.awaits and name == "PATH" and op == "prepend":
                op = "append"  # a program that is there already is not replaced by a stranger's
            refusal = self._judge(layer, name, ":".join(operation.values), op=op)
            if name not in self._rules.list_names:
                refusal = _refusal(layer, name, "list", "not a list variable; see `lists` of [names]")
            if refusal is not None:
                self._refuse(layer, refusal)
                continue
            before = self.list_of(name, self.values.get(name, ""))
            segments = self.lists[name] = before.copy()
            segments.operate(op, operation.values, layer.level, layer.id, layer.root)
            if name == "PATH" and leads_somewhere(before.text()) and not leads_somewhere(segments.text()):
                self.lists[name] = before
                self._refuse(layer, _refusal(layer, name, *_NEEDED))
                continue
            if segments.segments:
                self.values[name] = segments.text()
            else:
                self.values.pop(name, None)
            why = f"{op} {len(operation.values)}"
            if op != operation.op:
                why = f"behind everything else until it is allowed: {layer.awaits}"
            if op == "replace" and layer.level in range(PROVIDER, OVERRIDE):
                why = "replaces the whole list"
            origin = operation.origin or layer.origin_of(name)
            self._tell(layer.level, layer.id, name, op, why, origin, ":".join(operation.values))
            if self._history is not None:
                if name in self.values:
                    self._from.setdefault(name, layer)
                else:
                    self._from.pop(name, None)
        for name, value in layer.makes.items():
            refusal = self._judge(layer, name, value)
            if refusal is not None and refusal.reason != "shell-maintained":
                self._refuse(layer, replace(refusal, why=f"{refusal.why}; {_TAKEN_AWAY}"))

    def _set(self, layer: Layer, name: str, value: str) -> None:
        why = "was not set before" if layer.where_unset else "set"
        if name in self._rules.list_names and (
            self._history is not None or name in self.lists or layer.level > POLICY
        ):
            segments = self.list_of(name, self.values.get(name, ""))
            op = segments.set(value, layer.level, layer.id)
            if layer.level in range(PROVIDER, OVERRIDE) and op == "replace":
                why = "replaces the whole list"
            elif op in ("prepend", "append"):
                why = f"{op}s to the list"
        self.values[name] = value
        if self._history is not None:
            before = self._from.get(name)
            if before is not None and why == "set":
                why = f"in place of {before.id}"
            if layer.level in (OVERRIDE, REQUESTED) and loads_code(name):
                why += "; note: this variable can make later commands run other code"
            self._from[name] = layer
            self._tell(layer.level, layer.id, name, "set", why, layer.origin_of(name), value)

    def _judge(self, layer: Layer, name: str, value: str | None, *, op: str = "set") -> Refusal | None:
        """Why a layer may not do this to a name; None when it may.

        `value` is None to take the variable away; `op` is what is done to a list.
        """
        level = layer.level
        if level in (BASE, RUNTIME_LEVEL):
            return None
        if level == SNAPSHOT:
            if name in SHELL_MAINTAINED:
                return _refusal(layer, name, *_MAINTAINED)
            if value is None and name in REQUIRED:
                return _refusal(layer, name, *_NEEDED)
            return None
        if is_withheld(name):
            return _refusal(layer, name, *_WITHHELD)
        if _takes_all(layer):
            return None
        if name in self._twice:
            return _refusal(layer, name, "conflict", "both set and removed by this layer")
        if not is_name(name):
            return _refusal(layer, name, "name", "some shells drop variables with this name")
        if value is not None and "\0" in value:
            return _refusal(layer, name, "value", "the value contains a NUL byte")
        if value is not None and not _is_bytes(value):
            return _refusal(layer, name, "value", "the value is not text that a program can get")
        if is_runtime(name) and not (level == SETUP and name in SETUP_NAMES):
            return _refusal(layer, name, "runtime", "only Outfitter sets this")
        if name in SHELL_MAINTAINED:
            return _refusal(layer, name, *_MAINTAINED)
        if value is None and name in REQUIRED:
            return _refusal(layer, name, *_NEEDED)
        if layer.awaits and not is_harmless(name, value, op):
            why = f"nobody has allowed the files that set it: {layer.awaits}"
            return _refusal(layer, name, "untrusted", why)
        scripted = level <= SESSION or layer.author == "model"  # not a person's own words
        if not scripted:
            return None
        if is_agents(name):
            return _refusal(layer, name, "runtime", "only the agent that sends commands sets this")
        if value is None or op == "remove":
            return None
        if loads_code(name):
            allowed = self._rules.allow_code_loading.get(layer.producer, frozenset())
            if name not in allowed:
                why = "this variable can make later commands run other code; see allow_code_loading"
                return _refusal(layer, name, "code-loading", why)
        spoken_as = "L5" if level == REQUESTED else layer.name  # the model is held to what hooks are
        if spoken_as not in self._rules.allow_from:
            for policy in self._policies:
                rule = policy.denies(name)
                if rule is not None:
                    return _refusal(layer, name, "denied", f"{rule}; allow_from with {spoken_as} permits it")
        return None

    def _refuse(self, layer: Layer, refusal: Refusal) -> None:
        self.refused.append(refusal)
        action = "ignored" if refusal.reason == "shell-maintained" else "refused"
        self._tell(
            layer.level, layer.id, refusal.name, action, refusal.why, layer.origin_of(refusal.name), None
        )

    # Layer 2

    def filter(self, policy: Policy, wanted: frozenset[str] = frozenset()) -> None:
        from .policy import apply  # who says all of it brings none

        outcome = apply(policy, self.values, wanted)
        for name in self.lists:
            if name in policy.set:
                self.lists[name].set(policy.set[name], POLICY, policy.name)
        self.lists = {name: value for name, value in self.lists.items() if name in outcome.values}
        self.values = outcome.values
        if self._history is None:
            return
        for name, verdict in outcome.verdicts.items():
            action, place, value = "kept", policy.place(verdict.rule), None
            if not verdict.kept:
                action = "removed"
                self._from.pop(name, None)
            elif verdict.origin == policy.source and name in policy.set:
                action, value = "set", policy.set[name]
                place = policy.places.get(f"set {name}", policy.source)
                self._from[name] = Layer(POLICY, policy.name, policy.source, policy.set)
            self._tell(POLICY, policy.name, name, action, verdict.rule, place, value)

    def withhold(self) -> None:
        """Takes away what no command gets: every policy does, but there may be none."""
        for name in [name for name in self.values if is_withheld(name)]:
            del self.values[name]
            self._from.pop(name, None)
            self._tell(POLICY, "policy", name, "removed", _WITHHELD[1], None, None)

    # The end

    def finish(self, also: Mapping[str, str] | Sequence[str] | set[str] = ()) -> None:
        """Tidies up the lists that a layer worked on, and those of `also`."""
        names = self._rules.list_names
        for name in [name for name in names if name in self.values]:
            known = self.lists.get(name)
            if (known is None or not known.touched) and name not in also:
                continue
            if known is None and not _untidy(name, self.values[name]):
                continue  # most lists are in order: nothing to take apart
            segments = self.list_of(name, self.values[name])
            segments.tidy()
            if segments.segments:
                self.values[name] = segments.text()
            else:
                del self.values[name]
                why = "no entry was left"
                self._tell(RUNTIME_LEVEL, "runtime", name, "removed", why, None, None)

    def _tell(
        self,
        level: int,
        layer: str,
        name: str,
        action: str,
        why: str,
        origin: Origin | None,
        value: str | None,
    ) -> None:
        if self._history is not None:
            self._history.setdefault(name, []).append(Event(level, layer, action, why, origin, value))


def _is_gap(values: Mapping[str, str], name: str) -> bool:
    """An empty PATH is none: shells then search a list of their own."""
    return name not in values or (name == "PATH" and not values[name])


_TAKEN_AWAY = "taken away again behind the tool"  # by `env.behind`
# Reasons that are given in more than one place.
_WITHHELD = ("withheld", "never passed to a command")
_MAINTAINED = ("shell-maintained", "shells set this variable themselves")
_NEEDED = ("required", "commands do not work without it")


def _takes_all(layer: Layer) -> bool:
    """Whether a layer is taken at its word: what is there, and a request as the reference takes it."""
    return layer.level in (BASE, RUNTIME_LEVEL) or (layer.level == REQUESTED and layer.author == "client")


def _refusal(layer: Layer, name: str, reason: str, why: str) -> Refusal:
    return Refusal(layer.level, layer.id, name, reason, why)


def _untidy(name: str, value: str) -> bool:
    parts = value.split(":")
    return (
        len(set(parts)) != len(parts)
        or (name == "PATH" and not all(part.startswith("/") for part in parts))
        or any(part.endswith("/") for part in parts)
    )


def _check(values: Mapping[str, str], total: int | None) -> int:
    """The size of an environment, about. Raises EnvironmentTooLarge, with the variable's name."""
    size = 0
    for name, value in values.items():
        pair = len(name) + len(value) + 2
        size += pair
        if pair > LARGEST_PAIR // 4:
            _check_pair(name, value)
    if total is not None and size * 4 > total:
        exact = sum(_bytes(name) + _bytes(value) + 2 for name, value in values.items())
        if exact > total:
            largest = max(values, key=lambda name: len(values[name]))
            raise EnvironmentTooLarge(largest, _bytes(values[largest]), exact, total)
    return size


def _check_pair(name: str, value: str) -> None:
    size = _bytes(name) + _bytes(value) + 1
    if size > LARGEST_PAIR:
        raise EnvironmentTooLarge(name, size, None, LARGEST_PAIR)


def _is_bytes(value: str) -> bool:
    """Half a surrogate pair, as JSON can have it, stands for no byte."""
    if value.isascii():
        return True
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
