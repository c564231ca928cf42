"""outfitter trust: what a project's providers and its setup would run, and whether they may."""

from __future__ import annotations

import os
import shlex
import sys
from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

from ..contract.contract import Asked, contract_of
from ..contract.worktree import worktree_root
from ..env.explain import shown
from ..errors import OutfitterError
from ..plain import plain
from ..providers import inherited
from .console import say
from .env.asking import folder_of
from .env.output import printable

if TYPE_CHECKING:
    from ..contract.contract import Contract
    from ..providers.base import Trust


def trust(directory: str | None, flags: dict[str, Any]) -> int:
    """Shows, and grants or revokes; returns the exit status: 0 when all may run. Raises OutfitterError."""
    contract = contract_of("launcher", inherited.load())
    if flags["list"]:
        return _list(contract, as_json=flags["json"])
    if flags["revoke"]:
        return _revoke(contract, os.path.realpath(directory or "."))
    entries = _entries(contract, folder_of(directory))
    if not entries:
        say("no project code would run here: no provider is detected and no setup is declared")
    told = []
    blocked = 0
    for entry in entries:
        told.append(_told(entry))
        if not flags["json"]:
            _print(told[-1])
        if not entry.trust.may_run and not _granted(contract, entry, flags):
            blocked += 1
    if flags["json"]:
        print(dumps({"providers": told}))
    return 1 if blocked else 0


def _revoke(contract: Contract, folder: str) -> int:
    """Takes back what was allowed there, also what is not declared any more, or cannot be read."""
    try:
        entries = _entries(contract, folder)
    except OutfitterError:
        entries = []
    roots = {folder, worktree_root(folder), *(entry.root for entry in entries)}
    store = contract.projects.store
    taken = [
        grant for grant in store.all() if grant.root in roots and store.revoke(grant.provider, grant.root)
    ]
    for grant in taken:
        say(f"{grant.provider} in {shown(grant.root)} is no longer trusted")
    for entry in entries:
        if entry.trust.by not in ("", "outfitter"):
            say(f"{entry.provider} keeps its own permissions: revoke this one with {entry.provider}")
    if not taken:
        say("`outfitter trust` has allowed nothing here; --list shows what it has allowed elsewhere")
    return 0


class _Entry(NamedTuple):
    """Something that would run code of the project."""

    provider: str
    root: str
    files: tuple[str, ...]
    runs: list[list[str]]
    trust: Trust


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
        entries.append(_Entry(use.provider.id, use.found.root, use.found.files, runs, trust))
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


def _told(entry: _Entry) -> dict[str, Any]:
    state = entry.trust
    return {
        "provider": entry.provider,
        "root": shown(entry.root),
        "files": [shown(path) for path in entry.files],
        "runs": [[shown(word) for word in argv] for argv in entry.runs],
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
        answer = input("May this run? Read the files first. [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return False
    contract.projects.store.grant(entry.provider, entry.root, state.digest)
    say(f"{entry.provider} may now run in {shown(entry.root)}, until its files change")
    return True


def _list(contract: Contract, *, as_json: bool) -> int:
    told = []
    for grant in contract.projects.store.all():
        root = shown(grant.root)
        entry = {"provider": grant.provider, "root": root, "digest": grant.digest}
        told.append({**entry, "grantedAtMs": grant.granted_ms})
        if not as_json:
            print(f"{grant.provider}  {printable(root)}  {grant.digest}")
    if as_json:
        print(dumps({"grants": told}))
    return 0
