"""The environment that we were started in."""

from __future__ import annotations

import os

from ...system import MAC
from .check import Check, Finding
from .fixes import Setting
from .machine import Configured, Given, configured, directory, given
from .words import few, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

_INITS = ("init", "systemd", "launchd", "runit", "s6-svscan", "dumb-init", "tini")


def parent(machine: Machine) -> str:
    """The program that started us, if it starts services."""
    pid = os.getppid()
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        name = "launchd" if MAC and pid == 1 else ""
    return name if pid == 1 or name in _INITS else ""


def base_launch(configured: Configured, given: Given, parent: str) -> Finding:
    """`parent` is the name of the program that started us, if it is an init; else empty."""
    snapshot = configured.settings.snapshot
    base = given.base
    signs = []
    if "SHLVL" not in base and "TERM" not in base:
        signs.append("neither TERM nor SHLVL is set")
    if "SHLVL" not in base and "INVOCATION_ID" in base:
        signs.append("INVOCATION_ID is set, as for systemd's services")
    if "SHLVL" not in base and parent:
        signs.append(f"started by {parent}")
    if not signs:
        return Finding("ok", "started from a shell: commands start from its environment")
    if snapshot != "none":
        return Finding(
            "ok", f"not started from a shell; the snapshot ({snapshot}) supplies what a shell would", signs
        )
    return Finding(
        "warning",
        "started by a service or a desktop: the variables that your shell sets are missing",
        signs,
        f'Write snapshot = "loginShell" under [shell] in {configured.file}.',
    )


def base_stale_activation(configured: Configured, given: Given, cwd: str) -> Finding:
    base = given.base
    path = base.get("PATH", "").split(":")
    stale: list[tuple[str, str]] = []
    active: list[tuple[str, str]] = []
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := base.get(name, "").rstrip("/"):
            there = f"{folder}/bin" in path
            (active if there else stale).append((name, "its bin directory is not in PATH"))
    if "DIRENV_DIFF" in base:
        folder = base.get("DIRENV_DIR", "").removeprefix("-")
        here = bool(folder) and (cwd == folder or cwd.startswith(f"{folder}/"))
        (active if here else stale).append(("DIRENV_DIFF", "direnv loaded it for another directory"))
    for name in sorted(base):
        if name in ("__MISE_DIFF", "__MISE_ORIG_PATH"):
            there = any("/mise/" in entry for entry in path)
            (active if there else stale).append((name, "no directory of mise is in PATH"))
        elif name.startswith(("__ETC_PROFILE_NIX", "__NIX", "__HM_SESS")):
            there = any("/nix/" in entry or "/.nix-profile/" in entry for entry in path)
            (active if there else stale).append(
                (name, "says that nix is set up, but PATH has no directory of nix")
            )
    if not stale:
        names = [name for name, _ in active]
        return Finding("ok", f"active: {few(names)}" if names else "no environment is activated", names)
    names = [name for name, _ in stale]
    return Finding(
        "warning",
        f"left over from an activation that is no longer in effect: {few(names)}",
        [f"{name}: {why}" for name, why in stale],
        f"Start Outfitter from a new shell, or write unset = {listed(names)} under [env] "
        f"in {configured.file}.",
        Setting(configured.file, "env", "unset", listed(names)),
    )


CHECKS = (
    Check("base.launch", (configured, given, parent), base_launch),
    Check("base.stale-activation", (configured, given, directory), base_stale_activation),
)
