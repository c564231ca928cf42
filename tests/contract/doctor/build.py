"""What checks take, built by hand, and what came of one."""

from __future__ import annotations

from outfitter.contract.doctor.check import STATUSES, Finding
from outfitter.contract.doctor.login import Login
from outfitter.contract.doctor.machine import Configured, Given
from outfitter.contract.settings import Settings

FILE = "/home/ada/.config/outfitter/config.toml"


def configured(**settings: object) -> Configured:
    made = Settings()
    for name, value in settings.items():
        setattr(made, name, value)
    return Configured(made, (), FILE)


def given(base: dict[str, str] | None = None, **more: object) -> Given:
    base = {"PATH": "/usr/bin:/bin", "HOME": "/home/ada", "SHLVL": "1", "TERM": "xterm", **(base or {})}
    return Given(base, dict(base), from_base=list(base), **more)  # type: ignore[arg-type]


def login(path: str, **values: str) -> Login:
    return Login("/bin/bash", "captured", {"PATH": path, **values}, places={"PATH": [("/etc/profile", 7)]})


def seen(finding: Finding) -> tuple[str, tuple[str, ...]]:
    """Status and details; what is not in order has a remedy, as a sentence."""
    assert finding.status in STATUSES
    assert finding.summary
    assert (finding.status in ("error", "warning")) == bool(finding.remedy)
    assert not finding.remedy or finding.remedy.endswith(".")
    return finding.status, finding.details
