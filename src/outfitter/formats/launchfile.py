"""Launch contracts as people write them: a TOML file of their own, or `[agents]` of an outfitter.toml.

    name = "autoskillit"
    private = ["AUTOSKILLIT_*"]

    [kinds.skill]
    requires = ["AUTOSKILLIT_HEADLESS"]
    set = { AUTOSKILLIT_HEADLESS = "1" }

    [kinds.food_truck]
    like = "skill"

A kind that is `like` another has all that the other has, and its own on top. The kinds that ship with
Outfitter are there without being written.
"""

from __future__ import annotations

from ..env.launches import DEFAULT, HOLES, KINDS, Kind, LaunchContract
from ..env.names import is_name
from ..record import EMPTY
from .document import refuse
from .toml import Table, parse, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT_FILE = "outfitter.toml"
TABLE = "agents"  # in it
_KEYS = ("name", "private", "exclusive", "enforce", "kinds")
_KIND_KEYS = ("like", "requires", "forbids", "may_be_empty", "set")


def parse_contract(text: str, file: str) -> LaunchContract:
    """The contract in a text: in table `agents` of a project's file, or in a file of its own.

    A project without that table has the default one. Raises FileInvalid with every mistake.
    """
    root = Table(parse(text, file))
    if TABLE not in root and file.rpartition("/")[2] == PROJECT_FILE:
        return DEFAULT
    table = root.table(TABLE) if TABLE in root else root
    contract = read_contract(table) if table is not None else LaunchContract("", ())
    refuse(root.mistakes)
    return contract


def read_contract(table: Table) -> LaunchContract:
    """The contract in a table; what is wrong with it is noted there."""
    table.only(*_KEYS)
    kinds = {name: Kind(name) for name in KINDS}
    declared = table.table("kinds")
    waiting = {} if declared is None else {name: declared.table(name) for name in declared.keys()}  # noqa: SIM118
    for name, one in waiting.items():
        if not name.replace("_", "").replace("-", "").isalnum() and declared is not None:
            declared.wrong(f"`{shown(name)}` is no name of a kind", "use letters, digits, - and _", name)
        if one is not None:
            one.only(*_KIND_KEYS)
    while waiting:
        # One that is like another comes after it.
        ready = [name for name, one in waiting.items() if one is None or one.text("like") not in waiting]
        for name in ready or list(waiting):
            one = waiting.pop(name)
            if one is not None:
                if not ready:
                    one.wrong("this kind is like itself", "remove one `like` of the circle", "like")
                kinds[name] = _kind(name, one, kinds)
    enforce = table.texts("enforce") or ()
    for place, name in enumerate(enforce):
        if name not in kinds:
            table.wrong(
                f"no kind is called `{shown(name)}`", f"write some of {', '.join(kinds)}", "enforce", place
            )
    return LaunchContract(
        table.text("name") or "project",
        tuple(kinds.values()),
        private=_rules(table, "private"),
        exclusive=_rules(table, "exclusive"),
        enforce=enforce,
    )


def _kind(name: str, table: Table, kinds: dict[str, Kind]) -> Kind:
    like = table.text("like")
    other = kinds.get(like or "", Kind(""))
    if like is not None and like not in kinds:
        table.wrong(f"no kind is called `{shown(like)}`", f"write one of {', '.join(kinds)}", "like")
    baseline = table.text_map("set") or EMPTY
    for variable, value in baseline.items():
        _check_name(table, variable, "set", variable)
        for hole in _holes(value):
            if hole not in HOLES:
                known = ", ".join(f"{{{one}}}" for one in HOLES)
                table.wrong(f"{{{shown(hole)}}} stands for nothing", f"write one of {known}", "set", variable)
    return Kind(
        name,
        requires=_joined(other.requires, _names(table, "requires")),
        forbids=_joined(other.forbids, _rules(table, "forbids")),
        baseline={**other.baseline, **baseline},
        may_be_empty=_joined(other.may_be_empty, _names(table, "may_be_empty")),
    )


def _joined(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _names(table: Table, key: str) -> tuple[str, ...]:
    found = table.texts(key) or ()
    for place, name in enumerate(found):
        _check_name(table, name, key, place)
    return found


def _rules(table: Table, key: str) -> tuple[str, ...]:
    """Names, or prefixes with `*` behind them."""
    found = table.texts(key) or ()
    for place, rule in enumerate(found):
        _check_name(table, rule.removesuffix("*"), key, place)
    return found


def _check_name(table: Table, name: str, *path: str | int) -> None:
    if not is_name(name):
        remedy = "write letters, digits and _, and `*` only at the end of a prefix"
        table.wrong(f"`{shown(name)}` is no name of a variable", remedy, *path)


def _holes(value: str) -> list[str]:
    return [part.partition("}")[0] for part in value.split("{")[1:] if "}" in part]
