"""Whether every backend keeps a contract for every kind of launch: what a harness's tests ask.

A launch is built from a caller who has everything that must not be inherited, with extras that a filter would
eat, and the command that comes out of it is judged. Whatever builds commands may be judged, ours or a
harness's own, as long as it gives back a CommandSpec.
"""

from __future__ import annotations

from ..env import launches
from ..env.launches import first_match
from ..errors import LaunchRefused
from ..record import EMPTY, KW_ONLY, record
from .backends.base import SANDBOXES, Task
from .spec import GUARDS, CommandSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..env.launches import LaunchContract
    from .backends.base import Backend

    Build = Callable[["Order"], CommandSpec]

LEAK = "leaked-from-the-parent"  # the value of everything that must not be inherited

REQUIRED, FORBIDDEN, FRESH, EXTRAS, RESUMES = (
    "required",
    "forbidden",
    "fresh",
    "extras",
    "resume-keeps-sandbox",
)
RULES = {
    REQUIRED: "every required name has a value",
    FORBIDDEN: "no forbidden name is there",
    FRESH: "nothing private, exclusive or denied is inherited",
    EXTRAS: "what the caller gives on purpose arrives",
    RESUMES: "a resume keeps the sandbox of the launch that it continues",
}
NOT_BUILT = "no command could be built"


@record
class Order:
    """What a builder is asked for: all that `CommandSpec` takes."""

    contract: LaunchContract
    backend: Backend
    kind: str
    task: Task
    _: KW_ONLY
    base: Mapping[str, str] = EMPTY
    extras: Mapping[str, str] = EMPTY
    continues: tuple[str, ...] | None = None


def build(order: Order) -> CommandSpec:
    """The builder that ships with Outfitter. Raises LaunchRefused."""
    return CommandSpec(
        order.contract,
        order.backend,
        order.kind,
        order.task,
        base=order.base,
        extras=order.extras,
        continues=order.continues,
    )


@record
class Judgement:
    """What one rule says about one backend and kind. `names` are at fault; `skipped` is why the backend
    cannot be launched so."""

    backend: str
    kind: str
    rule: str
    _: KW_ONLY
    wrong: str = ""
    names: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def ok(self) -> bool:
        return not self.wrong


def cases(contract: LaunchContract, backends: Mapping[str, Backend]) -> Iterator[tuple[str, str, str]]:
    """Backend, kind and rule of everything that is judged."""
    for name in backends:
        for kind in contract.kinds:
            for rule in RULES:
                yield name, kind.name, rule


def judge(
    contract: LaunchContract,
    backends: Mapping[str, Backend],
    *,
    extras: Mapping[str, str] = EMPTY,
    with_: Build = build,
) -> list[Judgement]:
    """Every rule for every backend and kind. `extras` are what the harness always passes."""
    return [
        judgement
        for backend in backends.values()
        for kind in contract.kinds
        for judgement in _judged(contract, backend, kind.name, extras, with_)
    ]


def _judged(
    contract: LaunchContract, backend: Backend, kind: str, extras: Mapping[str, str], build: Build
) -> Iterator[Judgement]:
    why_not = backend.why_not(kind)
    if why_not is not None:
        yield from (Judgement(backend.name, kind, rule, skipped=why_not) for rule in RULES)
        return
    rules = contract.kind(kind)
    unwanted = _unwanted(contract, backend)
    probe = _probe(rules.forbids, backend, extras)
    base = {**dict.fromkeys(unwanted, LEAK), "PATH": "/usr/bin:/bin", "HOME": "/home/user"}
    order = Order(contract, backend, kind, Task("do", cwd="/work"), base=base, extras={**extras, **probe})

    def told(rule: str, what: str, names: Iterable[str]) -> Judgement:
        found = tuple(names)
        return Judgement(
            backend.name, kind, rule, wrong=f"{what} {', '.join(found)}" if found else "", names=found
        )

    try:
        spec = build(order)
    except LaunchRefused as error:
        refused = [one for one in error.violations if one.rule != launches.FORBIDDEN]
        for rule, broken in (
            (REQUIRED, refused),
            (FORBIDDEN, [one for one in error.violations if one not in refused]),
        ):
            wrong = "; ".join(map(str, broken))
            yield Judgement(backend.name, kind, rule, wrong=wrong, names=tuple(one.name for one in broken))
        for rule in (FRESH, EXTRAS, RESUMES):
            yield Judgement(backend.name, kind, rule, skipped=NOT_BUILT)
        return
    lacking = [name for name in rules.requires if not spec.env.get(name) and name not in rules.may_be_empty]
    yield told(REQUIRED, "no value for", lacking)
    yield told(FORBIDDEN, "forbidden:", [name for name in spec.env if first_match(rules.forbids, name)])
    yield told(FRESH, "inherited:", [name for name, value in spec.env.items() if value == LEAK])
    gone = [name for name, value in order.extras.items() if spec.env.get(name) != value]
    yield told(EXTRAS, "given and gone:", gone)
    wrong, names = _resumes(order, build)
    yield Judgement(backend.name, kind, RESUMES, wrong=wrong, names=names)


def _resumes(order: Order, build: Build) -> tuple[str, tuple[str, ...]]:
    """What is wrong with resumes of such a launch, for each sandbox; and which flag."""
    contract, backend = order.contract, order.backend
    if backend.why_not("resume") is not None or "resume" not in [kind.name for kind in contract.kinds]:
        return "", ()
    extras = {**dict.fromkeys(contract.kind("resume").requires, "1"), **order.extras}
    for sandbox in SANDBOXES:
        first = Task("do", cwd="/work", sandbox=sandbox)
        again = Task("go on", cwd="/work", sandbox=sandbox, session="00000000-0000-4000-8000-000000000000")
        start = Order(contract, backend, order.kind, first, base=order.base, extras=extras)
        try:
            guards = build(start).guards
            build(Order(contract, backend, "resume", again, base=order.base, extras=extras, continues=guards))
        except LaunchRefused as error:
            lost = tuple(one.name for one in error.violations if one.rule == GUARDS)
            if lost:
                return str(error), lost
    return "", ()


def _unwanted(contract: LaunchContract, backend: Backend) -> list[str]:
    """A name for each rule about what is not inherited."""
    rules = (*backend.denied, *contract.private, *contract.exclusive)
    return [f"{rule[:-1]}PROBE" if rule.endswith("*") else rule for rule in rules]


def _probe(forbids: tuple[str, ...], backend: Backend, extras: Mapping[str, str]) -> dict[str, str]:
    """Extras that a filter of inherited names would eat, as far as they are not forbidden."""
    names = [f"{rule[:-1]}GIVEN" if rule.endswith("*") else rule for rule in backend.denied]
    return {
        name: f"given-{place}"
        for place, name in enumerate(names)
        if name not in extras and not first_match(forbids, name)
    }
