"""outfitter contract: tables about launch contracts, and a first one."""

from __future__ import annotations

import os
from json import dumps
from typing import TYPE_CHECKING, Any

from ...agents.backends import backend, registered
from ...agents.parity import NOT_BUILT, RULES, judge
from ...contract.config import find_project_file
from ...contract.contract import Asked, contract_of
from ...env.launches import KINDS
from ...env.names import SHELL_MAINTAINED, is_runtime
from ...env.policy import CORE_NAMES
from ...errors import SettingInvalid
from ...formats.launchfile import PROJECT_FILE, TABLE, parse_contract
from ...openers import at_once, plain_file
from ...providers import inherited
from ..console import say
from ..env.asking import folder_of
from ..table import table

if TYPE_CHECKING:
    from ...agents.backends.base import Backend
    from ...env.launches import LaunchContract

_LARGEST = 1 << 20  # bytes of a contract that is read; a project's file has 64 KiB at most


def read(file: str | None) -> LaunchContract:
    """The contract in a file, or the project's. Raises SettingInvalid, FileInvalid."""
    path = file or find_project_file(os.getcwd())
    if path is None:
        raise SettingInvalid(
            f"no launch contract: there is no {PROJECT_FILE} here; name a file, or write one with "
            "`outfitter contract init`"
        )
    opener = at_once if file else plain_file  # a person may name a pipe; the project's may be anything
    try:
        with open(path, "rb", opener=opener) as opened:
            data = opened.read(_LARGEST + 1)
        text = data.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingInvalid(f"cannot read {path}: {reason}") from None
    if len(data) > _LARGEST:
        raise SettingInvalid(f"{path} is too large to be a launch contract")
    return parse_contract(text, path)


def check(file: str | None, flags: dict[str, Any]) -> int:
    contract = read(file)
    backends = registered()
    chosen = {name: backend(name) for name in flags["agent"]} or backends
    kinds = [contract.kind(name).name for name in flags["kind"]] or [one.name for one in contract.kinds]
    found = [one for one in judge(contract, chosen, extras=dict(flags["env"])) if one.kind in kinds]
    wrong = [one for one in found if not one.ok]
    if flags["json"]:
        told = [
            {
                "agent": one.backend,
                "kind": one.kind,
                "rule": one.rule,
                "ok": one.ok,
                "names": list(one.names),
                **({"wrong": one.wrong} if one.wrong else {}),
                **({"skipped": one.skipped} if one.skipped else {}),
            }
            for one in found
        ]
        print(dumps({"contract": contract.name, "ok": not wrong, "results": told}))
        return 1 if wrong else 0
    rows = []
    for name in chosen:
        for kind in kinds:
            cells = {one.rule: one for one in found if (one.backend, one.kind) == (name, kind)}
            marks = ["-" if one.skipped else "ok" if one.ok else "BROKEN" for one in cells.values()]
            rows.append([name, kind, *marks])
    print(table(["AGENT", "KIND", *(rule.upper() for rule in RULES)], rows))
    for one in wrong:
        print(f"{one.backend}, {one.kind}, {one.rule}: {one.wrong}")
    skipped = {(one.backend, one.kind, one.skipped) for one in found if one.skipped not in ("", NOT_BUILT)}
    for name, kind, why in sorted(skipped):
        print(f"{name}, {kind}: not judged: {why}")
    return 1 if wrong else 0


def list_agents(flags: dict[str, Any]) -> int:
    backends = registered()
    if flags["json"]:
        told = [
            {
                "name": one.name,
                "program": one.program,
                "denied": list(one.denied),
                "kinds": {kind: one.why_not(kind) for kind in KINDS},
            }
            for one in backends.values()
        ]
        print(dumps({"agents": told}))
        return 0
    rows = [
        [
            one.name,
            one.program,
            ", ".join(kind for kind in KINDS if one.why_not(kind) is None),
            ", ".join(one.denied),
        ]
        for one in backends.values()
    ]
    print(table(["AGENT", "PROGRAM", "KINDS", "NEVER INHERITS"], rows))
    return 0


