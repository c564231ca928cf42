"""outfitter trust: what a project would run and set, and whether it may."""

from __future__ import annotations

import os
import shlex
import sys
from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

from ..contract.contract import Asked, contract_of
from ..contract.trust import PROJECT, tables_of
from ..contract.worktree import worktree_root
from ..env.explain import shown
from ..env.redact import Secrets
from ..errors import OutfitterError
from ..plain import plain
from ..providers import inherited
from ..record import replace
from .console import say
from .env.asking import folder_of
from .env.output import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..contract.contract import Contract
    from ..contract.trust import Grant, Tables, TrustStore
    from ..providers.base import Trust


def trust(directory: str | None, flags: dict[str, Any]) -> int:
    """Shows, and grants or revokes; returns the exit status: 0 when all may run. Raises OutfitterError."""
    contract = contract_of("launcher", inherited.load())
    if flags["list"]:
        return _list(contract, as_json=flags["json"])
    if flags["revoke"]:
        return _revoke(contract, os.path.abspath(directory or "."), as_json=flags["json"])
    entries = _entries(contract, folder_of(directory))
    if not entries:
        say("this project runs nothing and sets nothing: it has no provider, no setup and no [env]")
    told = []
    blocked = 0
    for entry in entries:
        told.append(_told(entry))
        if not flags["json"]:
            _print(told[-1])
        waits = entry.trust.state == "suggested" or not entry.trust.may_run
        if waits and _granted(contract, entry, flags):
            told[-1] |= {"state": "trusted", "grant": "", "why": ""}
        elif waits:
            blocked += 1
    if flags["json"]:
        print(dumps({"providers": told}))
    return 1 if blocked else 0


def _revoke(contract: Contract, folder: str, *, as_json: bool) -> int:
    """Takes back what was allowed there, also what is not declared any more, or cannot be read."""
    try:
        entries = _entries(contract, folder)
    except OutfitterError:
        entries = []
    # It may have been allowed through a link, or be asked for through one.
    real = os.path.realpath
    roots = {real(root) for root in (folder, worktree_root(folder), *(entry.root for entry in entries))}
    store = contract.projects.store
    taken = [
        grant
        for grant in store.all()
        if real(grant.root) in roots and store.revoke(grant.provider, grant.root)
    ]
    for grant in taken:
        say(f"{grant.provider} in {shown(grant.root)} is no longer trusted")
    for entry in entries:
        if entry.trust.by not in ("", "outfitter"):
            say(f"{entry.provider} keeps its own permissions: revoke this one with {entry.provider}")
    if not taken:
        say("`outfitter trust` has allowed nothing here; --list shows what it has allowed elsewhere")
    if as_json:
        print(dumps({"revoked": [_grant(grant) for grant in taken]}))
    return 0


class _Entry(NamedTuple):
    """Something that would run code of the project, or set what the project's files say."""

    provider: str
    root: str
    files: tuple[str, ...]
    runs: list[list[str]]
    trust: Trust
    effects: tuple[str, ...] = ()


def _entries(contract: Contract, folder: str) -> list[_Entry]:
    settings = contract.settings(folder)
    projects = contract.projects
    entries = []
    uses = contract.uses(folder, settings)
    lower = contract.lower(Asked(folder, {})) if uses else None
    for use in uses:
        assert lower is not None
        context = projects.context(use, lower.values, settings)
        runs = use.provider.plan(use.found, context)
        trust = projects.trust(use, context)
        effects: tuple[str, ...] = ()
        if trust.state == "suggested":
            said = use.provider.resolve(use.found, context)
            trust = projects.vouched(use, said)
            lists = [(one.variable, one.op, one.values) for one in said.operations]
            effects = _effects(said.set, said.unset, lists, said.secrets)
        entries.append(_Entry(use.provider.id, use.found.root, use.found.files, runs, trust, effects))
    if (tables := tables_of(settings)) is not None:
        entries.append(_of_tables(tables, projects.store, Secrets(settings.secret_names)))
    if settings.setup is not None:
        from ..contract.setup.plan import make_plan
        from ..contract.setup.setups import PROVIDER, trust_of

        setup = contract.setups.use(folder, settings)
        assert setup is not None, "it is declared"
        found = make_plan(setup.declared)
        if found.script or found.text:
            trust = trust_of(projects.store, setup, found)
            entries.append(_Entry(PROVIDER, setup.worktree, found.files, [found.argv], trust))
    return entries


