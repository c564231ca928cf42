"""What the policy keeps from commands, and what it lets through."""

from __future__ import annotations

from ...env.names import loads_code
from ...env.redact import Secrets
from .check import Check, Finding
from .machine import Configured, Given, configured, given
from .words import counted, excluding, few

# People's own choices, on every desktop: they start a program when somebody asks for an editor or a pager.
_USUAL = frozenset(
    ("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "GIT_EDITOR", "GIT_PAGER")
) | {"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"}


def policy_effect(given: Given) -> Finding:
    details = [f"{rule}: {', '.join(sorted(names))}" for rule, names in given.removed.items()]
    count = sum(map(len, given.removed.values()))
    if not count:
        return Finding("ok", f"commands get all {counted(given.base, 'variable')}")
    are = "is" if count == 1 else "are"
    return Finding(
        "ok", f"{count} of {counted(given.base, 'variable')} {are} withheld from commands", details
    )


def policy_code_loading(configured: Configured, given: Given) -> Finding:
    found = sorted(name for name in given.from_base if loads_code(name))
    # These have a check of their own.
    found = [name for name in found if name not in ("BASH_ENV", "ENV") and name[:10] != "BASH_FUNC_"]
    usual = [name for name in found if name in _USUAL]
    risky = [name for name in found if name not in _USUAL]
    if not risky:
        return Finding("ok", "no unusual variable makes programs load code", usual)
    return Finding(
        "warning",
        f"{few(risky)} can make any program that a command starts run other code",
        [*risky, *(f"{name} (usual)" for name in usual)],
        f"If commands do not need {'it' if len(risky) == 1 else 'them'}, write {excluding(risky)} "
        f"in {configured.file}.",
    )


def secrets_visible(configured: Configured, given: Given) -> Finding:
    secrets = Secrets(configured.settings.secret_names)
    found = sorted(name for name, value in given.values.items() if secrets.holds(name, value))
    if not found:
        return Finding("ok", "no variable of a command looks like a secret")
    look = "looks like a secret" if len(found) == 1 else "look like secrets"
    return Finding(
        "warning",
        f"{counted(found, 'variable')} of commands {look}: {few(found)}",
        found,
        f"Write {excluding(found)} in {configured.file}, except for those that commands need.",
    )


CHECKS = (
    Check("policy.effect", (given,), policy_effect),
    Check("policy.code-loading", (configured, given), policy_code_loading),
    Check("secrets.visible", (configured, given), secrets_visible),
)
