"""How Outfitter itself is installed."""

from __future__ import annotations

from ...host import bytecode
from .check import Check, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine


def uncompiled(machine: Machine) -> bool:
    return bytecode.uncompiled(machine.environ)


def install_bytecode(uncompiled: bool) -> Finding:
    if not uncompiled:
        return Finding("ok", "Python finds Outfitter compiled, or may keep what it compiles")
    return Finding(
        "warning",
        "Outfitter is compiled anew with each start, which takes five times as long",
        [f"{bytecode.PACKAGE} has no bytecode, and none is written there"],
        bytecode.remedy(),
    )


CHECKS = (Check("install.bytecode", (uncompiled,), install_bytecode),)
