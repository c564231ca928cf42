"""Every check, in the order of the report. The ids are stable.

Names of variables and entries of PATH are told, values never. Whatever is not in order says exactly what to
type or to edit.
"""

from __future__ import annotations

from . import base, codex, config, limits, login, path, policy, providers, shell, state

CHECKS = (
    *config.CHECKS,
    *path.CHECKS,
    *login.CHECKS,
    *shell.CHECKS,
    *base.CHECKS,
    *policy.CHECKS,
    *limits.CHECKS,
    *state.CHECKS,
    *codex.CHECKS,
    *providers.CHECKS,
)
