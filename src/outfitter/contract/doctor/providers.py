"""The project's own environment."""

from __future__ import annotations

from ...env.layer import waiting
from ...record import KW_ONLY, record
from ..selection import ProviderSelection
from ..settings import Settings
from .check import Check, Finding
from .machine import configured, given
from .words import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine


@record
class Providers:
    """The project's environment: `layers` are (id, state, note) of what is applied or should be, `others`
    are (provider, file) of what was found and is not used. `declared`: the configuration names providers.
    `refused`: why no command is started without it."""

    layers: Sequence[tuple[str, str, str]] = ()
    others: Sequence[tuple[str, str]] = ()
    _: KW_ONLY
    declared: bool = False
    refused: str = ""


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
    return Providers(layers, others, declared=machine.part(configured).settings.providers is not None)


def providers_present(found: Providers) -> Finding:
    if found.refused:
        return Finding(
            "error",
            "no command can be started: something that the project requires is missing",
            found.refused.split("\n"),
            "Follow the notes above; `outfitter trust` shows what would run.",
        )
    details = [f"{id}: {state}" + (f" ({note})" if note else "") for id, state, note in found.layers]
    details += [f"{file} ({id}): detected, not used" for id, file in found.others]
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
