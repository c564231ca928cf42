"""An explained environment in words: by layer, variable by variable, list by list. Made from its JSON object.

Names and texts come from anywhere: nothing that would move a terminal's cursor is printed as it is.
"""

from __future__ import annotations

from .output import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from ..colour import Paint

    Json = dict[str, Any]  # as env.explain makes it

WIDTH = 100
SECRET = "[secret]"
_MOST_PRINTED = 10  # lines of a tool's stderr: the last ones say what went wrong
_MOST_LOST = 5  # lines: a shell of nix has dozens of functions
# What says nothing about where a value comes from: who follows did not touch it.
_PASSIVE = ("kept", "refused", "ignored")
# What must have been there before it can be removed: who unsets a name to be sure takes nothing.
_GIVING = ("set", "prepend", "append", "replace")
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_COLOURS = {"refused": "red", "removed": "red", "unset": "red", "ignored": "dim", "kept": "dim"}


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# All of it


def overview(told: Json, paint: Paint, *, values: bool = False) -> Iterator[str]:
    """The summary, then the names by the layer that they come from, then what is not there and why."""
    yield printable(str(told["summary"]))
    present = {name: entry for name, entry in told["variables"].items() if "removed" not in entry}
    hint = "" if values else "; values are not shown"
    where = printable(str(told["cwd"]))
    yield paint("bold", f"{count(len(present), 'variable')} for a command in {where}{hint}")
    yield from _launch(told, paint)
    for layer in told["layers"]:
        names = [
            name
            for name, entry in present.items()
            if (entry["layer"], entry["id"]) == (layer["layer"], layer["id"])
        ]
        told_more = layer["state"] != "off" and not layer.keys().isdisjoint(("note", "awaits", "said"))
        if names or told_more or layer["state"] not in ("off", "applied"):
            yield _heading(layer, len(names), paint)
            yield from _beside_data(layer, paint)
        if values:
            yield from (f"    {printable(name)}={_value(present[name], paint)}" for name in names)
        else:
            yield from _columns(names)
    yield from _missing(told, paint)


def _launch(told: Json, paint: Paint) -> Iterator[str]:
    """The kind of launch that the command belongs to, and what its contract says."""
    if "launch" not in told:
        return
    launch = told["launch"]
    by = f", enforced by contract {', '.join(launch['enforcedBy'])}" if launch["enforcedBy"] else ""
    yield printable(f"  launch kind {launch['kind']}{by}")
    yield from (paint("red", printable(f"    {one}")) for one in launch["violations"])


def _heading(layer: Json, size: int, paint: Paint) -> str:
    text = f"  {layer['layer']} {layer['id']}"
    producer = layer.get("producer", layer["id"])
    if producer != layer["id"]:
        text += f" ({producer})"
    if layer["state"] != "applied":
        text += f": {layer['state']}"
        if "note" in layer:
            text += f", {layer['note']}"
        return paint("yellow", printable(text))
    return paint("cyan", printable(f"{text}: {size}"))


def _beside_data(layer: Json, paint: Paint) -> Iterator[str]:
    """What of a layer is no data: what starts the commands, and what a command does not get of it."""
    if layer["state"] == "applied" and "note" in layer:
        yield printable(f"    note: {layer['note']}")
    if "awaits" in layer:
        waits = layer["awaits"]
        named = f"{', '.join(waits['names'])}: to see how, and to allow it, type: {waits['grant']}"
        yield paint("yellow", printable(f"    would change {named}"))
    yield from (paint("yellow", line) for line in printed(layer))
    if "prefix" in layer:
        yield f"    starts commands as: {printable(' '.join(layer['prefix']))} ..."
    lost = layer.get("lost", [])
    for one in lost[:_MOST_LOST]:
        kept = f" (kept by the mode {one['keptBy']})" if one["keptBy"] != "session" else ""
        yield paint("yellow", printable(f"    does not keep {one['kind']} {one['name']}{kept}"))
    if len(lost) > _MOST_LOST:
        yield paint("yellow", f"    and {len(lost) - _MOST_LOST} more; --json has all")


