"""outfitter trust: what a project's providers would run, and whether they may."""

from __future__ import annotations

import shlex
import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from ..contract.contract import Asked, contract_of
from ..env.explain import shown
from ..providers import inherited
from .console import say
from .env.asking import folder_of

if TYPE_CHECKING:
    from ..contract.contract import Contract
    from ..contract.providers import Use
    from ..providers.base import Context, Trust


def trust(directory: str | None, flags: dict[str, Any]) -> int:
    """Shows, and grants or revokes; returns the exit status: 0 when all may run. Raises OutfitterError."""
    contract = contract_of("launcher", inherited.load())
    if flags["list"]:
        return _list(contract, as_json=flags["json"])
    folder = folder_of(directory)
    settings = contract.settings(folder)
    uses = contract.projects.uses(folder, settings)
    if not uses:
        say('no provider is used here: name one in outfitter.toml, for example [providers] use = ["direnv"]')
        return 0
    lower = contract.lower(Asked(folder, {}))
    told = []
    blocked = 0
    for use in uses:
        context = contract.projects.context(lower.values, settings.provider_options.get(use.provider.id, {}))
        state = contract.projects.trust(use, context)
        if flags["revoke"]:
            if contract.projects.store.revoke(use.provider.id, use.found.root):
                say(f"{use.provider.id} in {shown(use.found.root)} is not trusted any more")
            continue
        told.append(_told(use, context, state))
        if not flags["json"]:
            _print(told[-1])
        if not state.may_run and not _granted(contract, use, state, flags):
            blocked += 1
    if flags["json"] and not flags["revoke"]:
        print(dumps({"providers": told}))
    return 1 if blocked else 0


def _told(use: Use, context: Context, state: Trust) -> dict[str, Any]:
    return {
        "provider": use.provider.id,
        "root": shown(use.found.root),
        "files": [shown(path) for path in use.found.files],
        "runs": [[shown(word) for word in argv] for argv in use.provider.plan(use.found, context)],
        "state": state.state,
        "by": state.by,
        "digest": state.digest,
        "grant": shown(state.grant),
        "why": state.why,
    }


def _print(told: dict[str, Any]) -> None:
    print(f"{told['provider']}  {told['root']}  {told['state']}" + (f" ({told['by']})" if told["by"] else ""))
    for path in told["files"]:
        print(f"  reads  {path}")
    for argv in told["runs"]:
        print(f"  runs   {shlex.join(argv)}")
    if told["digest"]:
        print(f"  digest {told['digest']}")
    if told["why"]:
        print(f"  {told['why']}")
    sys.stdout.flush()


def _granted(contract: Contract, use: Use, state: Trust, flags: dict[str, Any]) -> bool:
    """Grants what is ours to grant, if a person says so."""
    if state.by != "outfitter":
        say(f"{use.provider.id} keeps its own trust; type: {state.grant}" if state.grant else state.why)
        return False
    if not flags["yes"]:
        if flags["json"] or not sys.stdin.isatty():
            say("read the files, then say --yes")
            return False
        answer = input("May this run? Read the files first. [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return False
    contract.projects.store.grant(use.provider.id, use.found.root, state.digest)
    say(f"{use.provider.id} may run in {shown(use.found.root)}, as it is now")
    return True


def _list(contract: Contract, *, as_json: bool) -> int:
    grants = list(contract.projects.store.all())
    if as_json:
        print(
            dumps(
                {
                    "grants": [
                        {
                            "provider": grant.provider,
                            "root": shown(grant.root),
                            "digest": grant.digest,
                            "grantedAtMs": grant.granted_ms,
                        }
                        for grant in grants
                    ]
                }
            )
        )
        return 0
    for grant in grants:
        print(f"{grant.provider}  {shown(grant.root)}  {grant.digest}")
    return 0
