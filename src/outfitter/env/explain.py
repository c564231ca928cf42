"""A resolved environment as one object for people and programs: layers, variables, histories, segments.

Values are left out unless asked for: `show` is "names", "values" (all but secrets) or "secrets". The entries
of PATH and of other lists are always shown, unless the list is secret: they are folders, and they are what
people ask about. A secret that is part of another value is masked there.
"""

from __future__ import annotations

from ..plain import is_text, unbroken
from ..record import KW_ONLY, record
from .layer import waiting
from .redact import mask_pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .layer import Layer
    from .lists import ListValue, Segment
    from .origin import Origin
    from .redact import Secrets
    from .resolve import Event, History, Resolved

Json = dict[str, object]

SHOW = ("names", "values", "secrets")
# Characters of a tool's stderr beside each result: the last lines; `explain` has four times that.
_SAID = 1000
LEVELS = (
    *("executor base", "login-shell snapshot", "policy", "providers", "setup", "session overlay"),
    *("user overrides", "request", "runtime"),
)


@record
class View:
    """How much is shown, and what is known about folders.

    `exists` tells whether a folder is there; `workspace` is what an agent may write to.
    """

    secrets: Secrets
    show: str = "names"
    _: KW_ONLY
    exists: Callable[[str], bool] | None = None
    workspace: str | None = None


def explain(
    resolved: Resolved, view: View, base: Mapping[str, object], env_fp: str, contract_fp: str
) -> Json:
    """The whole story: `base`, `env_fp`, `contract_fp`, `layers`, `variables`, `refused`."""
    history, lists = resolved.history()
    secrets = secret_pairs(history, resolved, view.secrets)

    def told(text: str) -> str:
        return shown(text if view.show == "secrets" else mask_pairs(text, secrets))

    hidden = {name for name, _ in secrets}
    variables = {
        shown(name): _variable(name, history[name], resolved, lists.get(name), view, name in hidden, told)
        for name in sorted(history)
    }
    return {
        "base": dict(base),
        "env_fp": env_fp,
        "contract_fp": contract_fp,
        "layers": _layers(resolved, told),
        "variables": variables,
        "refused": [
            {
                "layer": f"L{one.level}",
                "id": one.layer,
                "name": shown(one.name),
                "reason": one.reason,
                "why": one.why,
            }
            for one in resolved.refused
        ],
    }


def summary(resolved: Resolved, base: str, env_fp: str, contract_fp: str) -> Json:
    """What goes with a command's result: no values, and no names but those that a provider's tool printed."""
    return {
        "base": base,
        "fp": env_fp,
        "contractFp": contract_fp,
        "layers": [_state(layer) for layer in resolved.layers],
        "rejected": len(resolved.refused),
        "stale": any(layer.state == "stale" for layer in resolved.layers),
    }


def _state(layer: Layer) -> Json:
    told: Json = {"id": layer.id, "layer": layer.name, "state": layer.state}
    if layer.said:
        told["said"] = shown(layer.said[-_SAID:])
    if waiting(layer):
        told["awaits"] = layer.awaits
    return told


def one_line(resolved: Resolved, base: str) -> str:
    """`env: base=launcher, provider=project(applied), overlay=none`: for the first line a model reads."""
    words = ("base", "login", "policy", "provider", "setup", "overlay", "overrides", "request")
    parts = [f"base={base}"]
    for level, word in enumerate(words[1:], start=1):
        found = [layer for layer in resolved.layers if layer.level == level and layer.state != "off"]
        if level == 2:
            found_policies = [policy.name for policy in resolved.stack.policies]
            parts.append(f"policy={'+'.join(found_policies) or 'none'}")
        elif found:
            parts.append(f"{word}={'+'.join(_brief(layer) for layer in found)}")
        elif level in (3, 4):
            parts.append(f"{word}=none")
    refused = len(resolved.refused)
    line = "env: " + ", ".join(parts) + (f", {refused} refused" if refused else "")
    # Folders are in it, and who names those is not who speaks here: one line stays one.
    return unbroken(shown(line), " ")


def _brief(layer: Layer) -> str:
    count = len(layer.values) + len(layer.unset) + len(layer.operations)
    if layer.state != "applied":
        return f"{layer.id}({layer.state})"
    waits = len(waiting(layer))
    return (
        f"{layer.id}(applied, {count - waits}, {waits} waiting for trust)"
        if waits
        else (f"{layer.id}(applied, {count})")
    )


