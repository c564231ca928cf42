"""Every check, in the order of the report. The ids are stable.

Names of variables and entries of PATH are told, values never. Whatever is not in order says exactly what to
type or to edit.
"""

from __future__ import annotations

from . import base, codex, config, limits, login, path, policy, providers, shell, state

_FAMILIES = (config, path, login, shell, base, policy, limits, state, codex, providers)
CHECKS = tuple(check for family in _FAMILIES for check in family.CHECKS)