def printed(layer: Json) -> Iterator[str]:
    """The last lines that a layer's tool wrote to stderr."""
    lines = [line for line in str(layer.get("said", "")).split("\n") if line.strip()]
    if len(lines) > _MOST_PRINTED:
        yield f"    printed {len(lines)} lines; the last {_MOST_PRINTED} (--json has more):"
    yield from (printable(f"    printed: {line}") for line in lines[-_MOST_PRINTED:])


def _value(entry: Json, paint: Paint) -> str:
    if "value" not in entry:
        return paint("dim", SECRET)
    return printable(str(entry["value"]))


def _missing(told: Json, paint: Paint) -> Iterator[str]:
    """What was removed, and what layers wanted in vain, by reason."""
    removed: dict[str, list[str]] = {}
    for name, entry in told["variables"].items():
        if "removed" in entry and any(event["action"] in _GIVING for event in entry["history"]):
            removed.setdefault(_gone(entry), []).append(name)
    if removed:
        yield paint("bold", f"{count(sum(map(len, removed.values())), 'variable')} removed")
        for reason, names in removed.items():
            yield paint("red", f"  {reason}")
            yield from _columns(names)
    if told["refused"]:
        size = len(told["refused"])
        yield paint("bold", f"{size} {'entry' if size == 1 else 'entries'} refused")
        yield from (f"  {line}" for line in refusals(told))


def _gone(entry: Json) -> str:
    gone = entry["removed"]
    why, by = str(gone["why"]), str(gone["by"])
    if not why.startswith(by):  # a policy's rule names the policy
        why = f"{by}: {why}"
    return printable(f"{gone['layer']} {why}{_place(entry['origin'])}")


def refusals(told: Json) -> Iterator[str]:
    """A line for each entry of a layer that was left out."""
    for one in told["refused"]:
        yield printable(f"{one['name']} of {one['layer']} {one['id']}: {one['why']} ({one['reason']})")


def _columns(names: Iterable[str]) -> Iterator[str]:
    row = ""
    for name in map(printable, names):
        if row and len(row) + 2 + len(name) > WIDTH - 4:
            yield f"    {row}"
            row = ""
        row = f"{row}  {name}" if row else name
    if row:
        yield f"    {row}"


# One variable


def variable(name: str, entry: Json, paint: Paint) -> Iterator[str]:
    """Its history, layer by layer, with the one that decided marked; and the segments of a list."""
    if "removed" in entry:
        state = f"not set: {_gone(entry)}"
    else:
        state = printable(f"from {entry['layer']} {entry['id']}")
        if entry["secret"]:
            state += ", secret"
        if "value" in entry:
            state += f": {printable(str(entry['value']))}"
    yield f"{paint('bold', printable(name))}  {state}"
    yield from _history(entry["history"], paint)
    if "segments" in entry:
        yield from ladder(entry, paint)


def _history(events: Sequence[Json], paint: Paint) -> Iterator[str]:
    decisive = max((at for at, event in enumerate(events) if event["action"] not in _PASSIVE), default=-1)
    rows = [
        (
            "*" if at == decisive else " ",
            printable(f"{event['layer']} {event['id']}"),
            printable(str(event["action"])),
            printable(_why(event)),
        )
        for at, event in enumerate(events)
    ]
    widths = [max((len(row[place]) for row in rows), default=0) for place in (1, 2)]
    for mark, layer, action, why in rows:
        colour = _COLOURS.get(action, "green" if mark == "*" else "dim")
        yield (
            f"  {paint('bold', mark)} {layer.ljust(widths[0])}  "
            f"{paint(colour, action.ljust(widths[1]))}  {why}"
        ).rstrip()


def _why(event: Json) -> str:
    origin = event.get("origin")
    parts = [] if event["why"] == event["action"] else [str(event["why"])]
    if origin is not None and event["layer"] != "L2":  # a policy's rule says it all
        parts.append(str(origin["detail"]))
    why = ", ".join(parts)
    if "value" in event:
        why += f" [{event['value']}]"
    return why if origin is None else why + _place(origin)


def _place(origin: Json) -> str:
    if "file" not in origin:
        return ""
    return f" ({origin['file']}:{origin['line']})" if "line" in origin else f" ({origin['file']})"


