"""Every check, and what `outfitter doctor` says of this machine.

Names of variables and entries of PATH are shown, values never. A finding that is not in order says exactly
what to type or to edit.
"""

from __future__ import annotations

import time

from ...env.explain import shown
from ...env.redact import mask_pairs
from ...system import MAC
from . import (
    agentfiles,
    agents,
    base,
    codex,
    config,
    install,
    limits,
    login,
    mac,
    path,
    platform,
    policy,
    providers,
    sandbox,
    shell,
    state,
)
from .check import STATUSES
from .machine import Machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .check import Check, Finding
    from .fixes import Fix

SCHEMA_VERSION = 1
_FAMILIES = (
    *(config, path, login, shell, base, policy, limits, state, codex, providers, sandbox, platform, install),
    *((mac,) if MAC else ()),
    agents,
    agentfiles,
)
# In the order of the report. The ids are stable.
CHECKS = tuple(check for family in _FAMILIES for check in family.CHECKS)


def examine(
    environ: Mapping[str, str],
    cwd: str,
    *,
    login: bool = True,
    fixes: list[tuple[str, Fix]] | None = None,
    more: Sequence[Check] = (),
) -> dict[str, Any]:
    """The report as an object for JSON. `environ` is the environment that we were started in.

    `login` asks the login shell what it would make of a command's environment: that runs startup files.
    `fixes` gets what can be done about each problem, with the id of its check. `more` are checks of the
    caller's, behind ours.
    """
    machine = Machine(environ, cwd, login=login)
    checks = {}
    for check in (*CHECKS, *more):
        begun = time.perf_counter()
        finding = check.decide(*[machine.part(gather) for gather in check.needs])
        if fixes is not None and finding.fix is not None:
            fixes.append((check.id, finding.fix))
        checks[check.id] = _entry(check, finding, time.perf_counter() - begun, machine)
    found = {entry["status"] for entry in checks.values()}
    overall = next(status for status in STATUSES if status in {*found, "ok"})
    return {"schemaVersion": SCHEMA_VERSION, "overallStatus": overall, "checks": checks}


def _entry(check: Check, finding: Finding, seconds: float, machine: Machine) -> dict[str, Any]:
    def told(text: str) -> str:
        return shown(mask_pairs(text, machine.secrets))

    return {
        "category": check.category,
        "status": finding.status,
        "summary": told(finding.summary),
        "details": [told(line) for line in finding.details],
        "remediation": told(finding.remedy) or None,
        "durationMs": round(seconds * 1000, 1),
    }