# Differences


def diff(before: str, after: str, flags: dict[str, Any]) -> int:
    backends = registered()
    if before in backends and after in backends:
        rows = _agents_differ(backends[before], backends[after])
    elif before in backends or after in backends:
        raise SettingInvalid("compare two agents, or two files: not one with the other")
    else:
        rows = _contracts_differ(read(before), read(after))
    if flags["json"]:
        print(dumps({"differences": [{"what": what, "before": a, "after": b} for what, a, b in rows]}))
    elif rows:
        print(table(["WHAT", before, after], rows))
    else:
        say("no difference")
    return 1 if rows else 0


def _agents_differ(before: Backend, after: Backend) -> list[tuple[str, str, str]]:
    rows = [
        ("program", before.program, after.program),
        ("home", before.home_variable, after.home_variable),
        *_lists("never inherits", before.denied, after.denied),
        *((f"launch {kind}", before.why_not(kind) or "yes", after.why_not(kind) or "yes") for kind in KINDS),
    ]
    return [row for row in rows if row[1] != row[2]]


def _contracts_differ(before: LaunchContract, after: LaunchContract) -> list[tuple[str, str, str]]:
    rows = [("name", before.name, after.name)]
    for key in ("private", "exclusive"):
        rows += _lists(key, getattr(before, key), getattr(after, key))
    kinds = {one.name: one for one in before.kinds}, {one.name: one for one in after.kinds}
    for name in _joined(*kinds):
        old, new = kinds[0].get(name), kinds[1].get(name)
        if old is None or new is None:
            rows.append((f"kind {name}", "yes" if old else "-", "yes" if new else "-"))
            continue
        for key in ("requires", "forbids", "may_be_empty"):
            rows += _lists(f"{name}.{key}", getattr(old, key), getattr(new, key))
        for variable in _joined(old.baseline, new.baseline):
            a, b = old.baseline.get(variable, "-"), new.baseline.get(variable, "-")
            rows.append((f"{name}.set.{variable}", a, b))
    return [row for row in rows if row[1] != row[2]]


def _lists(what: str, before: tuple[str, ...], after: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [(what, *_either(one, before, after)) for one in _joined(before, after)]


def _either(one: str, before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, str]:
    return one if one in before else "-", one if one in after else "-"


def _joined(first: Any, second: Any) -> list[str]:
    return list(dict.fromkeys((*first, *second)))


# A first one


def init(flags: dict[str, Any]) -> int:
    contract = contract_of("launcher", inherited.load())
    folder = folder_of(flags["cwd"])
    resolved = contract.resolve(Asked(folder, {}))
    ours = [
        name
        for name in sorted(resolved.values)
        if name not in CORE_NAMES and name not in SHELL_MAINTAINED and not is_runtime(name)
    ]
    kinds = flags["kind"] or list(KINDS)
    if flags["json"]:
        empty: dict[str, object] = {"forbids": [], "set": {}}
        made = {kind: {"requires": ours, **empty} for kind in kinds}
        print(dumps({"name": flags["name"], "private": [], "exclusive": [], "kinds": made}))
        return 0
    lines = [
        f"# Put this below [{TABLE}] of {PROJECT_FILE}, as [{TABLE}.kinds.NAME], or into a file of its own.",
        f"name = {dumps(flags['name'])}",
        "private = []    # names of the harness itself: no launch inherits them",
        "exclusive = []  # names of headless launches: set afresh, never inherited",
    ]
    for kind in kinds:
        lines += ["", f"[kinds.{kind}]  # {KINDS.get(kind, 'a kind of your own')}", "requires = ["]
        lines += [f"    {dumps(name)}," for name in ours]
        lines += ["]", "forbids = []", "set = {}"]
    print("\n".join(lines))
    return 0