def _layers(resolved: Resolved, told: Callable[[str], str]) -> list[Json]:
    """Every level, in order; a level that nobody fills is `off`."""
    found: list[Json] = []
    for level, title in enumerate(LEVELS):
        if level == 2:
            for policy in resolved.stack.policies:
                found.append(_layer(2, policy.name, title, "applied", 0.0, len(policy.set)))
            if not resolved.stack.policies:
                found.append(_layer(2, "policy", title, "off", 0.0, 0))
            continue
        members = [layer for layer in resolved.layers if layer.level == level]
        for layer in members:
            size = len(layer.values) + len(layer.unset) + len(layer.operations)
            entry = _layer(level, layer.id, title, layer.state, layer.cost_ms, size)
            entry["producer"] = layer.producer
            if layer.note:
                entry["note"] = layer.note
            if waits := waiting(layer):
                entry["awaits"] = {"names": [shown(name) for name in waits], "grant": shown(layer.awaits)}
            if layer.said:
                entry["said"] = told(layer.said)
            if layer.prefix:
                entry["prefix"] = [shown(word) for word in layer.prefix]
            if layer.lost:
                entry["lost"] = [
                    {"kind": kind, "name": shown(name), "keptBy": mode} for kind, name, mode in layer.lost
                ]
            if level == 7:
                entry["author"] = layer.author
            found.append(entry)
        if not members:
            found.append(_layer(level, title, title, "off", 0.0, 0))
    return found


def _layer(level: int, id: str, title: str, state: str, cost: float, size: int) -> Json:
    return {
        "layer": f"L{level}",
        "id": id,
        "title": title,
        "state": state,
        "cost": {"ms": round(cost, 3)},
        "entries": size,
    }


def decisive(events: Sequence[Event]) -> Event:
    """The one that made a variable what it is; of one that was only ever refused, the last."""
    idle = ("kept", "refused", "ignored")
    return next((event for event in reversed(events) if event.action not in idle), events[-1])


def secret_pairs(history: History, resolved: Resolved, secrets: Secrets) -> list[tuple[str, str]]:
    """Every value that a secret variable had on the way; one that had none is there with an empty one."""
    marked = frozenset[str]().union(*(layer.secrets for layer in resolved.layers))
    found = []
    for name, events in history.items():
        texts = {"", resolved.values.get(name, ""), *(event.value or "" for event in events)}
        if name in marked or any(secrets.holds(name, text) for text in texts):
            found += [(name, text) for text in texts]
    return found


def _variable(
    name: str,
    events: Sequence[Event],
    resolved: Resolved,
    segments: ListValue | None,
    view: View,
    secret: bool,
    told: Callable[[str], str],
) -> Json:
    value = resolved.values.get(name)
    visible = view.show == "secrets" or (view.show == "values" and not secret)
    last = decisive(events)
    entry: Json = {
        "layer": f"L{last.level}",
        "id": last.layer,
        "origin": _origin(last.origin),
        "secret": secret,
    }
    if value is None:
        entry["removed"] = {"layer": f"L{last.level}", "by": last.layer, "why": last.why}
    elif visible:
        entry["value"] = told(value)
    entry["history"] = [_event(event, told if visible else None) for event in events]
    if segments is not None and (value is not None or segments.dropped):
        tell = told if visible or not secret else None
        entry["segments"] = [_segment(segment, view, tell) for segment in segments.segments]
        entry["dropped"] = [
            {**_valued(one.value, tell), "layer": f"L{one.level}", "id": one.layer, "why": one.why}
            for one in segments.dropped
        ]
    return entry


def _valued(value: str, told: Callable[[str], str] | None) -> Json:
    return {} if told is None else {"value": told(value)}


def _event(event: Event, told: Callable[[str], str] | None) -> Json:
    entry: Json = {"layer": f"L{event.level}", "id": event.layer, "action": event.action, "why": event.why}
    if event.origin is not None:
        entry["origin"] = _origin(event.origin)
    if event.value is not None:
        entry.update(_valued(event.value, told))
    return entry


def _segment(segment: Segment, view: View, told: Callable[[str], str] | None) -> Json:
    entry: Json = {
        **_valued(segment.value, told),
        "layer": f"L{segment.level}",
        "id": segment.layer,
        "op": segment.op,
    }
    if view.exists is not None:
        entry["exists"] = view.exists(segment.value)
    if view.workspace is not None and inside(segment.value, view.workspace):
        entry["writableByAgent"] = True
    if segment.note and told is not None:
        entry["note"] = told(segment.note)
    return entry


def _origin(origin: Origin | None) -> Json:
    if origin is None:
        return {"kind": "runtime", "detail": "Outfitter"}
    entry: Json = {"kind": origin.kind, "detail": origin.detail}
    if origin.file is not None:
        entry["file"] = origin.file
    if origin.line is not None:
        entry["line"] = origin.line
    return entry


def inside(path: str, folder: str) -> bool:
    folder = folder.rstrip("/") + "/"
    return path.startswith(folder) or path + "/" == folder


def shown(text: str) -> str:
    """Text that can be written as UTF-8: bytes that are not stay recognisable, and different."""
    if is_text(text):
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a pair that stands for no byte
        return text.encode("utf-8", "backslashreplace").decode()
