"""The project's own environment."""

from __future__ import annotations

from ...env.layer import complains, waiting
from ...record import EMPTY, KW_ONLY, record
from ..frozen import cannot_freeze, freeze_remedy
from ..selection import ProviderSelection
from ..settings import DEFAULT, Settings
from .check import Check, Finding
from .machine import configured, given
from .words import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .machine import Machine


@record
class Providers:
    """The project's environment: `layers` are (id, state, note) of what is applied or should be, `others`
    are (provider, file) of what was found and is not used. `declared`: the configuration names providers.
    `refused`: why no command is started without it. `said` has by id what a tool printed on stderr. `idle`
    are (provider, place) of options in the configuration that have no effect here."""

    layers: Sequence[tuple[str, str, str]] = ()
    others: Sequence[tuple[str, str]] = ()
    _: KW_ONLY
    declared: bool = False
    refused: str = ""
    said: Mapping[str, str] = EMPTY
    idle: Sequence[tuple[str, str]] = ()


def providers(machine: Machine) -> Providers:
    has = machine.part(given)
    if has.refused:
        return Providers(refused=has.refused)
    layers = [
        (layer.id, layer.state, layer.note)
        for layer in has.layers
        if layer.id != "project" and not waiting(layer)
    ]
    layers += [
        (layer.id, "waiting", f"would change {', '.join(waiting(layer))}; type: {layer.awaits}")
        for layer in has.layers
        if waiting(layer)
    ]
    layers += has.unrun
    # Those that could be meant; the ones that are in PATH already count as applied.
    used = {layer.producer for layer in has.layers}
    others = [
        (use.provider.id, use.found.files[0])
        for use in ProviderSelection().uses(machine.cwd, Settings())
        if use.provider.id not in used
    ]
    said = {layer.id: layer.said for layer in has.layers if layer.said}
    settings = machine.part(configured).settings
    declared = settings.sources["providers.use"] != DEFAULT
    # Of the user's own file, which is for all projects, most of it has no effect in one of them.
    idle = [
        (id, str(source))
        for id in settings.provider_options
        if id not in used and (source := settings.sources.get(f"providers.{id}", DEFAULT)).kind == "project"
    ]
    return Providers(layers, others, declared=declared, said=said, idle=idle)


def providers_present(found: Providers) -> Finding:
    if found.refused:
        return Finding(
            "error",
            "no command can be started: something that the project requires is missing",
            found.refused.split("\n"),
            "Follow the notes above; `outfitter trust` shows what would run.",
        )
    details = []
    for id, state, note in found.layers:
        details.append(f"{id}: {state}" + (f" ({note})" if note else ""))
        details += [f"{id} printed: {line}" for line in found.said.get(id, "").split("\n") if line]
    details += [f"{file} ({id}): detected, not used" for id, file in found.others]
    details += [f"providers.{id} ({place}) has no effect here" for id, place in found.idle]
    states = [state for _, state, _ in found.layers]
    # What is not installed does not matter where another one is applied: the first that is there counts.
    bad = ["blocked", "failed", "waiting"]
    if "applied" not in states:
        bad.append("missing")
    wrong = [(id, state, note) for id, state, note in found.layers if state in bad]
    if wrong:
        return Finding(
            "warning",
            ", ".join(f"{id.partition(':')[0]}: {state}" for id, state, _ in wrong),
            details,
            "Follow the notes above; `outfitter trust` shows what would run.",
        )
    applied = [id for id, state, _ in found.layers if state == "applied"]
    complaining = [id for id in applied if complains(found.said.get(id, ""))]
    if complaining:
        return Finding(
            "warning",
            f"{', '.join(complaining)}: applied, but it printed an error",
            details,
            "What follows the error may be missing from the environment: correct what it names.",
        )
    unfrozen = {id: note for id, state, note in found.layers if state == "applied" and cannot_freeze(note)}
    if unfrozen:
        return Finding(
            "warning",
            f"{', '.join(unfrozen)}: files are checked before and after the tool runs, not meanwhile",
            details,
            freeze_remedy(unfrozen.values()),
        )
    if found.idle:
        return Finding(
            "warning",
            f"{', '.join(id for id, _ in found.idle)}: configured, not used",
            details,
            "Its files were not found, or another provider was detected first: check the names, or list all "
            "that are meant in `use` under [providers], in their order.",
        )
    if applied:
        return Finding("ok", f"applied: {', '.join(applied)}", details)
    if found.others and found.declared:
        tools = list(dict.fromkeys(id for id, _ in found.others))
        return Finding(
            "warning",
            f"{', '.join(tools)}: detected, not used",
            details,
            f"Write use = [{quoted(tools[0])}] under [providers] in outfitter.toml; "
            "`outfitter trust` shows what would run, and allows it.",
        )
    return Finding("ok", "the project has no environment of its own", details)


CHECKS = (Check("providers.present", (providers,), providers_present),)
