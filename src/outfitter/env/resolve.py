"""Executor's variables + policy + request → Resolved. The one place that says in which order."""

from __future__ import annotations

from .policy import NOTHING_INHERITED, Inherited, Policy, apply
from .resolved import Resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def inherit(policy: Policy | None, executor: Mapping[str, str]) -> Inherited:
    """What a command gets from the executor. Without a policy: nothing."""
    return NOTHING_INHERITED if policy is None else apply(policy, executor)


def resolve(inherited: Inherited, request: Mapping[str, str], login_shell: str | None = None) -> Resolved:
    """The request's variables on top of what is inherited.

    `login_shell` is given for terminals: it becomes SHELL where nothing else set it.
    """
    return Resolved(inherited, request, login_shell)