def ladder(entry: Json, paint: Paint) -> Iterator[str]:
    """The segments of a list in their order, numbered, then those that were dropped."""
    rows = []
    for number, segment in enumerate(entry["segments"], 1):
        notes = [] if segment["op"] == "set" else [printable(str(segment["op"]))]
        if segment.get("exists") is False:
            notes.append(paint("yellow", "does not exist"))
        if segment.get("writableByAgent"):
            notes.append(paint("yellow", "writable by the agent"))
        if "note" in segment:
            notes.append(printable(segment["note"]))
        rows.append((str(number), _segment(segment), _whose(segment), ", ".join(notes)))
    for one in entry["dropped"]:
        why = paint("red", "dropped") + f": {printable(one['why'])}"
        rows.append(("-", _segment(one), _whose(one), why))
    widths = [max((len(row[place]) for row in rows), default=0) for place in (0, 1, 2)]
    for place, value, layer, note in rows:
        yield (
            f"    {place.rjust(widths[0])}  {value.ljust(widths[1])}  {layer.ljust(widths[2])}  {note}"
        ).rstrip()


def _whose(segment: Json) -> str:
    return printable(f"{segment['layer']} {segment['id']}")


def _segment(segment: Json) -> str:
    if "value" not in segment:
        return SECRET
    return printable(str(segment["value"])) or "(empty)"


# Programs


def program(name: str, told: Json, paint: Paint) -> Iterator[str]:
    """Which file a name means, through which entry of PATH, and what a login shell would make of it."""
    found = told["programs"][name]
    path = found["path"]
    if path is None:
        yield f"{paint('bold', printable(name))}  is not in PATH"
    else:
        yield f"{paint('bold', printable(name))}  {printable(path)}{_through(found, told)}"
        if "realPath" in found:
            yield f"    which is {printable(found['realPath'])}"
        if found.get("writableByAgent"):
            yield f"    {paint('yellow', 'found in a directory that the agent can write to')}"
    login = told.get("loginShell", {}).get("programs", {}).get(name)
    if login is not None:
        same = login["path"] == path
        text = "the same" if same else printable(login["path"] or "not found")
        yield f"    in a login shell: {text if same else paint('yellow', text)}"


def _through(found: Json, told: Json) -> str:
    if "layer" not in found:
        return ""
    text = f"{found['layer']} {found['id']}"
    folder = str(found["path"]).rpartition("/")[0] or "/"
    segments = told["variables"].get("PATH", {}).get("segments", ())
    for number, segment in enumerate(segments, 1):
        if segment.get("value", "").rstrip("/") == folder.rstrip("/"):
            text = f"entry {number} of PATH, {text}"
            break
    return printable(f"  ({text})")


def login_shell(told: Json, paint: Paint) -> Iterator[str]:
    """What the account's login shell would make of it."""
    found = told["loginShell"]
    shell = printable(str(found["shell"]))
    if found["state"] != "captured":
        yield paint("yellow", printable(f"the login shell {shell} gave no environment: {found['reason']}"))
        return
    changes = found["differences"]
    if not changes:
        yield paint("bold", f"the login shell {shell} would change nothing")
        return
    yield paint("bold", f"the login shell {shell} would change {count(len(changes), 'variable')}")
    yield from differences(changes, paint)


def differences(found: Sequence[dict[str, Any]], paint: Paint) -> Iterator[str]:
    """A line for each variable, and one for each entry that a list has won or lost."""
    for one in found:
        mark, colour = _SIGNS[one["kind"]]
        note = "  secret" if one["secret"] else ""
        yield f"  {paint(colour, mark)} {paint('bold', printable(one['name']))}{paint('dim', note)}"
        listed = False
        for key, kind in (("segmentsRemoved", "removed"), ("segmentsAdded", "added")):
            sign, colour = _SIGNS[kind]
            for entry in one.get(key, ()):
                listed = True
                yield f"      {paint(colour, sign)} {printable(entry) or '(empty)'}"
        if one.get("moved"):
            yield "      in another order"
        if not listed:
            for key, sign in (("before", "-"), ("after", "+")):
                if key in one:
                    yield f"      {sign} {printable(one[key])}"
