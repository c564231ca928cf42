"""Layer 1, what startup files make of an environment: of the account's shell, asked once per executor, and of
the shells whose snapshots clients ask for. Kept in memory only."""

from __future__ import annotations

import os

from ..core.snapshots import ASKED_ID
from ..env.layer import SNAPSHOT, Layer, Operation
from ..env.origin import LOGIN_SHELL, SHELL_SNAPSHOT
from ..host import facts
from ..log import warn
from ..providers.login import Capture, capture
from ..shell.snapshot import MARKER, difference
from ..shell.state import SHELLS, STATE_BYTES, is_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..env.origin import Origin
    from ..shell.state import ShellState
    from .settings import Settings

LAYER_ID = "login-shell"


def take(settings: Settings, values: Mapping[str, str]) -> tuple[Layer, ShellState | None]:
    """Asks the account's shell, as configured; and what else startup files left in it, where that is known.

    Blocks; a shell that gives no answer is a failed layer.
    """
    found = ask(settings.snapshot, values, settings.snapshot_timeout, keeps=True)
    if found.state != "captured":
        # Commands run without it, and never in a login shell instead; so somebody must be told.
        warn("server", "no snapshot of the login shell: %s", found.reason)
    layer = _layer(LAYER_ID, LOGIN_SHELL, found, values, f"{settings.snapshot} of {found.shell}")
    return layer, None if _is_too_large(found.left) else found.left


def take_asked(
    name: str,
    path: str,
    cwd: str,
    values: Mapping[str, str],
    timeout: float,
    mark: int | None,
    *,
    unable: str = "",
) -> tuple[Layer, ShellState | None]:
    """The snapshot that a client asks for: the layer of its variables, and what else is to be restored.

    `name` is what the client calls the shell. Blocks as `take` does, and fails as it does; `unable` says why
    the shell cannot be asked here.
    """
    home = facts.home(values)
    values = {"HOME": home, **values}  # where it is missing, the command does not get one by this
    unable = unable or ("" if is_kind(name, path) else f"{path} is not a known {name}")
    if unable:
        found = Capture(path, "loginShell", "unsupported", reason=unable)
    else:
        found = capture(
            path, "loginShell", values, home, timeout=timeout, mark=mark, cwd=cwd, keeps=name, rc=True
        )
    if _is_too_large(found.left):
        reason = (
            f"the startup files of {path} leave functions and aliases of more than {STATE_BYTES >> 10} KiB: "
            f"define fewer if ${MARKER} is set (Outfitter sets it here)"
        )
        found = Capture(path, "loginShell", "too-large", reason=reason, seconds=found.seconds)
    note = f"login {name} of {path}"
    if found.left is not None:
        note += f"; functions: {found.left.functions}, aliases: {found.left.aliases}"
    return _layer(ASKED_ID, SHELL_SNAPSHOT, found, values, note, asked=True), found.left


def _is_too_large(left: ShellState | None) -> bool:
    return left is not None and len(left.text) > STATE_BYTES


def ask(
    probe: str, values: Mapping[str, str], timeout: float, mark: int | None = None, *, keeps: bool = False
) -> Capture:
    """What the account's own shell makes of an environment. Blocks up to `timeout` and a second.

    With `keeps`, what else startup files leave in it is captured where that is known.
    """
    shell, home = facts.login_shell(), facts.home(values)
    name = next((name for name in SHELLS if keeps and is_kind(name, shell)), "")
    return capture(shell, probe, values, home, timeout=timeout, mark=mark, keeps=name)


def _layer(
    id: str, origin: Origin, found: Capture, values: Mapping[str, str], note: str, *, asked: bool = False
) -> Layer:
    cost = found.seconds * 1000
    if found.state != "captured":
        why = f"{found.state}: {found.reason}"
        return Layer(SNAPSHOT, id, origin, producer=found.shell, state="failed", note=why, cost_ms=cost)
    told = difference(values, found.values, os.path.basename(found.shell))
    lost = [segment for change in told.lists.values() for segment in change.lost]
    notes = [note]
    if lost:
        notes.append(f"added back after the startup files removed them: {':'.join(lost)}")
    if found.reason:
        notes.append(found.reason)
    return Layer(
        SNAPSHOT,
        id,
        origin,
        told.set,
        unset=told.unset,
        operations=[Operation(name, "replace", change.segments) for name, change in told.lists.items()],
        producer=found.shell,
        note="; ".join(notes),
        cost_ms=cost,
        asked=asked,
    )
