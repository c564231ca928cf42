"""The login shell's snapshot as layer 1: asked once per executor, kept in memory only."""

from __future__ import annotations

import os

from ..env.layer import SNAPSHOT, Layer, Operation
from ..env.origin import LOGIN_SHELL
from ..host import facts
from ..log import warn
from ..providers.login import Capture, capture
from ..shell.snapshot import difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import Settings

LAYER_ID = "login-shell"


def take(settings: Settings, values: Mapping[str, str]) -> Layer:
    """Asks the account's shell, as configured. Blocks; a shell that gives no answer is a failed layer."""
    found = ask(settings.snapshot, values, settings.snapshot_timeout)
    cost = found.seconds * 1000
    if found.state != "captured":
        # Commands run without it, and never in a login shell instead; so somebody must be told.
        warn("server", "no snapshot of the login shell: %s", found.reason)
        note, shell = f"{found.state}: {found.reason}", found.shell
        return Layer(SNAPSHOT, LAYER_ID, LOGIN_SHELL, producer=shell, state="failed", note=note, cost_ms=cost)
    told = difference(values, found.values, os.path.basename(found.shell))
    lost = [segment for change in told.lists.values() for segment in change.lost]
    notes = [f"{settings.snapshot} of {found.shell}"]
    if lost:
        notes.append(f"added back after the startup files removed them: {':'.join(lost)}")
    if found.reason:
        notes.append(found.reason)
    return Layer(
        SNAPSHOT,
        LAYER_ID,
        LOGIN_SHELL,
        told.set,
        unset=told.unset,
        operations=[Operation(name, "replace", change.segments) for name, change in told.lists.items()],
        producer=found.shell,
        note="; ".join(notes),
        cost_ms=cost,
    )


def ask(probe: str, values: Mapping[str, str], timeout: float, mark: int | None = None) -> Capture:
    """What the account's own shell makes of an environment. Blocks up to `timeout` and a second."""
    return capture(facts.login_shell(), probe, values, facts.home(values), timeout=timeout, mark=mark)