def _of_tables(tables: Tables, store: TrustStore, secrets: Secrets) -> _Entry:
    """What the tables of a project's outfitter.toml say."""
    trust = store.trust(PROJECT, tables.root, tables.digest)
    effects: list[str] = []
    for name, table in tables.tables:
        values = {one: value for one, value, _ in table.set}
        lists = [(variable, op, given) for variable, op, given, _ in table.operations]
        hidden = [one for one, _ in secrets.among(values)]
        lines = _effects(values, [one for one, _ in table.unset], lists, hidden)
        unasked = f" and in every launch of kind {', '.join(table.kinds)}" if table.kinds else ""
        effects += lines if name == "[env]" else [f"{line}, with {name}{unasked}" for line in lines]
    files = tuple(dict.fromkeys(table.file for _, table in tables.tables))
    state = trust if trust.may_run else replace(trust, state="suggested")
    return _Entry(PROJECT, tables.root, files, [], state, tuple(effects))


def _effects(
    values: Mapping[str, str],
    unset: Sequence[str],
    lists: Sequence[tuple[str, str, Sequence[str]]],
    secrets: Collection[str],
) -> tuple[str, ...]:
    """What an environment would get, a line each. Values of secrets are not shown."""
    words = {"prepend": "in front of", "append": "behind", "remove": "out of", "replace": "in place of"}
    return (
        *(f"sets {name}" if name in secrets else f"sets {name}={value}" for name, value in values.items()),
        *(f"removes {name}" for name in unset),
        *(f"puts {':'.join(given)} {words[op]} {variable}" for variable, op, given in lists),
    )


def _told(entry: _Entry) -> dict[str, Any]:
    state = entry.trust
    return {
        "provider": entry.provider,
        "root": shown(entry.root),
        "files": [shown(path) for path in entry.files],
        "runs": [[shown(word) for word in argv] for argv in entry.runs],
        "effects": [shown(line) for line in entry.effects],
        "state": state.state,
        "by": state.by,
        "digest": state.digest,
        "grant": shown(state.grant),
        "why": shown(state.why),
    }


def _print(told: dict[str, Any]) -> None:
    root = printable(told["root"])
    print(f"{told['provider']}  {root}  {told['state']}" + (f" ({told['by']})" if told["by"] else ""))
    for path in told["files"]:
        print(f"  reads  {printable(path)}")
    for argv in told["runs"]:
        print(f"  runs   {readable(shlex.join(argv))}")
    for line in told["effects"]:
        print(f"  does   {printable(line)}")
    if told["digest"]:
        print(f"  digest {told['digest']}")
    if told["why"]:
        print(f"  {printable(told['why'])}")
    sys.stdout.flush()


def readable(text: str) -> str:
    """Text of a project for a terminal, which it may not steer: nothing that is allowed is hidden there."""
    return plain(text).rstrip("\n").replace("\n", "\n         ")


def _granted(contract: Contract, entry: _Entry, flags: dict[str, Any]) -> bool:
    """Grants what is ours to grant, if a person says so."""
    state = entry.trust
    if state.by != "outfitter":
        say(f"{entry.provider} keeps its own permissions; type: {state.grant}" if state.grant else state.why)
        return False
    if not flags["yes"]:
        if flags["json"] or not sys.stdin.isatty():
            say("read the files, then add --yes")
            return False
        what = "be set" if state.state == "suggested" else "run"
        answer = input(f"May this {what}? Read the files first. [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return False
    contract.projects.store.grant(entry.provider, entry.root, state.digest)
    what = "what {} says is now set in {}, until that changes"
    if state.state != "suggested":
        what = "{} may now run in {}, until its files change"
    say(what.format(entry.provider, shown(entry.root)))
    return True


def _list(contract: Contract, *, as_json: bool) -> int:
    told = [_grant(grant) for grant in contract.projects.store.all()]
    if as_json:
        print(dumps({"grants": told}))
        return 0
    for one in told:
        print(f"{one['provider']}  {printable(one['root'])}  {one['digest']}")
    return 0


def _grant(grant: Grant) -> dict[str, Any]:
    said = {"provider": grant.provider, "root": shown(grant.root), "digest": grant.digest}
    return {**said, "grantedAtMs": grant.granted_ms}
