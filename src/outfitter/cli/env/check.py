"""outfitter env check: whether the environment is still what its lock says."""

from __future__ import annotations

from ...contract.contract import Asked
from ...env.explain import shown
from ...env.lock import check as compare
from ...errors import OutfitterError
from . import asking
from .lockfile import make, read, versions
from .output import emit, emit_json, painter, printable, say
from .places import lock_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...env.lock import Drift
    from ..wishes import Flags


def check(flags: Flags) -> int:
    """Prints what has changed; returns 0 when nothing has, 1 when something has, 2 for trouble."""
    try:
        path, found, warnings = _drift(flags)
    except OutfitterError as error:
        say(str(error))
        return 2
    if flags["json"]:
        drift = [
            {"subject": one.subject, "kind": one.kind, "name": shown(one.name), "detail": shown(one.detail)}
            for one in found
        ]
        emit_json({"lock": shown(path), "same": not found, "drift": drift})
    elif found:
        paint = painter()
        title = f"differs from {path}:"
        emit("\n".join([paint("bold", printable(title)), *(f"  {printable(str(one))}" for one in found)]))
        for warning in warnings:  # nobody has allowed the project here, say
            say(warning)
    else:
        emit(f"same as {printable(path)}")
    return 1 if found else 0


def _drift(flags: Flags) -> tuple[str, list[Drift], tuple[str, ...]]:
    folder = asking.folder_of(flags["cwd"])
    path = lock_file(flags["file"], folder)
    lock = read(path, named=flags["file"] is not None)
    contract = asking.prepared()
    ready = contract.ready(Asked(folder, {}))
    resolved = contract.environment(ready)
    tools = versions(lock.tools, resolved, folder)
    now = make(resolved, contract, folder, lock.salt, tools=tools, levels=lock.levels, only=lock.only)
    return path, compare(lock, now), ready.warnings
