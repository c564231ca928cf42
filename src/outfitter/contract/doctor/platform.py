"""What this kind of system does less well than Linux."""

from __future__ import annotations

from ...core.abilities import ABILITIES
from ...system import LINUX, PLATFORM_OS
from .check import Check, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine


def system(machine: Machine) -> str:
    """The name of a system that is not Linux, or lacks what Linux has; "" for Linux."""
    return "" if LINUX else PLATFORM_OS


def abilities(system: str) -> Finding:
    if not system:
        return Finding("ok", "Linux: every ability has its strongest way")
    refused = [ability.name for ability in ABILITIES if not ability.portable]
    return Finding(
        "ok",
        f"{system} without Linux's own calls: {', '.join(refused)} are not to be had; others are weaker "
        "(docs/topics/platforms.md)",
        [f"{ability.name}: {ability.weaker}" for ability in ABILITIES],
    )


CHECKS = (Check("platform.abilities", (system,), abilities),)
