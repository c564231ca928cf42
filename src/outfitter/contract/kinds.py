"""Kinds of launch, on an executor: what a command must have that says it belongs to one."""

from __future__ import annotations

from ..env.launches import violations
from ..errors import LaunchRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from ..env.launches import LaunchContract, Violation
    from ..env.resolve import Resolved
    from .settings import Settings


def check(kind: str, env: Collection[str], contracts: Iterable[LaunchContract], resolved: Resolved) -> None:
    """`env` has the names that the request gives. Raises LaunchRefused where a contract enforces the kind of
    a command, and the command breaks it."""
    for contract in contracts:
        if kind in contract.enforce and (broken := _broken(kind, env, contract, resolved)):
            raise LaunchRefused(f"a command (contract `{contract.name}`)", kind, tuple(broken))


def told(kind: str, env: Collection[str], settings: Settings, resolved: Resolved) -> dict[str, Any]:
    """What is said about the kind of a command: who enforces it, what is broken, whose overlays apply."""
    enforcing = [contract for contract in settings.launches if kind in contract.enforce]
    return {
        "kind": kind,
        "enforcedBy": [contract.name for contract in enforcing],
        "overlays": settings.overlays_of(kind),
        "violations": [str(one) for contract in enforcing for one in _broken(kind, env, contract, resolved)],
    }


def _broken(kind: str, env: Collection[str], contract: LaunchContract, resolved: Resolved) -> list[Violation]:
    def brought(name: str) -> str:
        given = name in env
        return "given by the request" if given else f"`outfitter env explain {name}` says from where"

    return violations(contract.kind(kind), resolved.values, brought, lambda name: "")
