"""What settings come to: the layer of an [env], a policy, the rules of a stack."""

from __future__ import annotations

from ..env.layer import PROVIDER, Layer, Operation, is_harmless
from ..env.lists import LIST_NAMES
from ..env.origin import Origin
from ..env.policy import Policy
from ..env.resolve import Rules
from ..record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .settings import EnvSettings, PolicySettings, Settings


def env_layer(
    level: int,
    id: str,
    said: EnvSettings,
    *,
    kind: str,
    table: str = "[env]",
    producer: str = "",
    awaits: str = "",
) -> Layer:
    """A table of variables as a layer. `kind` is whose file it stands in: "user" or "project".

    `awaits` is what a person types to allow a project's.
    """
    origins = {name: Origin(kind, f"{table} set", said.file, line) for name, _, line in said.set}
    origins.update((name, Origin(kind, f"{table} unset", said.file, line)) for name, line in said.unset)
    return Layer(
        level,
        id,
        Origin(kind, table, said.file),
        {name: value for name, value, _ in said.set},
        unset=[name for name, _ in said.unset],
        operations=[
            Operation(variable, op, values, Origin(kind, f"{table} {op}", said.file, line))
            for variable, op, values, line in said.operations
        ],
        origins=origins,
        producer=producer or id,
        awaits=awaits,
    )


def policy_of(whose: str, said: PolicySettings) -> Policy:
    name = "shell_environment_policy"
    places = {
        rule: Origin("policy", f"{whose} [{name}]", source.file, source.line)
        for rule, source in said.rules.items()
    }
    return Policy(
        said.inherit,
        said.ignore_default_excludes,
        said.exclude,
        said.set,
        said.include_only,
        name=f"{whose}:{name}",
        source=Origin("policy", f"{whose} [{name}]", said.file),
        places=places,
    )


def held_back(said: PolicySettings, awaits: str) -> tuple[PolicySettings, Layer]:
    """A project's policy that nobody has allowed, without what it sets; and that, as a layer that waits."""
    kept = tuple((name, value) for name, value in said.set if is_harmless(name, value, "set"))
    held = {name: value for name, value in said.set if not is_harmless(name, value, "set")}
    table = "[shell_environment_policy] set"
    places = {name: said.source(f"set {name}") for name in held}
    origins = {name: Origin("project", table, one.file, one.line) for name, one in places.items()}
    id = "project:shell_environment_policy"
    layer = Layer(
        PROVIDER,
        id,
        Origin("project", table, said.file),
        held,
        origins=origins,
        producer="project",
        awaits=awaits,
    )
    return replace(said, set=kept), layer


def rules_of(settings: Settings, *, tidy: bool = True, total: int | None = None) -> Rules:
    return Rules(
        allow_from=settings.allow_from,
        allow_code_loading=settings.allow_code_loading,
        list_names=LIST_NAMES | settings.list_names,
        tidy=tidy,
        total=total,
    )
