"""The page that shows an environment: one HTML file that needs nothing else, made from what `explain` tells.

What went wrong comes first, then what layers changed; what a command has as its executor has it is folded up.

Nothing on it is fetched, and all of it can be read without JavaScript, which only adds the search. Whatever
is in the object, another machine may have sent: it is text, and an unexpected shape leaves a part out.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from re import split

from ..env.explain import LEVELS
from ..env.layer import STATES
from .html import Html, element, markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Told = Mapping[str, object]

_LEVELS = tuple(f"L{level}" for level in range(len(LEVELS)))
# What is done to a variable, as the four marks that there are.
_MARKS = {"kept": "kept", "removed": "gone", "unset": "gone", "refused": "refused", "ignored": "refused"}
# States of a layer that somebody has to do something about.
_TROUBLES = ("blocked", "failed", "stale", "missing")
_CHIPS = (
    ("removed", "a layer removed them, or every attempt to set them was refused"),
    ("secret", "their values are never shown"),
    ("list", "PATH and other lists of directories"),
    ("refused", "a layer tried to change them and was not allowed to"),
)


def render(told: Told) -> str:
    """The page, complete. Values of variables are on it where they are in `told`."""
    css, js = _file("page.css"), _file("page.js")
    where = _text(told, "cwd")
    # No attribute of the page is allowed to hold code or style, whoever got it there.
    policy = (
        f"default-src 'none'; style-src {_digest(css)}; script-src {_digest(js)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Environment of {where}" if where else "Environment"),
        element("style", css),
    )
    body = element(
        "body",
        element("a", "Skip to the variables", href="#variables", kind="skip"),
        _header(told, where),
        element(
            "main",
            _problems(_dicts(told.get("layers")), _dicts(told.get("refused"))),
            _variables(told),
            _path(_dict(_dict(told.get("variables")).get("PATH"))),
            _layers(_dicts(told.get("layers"))),
            _programs(told),
            _login_shell(_dict(told.get("loginShell"))),
            _files(_dicts(told.get("files"))),
        ),
        element("script", js),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en")


# The head


def _header(told: Told, where: str) -> Html:
    base = _dict(told.get("base"))
    shell = _dict(told.get("shell"))
    facts: dict[str, object] = {
        "base": _text(base, "kind"),
        **{name: _text(base, name) for name in ("host", "user", "pid")},
        "taken": _moment(base.get("startedAtMs")),
        # By the names of the settings: what came of them is told below.
        **{f"shell.{name}": _text(shell, name) for name in ("login", "startup", "snapshot")},
        "environment": _fingerprint(told.get("env_fp")),
        "inputs": _fingerprint(told.get("contract_fp")),
    }
    shown = {title: found for title, found in facts.items() if found}
    terms = [element("div", element("dt", title), element("dd", found)) for title, found in shown.items()]
    themes = [
        element(
            "label",
            element("input", type="radio", name="theme", value=theme, checked=theme == "auto"),
            element("span", theme),
        )
        for theme in ("auto", "light", "dark")
    ]
    return element(
        "header",
        element("h1", "Environment ", element("span", where, kind="mono") if where else None),
        element("fieldset", element("legend", "Colours", kind="spoken"), *themes, kind="themes"),
        element("p", _text(told, "summary"), kind="summary mono") if told.get("summary") else None,
        element("dl", *terms, kind="facts"),
    )


def _moment(value: object) -> Html | None:
    if not isinstance(value, int):
        return None
    try:
        moment = datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return element("time", f"{moment:%Y-%m-%d %H:%M:%S} UTC", datetime=moment.isoformat())


def _fingerprint(value: object) -> Html | None:
    if not isinstance(value, str) or not value:
        return None
    return element("code", value, kind="fingerprint", title=value)


# Problems


def _problems(layers: Sequence[Told], refused: Sequence[Told]) -> Html | None:
    """Layers that are not there although they should be, what tools printed, and what was not allowed."""
    troubles = [layer for layer in layers if _text(layer, "state") in _TROUBLES or layer.get("said")]
    if not troubles and not refused:
        return None
    # What only printed something comes last.
    troubles.sort(key=lambda layer: _text(layer, "state") not in _TROUBLES)
    items = [
        element(
            "li",
            _by(layer),
            _state(_text(layer, "state")),
            element("span", _text(layer, "note"), kind="note") if layer.get("note") else None,
            element("p", "It printed:", kind="dim") if layer.get("said") else None,
            element("pre", "\n" + _text(layer, "said")) if layer.get("said") else None,
            kind=_level(layer),
        )
        for layer in troubles
    ]
    return _section(
        "problems",
        "Problems",
        element("ul", *items, kind="troubles") if items else None,
        _refused(refused),
    )


def _refused(refused: Sequence[Told]) -> Html | None:
    if not refused:
        return None
    rows = [
        _row(
            _text(one, "name"),
            element("td", _by(one), kind=_level(one)),
            element("td", _tag(_text(one, "reason")), " ", _text(one, "why")),
        )
        for one in refused
    ]
    return element(
        "div", element("h3", "Refused"), _table(["Variable", "Wanted by", "Why not"], rows), id="refused"
    )


# Layers


def _layers(layers: Sequence[Told]) -> Html | None:
    if not layers:
        return None
    columns = []
    for level, title in zip(_LEVELS, LEVELS, strict=True):
        members = [layer for layer in layers if layer.get("layer") == level]
        on = [layer for layer in members if _text(layer, "state") not in ("off", "not-applicable")]
        columns.append(
            element(
                "li",
                # A click looks for it; without JavaScript it leads to the variables.
                element("a", level, href="#variables", data_find=level, aria_label=f"Variables of {level}"),
                element("h3", title),
                *[_member(layer) for layer in on],
                element("p", _state("off")) if not on else None,
                kind=f"{level} {'on' if on else 'idle'}",
            )
        )
    return _section("layers", "Layers", element("ol", *columns, kind="layers"))


def _member(layer: Told) -> Html:
    entries = layer.get("entries")
    cost = _dict(layer.get("cost")).get("ms")
    said = [_entries(entries)] if isinstance(entries, int) else []
    if not entries and layer.get("state") != "applied":
        said = []  # of course
    if isinstance(cost, int | float) and cost:
        said.append(f"{cost:.1f} ms")
    if layer.get("author"):
        said.append(f"by {_text(layer, 'author')}")
    return element(
        "div",
        element("p", _breakable(_text(layer, "id")), kind="id mono"),
        element("p", _state(_text(layer, "state")), " ", element("span", " · ".join(said), kind="dim")),
        element("p", _text(layer, "note"), kind="note") if layer.get("note") else None,
    )


def _breakable(name: str) -> Html:
    """A long name that may be continued on the next line where a reader would."""
    parts = [markup(part) for part in split("(?<=[:_])", name)]
    return Html(element("wbr").join(parts))


def _state(state: str) -> Html:
    return element("span", state or "unknown", kind=f"state {state if state in STATES else ''}".strip())


# Lists


def _path(path: Told) -> Html | None:
    if "segments" not in path:
        return None
    count = f"{_entries(len(_dicts(path.get('segments'))))}, searched from the top"
    return _section("path", "PATH", element("p", count, kind="dim"), _list(path))


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"


def _list(entry: Told) -> Html:
    """The entries of a list, and beside them those that were left out."""
    segments, dropped = _dicts(entry.get("segments")), _dicts(entry.get("dropped"))
    return element("div", _ladder(segments), _dropped(dropped), kind="beside")


def _ladder(segments: Sequence[Told]) -> Html:
    rungs = []
    for segment in segments:
        missing = segment.get("exists") is False
        rungs.append(
            element(
                "li",
                _value(segment),
                _tag("missing", "this directory does not exist") if missing else None,
                _writable(segment),
                element("span", _text(segment, "note"), kind="dim") if segment.get("note") else None,
                _by(segment),
                element("span", _text(segment, "op"), kind="op dim"),
                kind=f"{_level(segment)}{' missing' if missing else ''}",
            )
        )
    return element("ol", *rungs, kind="ladder")


def _dropped(dropped: Sequence[Told]) -> Html | None:
    if not dropped:
        return None
    left_out = [
        element("li", element("s", _value(one)), _by(one), element("p", _text(one, "why")), kind=_level(one))
        for one in dropped
    ]
    return element("div", element("h3", "Left out"), element("ul", *left_out), kind="dropped")


def _value(one: Told) -> Html:
    if "value" not in one:
        return element("span", "hidden", kind="tag")
    return element("code", _text(one, "value") or "(empty)")


# Programs and the login shell


def _programs(told: Told) -> Html | None:
    programs = _dict(told.get("programs"))
    if not programs:
        return None
    under = _dict(_dict(told.get("loginShell")).get("programs"))
    rows = []
    for name, found in programs.items():
        here, there = _dict(found), _dict(under.get(name))
        real = here.get("realPath")
        other = None
        if name in under:
            same = here.get("path") == there.get("path")
            other = element("td", "the same" if same else _place(there), kind="dim" if same else "differs")
        rows.append(
            _row(
                name,
                element(
                    "td",
                    _place(here),
                    element("span", " → ", element("code", real), kind="dim") if real else None,
                    _by(here) if here.get("layer") else None,
                    _writable(here),
                    kind=_level(here),
                ),
                other,
            )
        )
    titles = ["Program", "Is", *(["In a login shell"] if under else [])]
    return _section("programs", "Programs", _table(titles, rows))


def _place(found: Told) -> Html:
    path = found.get("path")
    return element("code", path) if path else element("span", "not found", kind="state missing")


def _login_shell(told: Told) -> Html | None:
    if not told:
        return None
    seconds = told.get("seconds")
    took = f", asked in {seconds:.2f} s" if isinstance(seconds, int | float) else ""
    lines = [element("p", element("code", _text(told, "shell")), took, kind="dim")]
    if told.get("state") != "captured":
        lines.append(element("p", _state(_text(told, "state")), " ", _text(told, "reason"), kind="reason"))
    else:
        rows = [_change(one) for one in _dicts(told.get("differences"))]
        nothing = element("p", "A login shell would change nothing.")
        lines.append(_table(["Variable", "Is", "How"], rows) if rows else nothing)
    return _section("login-shell", "In a login shell", *lines)


def _change(one: Told) -> Html:
    how: list[object] = []
    for word, tag, member in (("loses", "s", "segmentsRemoved"), ("gains", "span", "segmentsAdded")):
        entries = one.get(member)
        if isinstance(entries, list | tuple) and entries:
            how.append(element("span", f"{word} ", kind="dim"))
            how += [element(tag, element("code", entry), kind="entry") for entry in entries]
    if one.get("moved") is True:
        how.append("in another order")
    lists = bool(how)
    for word, member in (("was", "before"), ("is", "after")):
        # Of a list, the entries tell more.
        if member in one and not lists:
            how += [element("span", f"{word} ", kind="dim"), element("code", _text(one, member)), " "]
    if one.get("secret") is True:
        how.append(_tag("secret"))
    if place := _where(one):
        how.append(element("span", place, kind="place mono"))
    return _row(_text(one, "name"), element("td", _text(one, "kind")), element("td", *how))


# Variables


def _variables(told: Told) -> Html:
    variables = {name: _dict(entry) for name, entry in _dict(told.get("variables")).items()}
    rows = {name: _classes(entry) for name, entry in variables.items()}
    changed = {name: entry for name, entry in variables.items() if not _as_it_was(entry, rows[name])}
    valued = any("value" in entry for entry in variables.values())
    gone = sum("removed" in kinds for kinds in rows.values())
    count = f"{len(variables) - gone} given to a command" + (f", {gone} not" if gone else "")
    chips = []
    for chip, about in _CHIPS:
        number = sum(chip in kinds for kinds in rows.values())
        chips.append(
            element(
                "label",
                element("input", type="checkbox", value=chip, id=f"only-{chip}", disabled=not number),
                element("span", f"{chip} ", element("b", number)),
                title=about,
            )
        )
    heads = [
        element("abbr", level, title=title, kind=level) for level, title in zip(_LEVELS, LEVELS, strict=True)
    ]
    return _section(
        "variables",
        "Variables",
        element(
            "div",
            element(
                "input",
                type="search",
                id="search",
                placeholder="name, layer or file",
                aria_label="Search variables by name, layer or file",
                autocomplete="off",
                spellcheck="false",
                hidden=True,
            ),
            element("fieldset", element("legend", "Show only", kind="spoken"), *chips, kind="chips"),
            element("output", count, id="count", data_all=count, kind="dim"),
            element("button", "open all", type="button", id="open", hidden=True),
            kind="tools",
        ),
        _legend(),
        element(
            "div",
            element("span", "name"),
            element("span", *heads, kind="dots"),
            element("span", "from"),
            element("span", "value") if valued else None,
            kind="row heads",
            aria_hidden="true",
        ),
        element(
            "ul",
            *[_variable(name, entry, rows[name], valued) for name, entry in changed.items()],
            kind="rows",
        ),
        _unchanged({name: entry for name, entry in variables.items() if name not in changed}, rows, valued),
        element("p", "Nothing matches.", id="none", hidden=True),
        kind="valued" if valued else None,
    )


def _as_it_was(entry: Told, kinds: set[str]) -> bool:
    """Whether a command has a variable as its executor has it, and nobody wanted anything else."""
    return entry.get("layer") == "L0" and not kinds & {"removed", "refused"}


def _unchanged(variables: Mapping[str, Told], rows: Mapping[str, set[str]], valued: bool) -> Html | None:
    if not variables:
        return None
    count = f"{len(variables)} {'variable' if len(variables) == 1 else 'variables'} as the executor has "
    count += "it" if len(variables) == 1 else "them"
    return element(
        "details",
        element("summary", count),
        element(
            "ul",
            *[_variable(name, entry, rows[name], valued) for name, entry in variables.items()],
            kind="rows",
        ),
        id="unchanged",
        kind="rest",
    )


def _legend() -> Html:
    marks = {"set won": "decides", "set": "set", "kept": "kept", "gone": "removed", "refused": "refused"}
    shown = [
        element("span", element("i", kind=f"mark {kind} L0"), f" {word}") for kind, word in marks.items()
    ]
    return element("p", *shown, kind="legend dim", aria_hidden="true")


def _classes(entry: Told) -> set[str]:
    found = {
        "removed": "removed" in entry,
        "secret": entry.get("secret") is True,
        "list": "segments" in entry,
        "refused": any(_mark(event) == "refused" for event in _dicts(entry.get("history"))),
    }
    return {kind for kind, is_so in found.items() if is_so}


def _variable(name: str, entry: Told, kinds: set[str], valued: bool) -> Html:
    events = _dicts(entry.get("history"))
    origin = _dict(entry.get("origin"))
    removed = _dict(entry.get("removed"))
    short = " ".join(filter(None, (_text(entry, "id"), _where(origin, short=True))))
    if removed:
        short = _why(_text(removed, "by"), removed) or short
    value = None
    if valued:
        shown = element("code", _text(entry, "value")) if "value" in entry else None
        value = element("span", shown, kind="value")
    tags = [_tag(kind) for kind in ("secret", "refused") if kind in kinds]
    spoken = f"{'not given, by' if removed else 'from'} {_text(entry, 'layer')} {_text(entry, 'id')}"
    return element(
        "li",
        element(
            "details",
            element(
                "summary",
                element("span", element("s" if removed else "span", name), *tags, kind="name mono"),
                element("span", spoken, kind="spoken"),
                element("span", *_dots(events, _text(entry, "layer")), kind="dots", aria_hidden="true"),
                element("span", short, kind="from dim", aria_hidden="true", title=short),
                value,
                kind="row",
            ),
            element("div", _story(name, entry, events), kind="story"),
        ),
        kind=" ".join(["var", *sorted(kinds)]),
        data_find=_found_by(name, entry, events),
    )


def _dots(events: Sequence[Told], winner: str) -> list[Html]:
    dots = []
    for level in _LEVELS:
        own = [event for event in events if event.get("layer") == level]
        if not own:
            dots.append(element("i"))
            continue
        # Several policies are one column: what mattered is what was done last.
        last = next((event for event in reversed(own) if _mark(event) != "kept"), own[-1])
        won = " won" if level == winner and _mark(last) in ("set", "gone") else ""
        title = f"{level} {_text(last, 'id')}: {_text(last, 'action')}"
        dots.append(element("i", kind=f"mark {_mark(last)}{won} {level}", title=title))
    return dots


def _mark(event: Told) -> str:
    return _MARKS.get(_text(event, "action"), "set")


def _story(name: str, entry: Told, events: Sequence[Told]) -> Html:
    steps = []
    for event in events:
        place = _where(_dict(event.get("origin")))
        why = _why(_text(event, "id"), event)
        steps.append(
            element(
                "li",
                element("i", kind=f"mark {_mark(event)} {_level(event)}"),
                _by(event),
                element("b", _text(event, "action")),
                element("span", why) if why != event.get("action") else None,
                element("span", place, kind="place mono") if place else None,
                element("pre", "\n" + _text(event, "value")) if "value" in event else None,
                kind=_level(event),
            )
        )
    parts = [element("ol", *steps, kind="history")]
    if name == "PATH" and "segments" in entry:
        parts.append(element("p", element("a", "Its entries", href="#path")))
    elif "segments" in entry:
        parts.append(_list(entry))
    return Html("".join(parts))


def _found_by(name: str, entry: Told, events: Sequence[Told]) -> str:
    words = [name]
    for event in events:
        origin = _dict(event.get("origin"))
        words += [_text(event, "layer"), _text(event, "id"), _text(origin, "file"), _text(origin, "detail")]
    # What a part of it is found by: the layers of its entries too.
    for segment in _dicts(entry.get("segments")):
        words += [_text(segment, "layer"), _text(segment, "id")]
    return " ".join(dict.fromkeys(filter(None, words))).lower()


def _why(by: str, one: Told) -> str:
    """The reason, without the name of the one who is named beside it."""
    return _text(one, "why").removeprefix(f"{by}.")


def _where(origin: Told, *, short: bool = False) -> str:
    """file:line of an origin, or what there is to say instead."""
    file = _text(origin, "file")
    if not file:
        return "" if short else _text(origin, "detail")
    line = origin.get("line")
    path = file.rpartition("/")[2] if short else file
    return f"{path}:{line}" if isinstance(line, int) else path


# The rest


def _files(found: Sequence[Told]) -> Html | None:
    if not found:
        return None
    rows = [
        element(
            "tr",
            element("th", _text(one, "kind"), scope="row"),
            element("td", element("code", _text(one, "path"))),
            element("td", "read" if one.get("exists") is True else "does not exist", kind="dim"),
        )
        for one in found
    ]
    return _section("files", "Configuration", _table(["Whose", "File", ""], rows))


def _section(ident: str, title: str, *parts: Html | None, kind: str | None = None) -> Html:
    heading = element("h2", title, id=f"{ident}-title")
    return element("section", heading, *parts, id=ident, kind=kind, aria_labelledby=f"{ident}-title")


def _table(titles: Sequence[str], rows: Sequence[Html]) -> Html:
    head = element("tr", *[element("th", title, scope="col") for title in titles])
    # The box, not the page, is what gets too wide for a small screen.
    return element("div", element("table", element("thead", head), element("tbody", *rows)), kind="wide")


def _row(name: str, *cells: Html | None) -> Html:
    return element("tr", element("th", element("code", name), scope="row"), *cells)


def _by(one: Told) -> Html:
    whose = f"{_text(one, 'layer')} {_text(one, 'id')}"
    return element("span", whose.strip(), kind=f"by {_level(one)}".strip())


def _tag(word: str, about: str | None = None) -> Html:
    return element("span", word, kind="tag", title=about)


def _writable(one: Told) -> Html | None:
    if one.get("writableByAgent") is not True:
        return None
    return _tag("writable by the agent", "inside the worktree")


def _level(one: Told) -> str:
    """The class that gives a part the colour of its layer."""
    level = one.get("layer")
    return level if isinstance(level, str) and level in _LEVELS else ""


def _text(of: Told, name: str) -> str:
    value = of.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []


def _file(name: str) -> Html:
    """A file beside this one, whose text is markup of ours."""
    return Html(files(__package__).joinpath(name).read_text("utf-8"))


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
