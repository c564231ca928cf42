"""What layers and policies do to PATH that is probably a mistake, with the place where it is said.

Of a mistake in the base nobody is told with each command: `outfitter doctor` looks at it.
"""

from __future__ import annotations

from ..plain import unbroken
from .layer import SNAPSHOT
from .lists import entry_key, entry_mistake, reaches_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .layer import Layer
    from .origin import Origin
    from .policy import Policy


def path_mistakes(layers: Sequence[Layer], policies: Sequence[Policy], path: str | None) -> tuple[str, ...]:
    """One line for each layer or policy that has one, and one if `path`, which comes of them, reaches no
    system folder."""
    told: list[str] = []
    culprit = ""  # who took entries away last
    for who, entries, takes in _said(layers, policies):
        culprit = who if takes else culprit
        if why := next(filter(None, map(entry_mistake, entries)), ""):
            told.append(f"PATH of {who} is probably a mistake: {unbroken(why)}")
    if culprit and path is not None and not reaches_system(path):
        told.append(
            f"PATH has neither /usr/bin nor /bin since {culprit}, so commands find hardly any program: add "
            "to PATH there instead of replacing it"
        )
    return tuple(told)


def _said(layers: Sequence[Layer], policies: Sequence[Policy]) -> Iterator[tuple[str, list[str], bool]]:
    """Who says something about PATH, lowest first: its entries, and whether that takes others away."""
    for policy in policies:
        if "PATH" in policy.set:
            place = policy.places.get("set PATH", policy.source)
            yield _who(policy.name, place), policy.set["PATH"].split(":"), True
    for layer in layers:
        if layer.level <= SNAPSHOT or layer.awaits or layer.state not in ("applied", "stale"):
            continue
        if "PATH" in layer.values:
            yield _who(layer.id, layer.origin_of("PATH")), layer.values["PATH"].split(":"), True
        for one in layer.operations:
            if one.variable == "PATH":
                takes = one.op in ("remove", "replace")
                there = () if one.op == "remove" else one.values
                entries = [entry for entry in there if not _has_root(layer, entry)]
                yield _who(layer.id, one.origin or layer.origin_of("PATH")), entries, takes


def _has_root(layer: Layer, entry: str) -> bool:
    """Whether a relative entry has a meaning: it starts at the layer's folder."""
    return layer.root is not None and not entry.startswith(("/", "$")) and entry_key(entry) not in ("", ".")


def _who(id: str, origin: Origin) -> str:
    if origin.file is None or origin.file in id:
        return id
    return f"{id} ({origin.file})" if origin.line is None else f"{id} ({origin.file}:{origin.line})"
