"""What `outfitter doctor` says of Codex's environments.toml, which `contract` cannot read."""

from __future__ import annotations

import os
import stat
from shutil import which
from typing import TYPE_CHECKING

from ..contract.doctor.agentfiles import Fault, faulty
from ..contract.doctor.check import Check, Finding
from ..contract.doctor.fixes import Mode
from ..environments.file import FILE, read, shown_url
from ..errors import DialFailed, FileInvalid, SettingInvalid
from ..places import agent_home
from ..record import record
from ..transport.address import parse_address
from ..transport.outward import reachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..contract.doctor.machine import Machine
    from ..environments.file import Declared

_SECONDS = 1.0  # for a server of this machine to accept


@record
class CodexEnvironments:
    """The file, None when it is not there; how many it declares; what is wrong."""

    path: str | None
    declared: int = 0
    faults: tuple[Fault, ...] = ()


def environments(machine: Machine) -> CodexEnvironments:
    path = os.path.join(agent_home(machine.environ, "CODEX_HOME", ".codex"), FILE)
    try:
        found = read(path)
    except FileInvalid as error:
        faults = [Fault(str(one), f"Edit {path}: {one.remedy}.") for one in error.mistakes]
        return CodexEnvironments(path, 0, tuple(faults))
    if found is None:
        return CodexEnvironments(None)
    path_variable = machine.environ.get("PATH", os.defpath)
    told = [*_secret(path, found.environments)]
    for declared in found.environments:
        told += faults_of(declared, path_variable)
    return CodexEnvironments(path, len(found.environments), tuple(told))


def faults_of(declared: Declared, path_variable: str) -> Iterator[Fault]:
    """What keeps an environment from being reached, as far as can be seen from here."""
    name = f"environment `{declared.id}` ({declared.file}:{declared.line})"
    for key in ("token_file", "tls_ca", "tls_cert", "tls_key"):
        file = getattr(declared, key)
        if file is not None and not os.access(file, os.R_OK):
            yield Fault(f"{name}: {file} cannot be read", f"Create {file}, or correct {key} there.")
    if declared.program is not None:
        if which(declared.program, path=path_variable) is None:
            text = f"{name}: the program {declared.program} is not there or cannot be run"
            yield Fault(text, f"Correct program in {declared.file}:{declared.line}.")
    elif declared.url is not None and not declared.url.startswith("noise+"):
        yield from _unreached(declared.url, name)


def _unreached(url: str, name: str) -> Iterator[Fault]:
    """A server of this machine is looked for; others may be far away, or behind a gate that counts knocks."""
    try:
        address = parse_address(url)
        if address.loopback:
            reachable(address, _SECONDS)
    except (DialFailed, SettingInvalid) as error:
        text = f"{name}: nobody answers at {shown_url(url)}: {error}"
        yield Fault(text, f"Start the server: `outfitter serve --listen {shown_url(url)}`.")


def _secret(path: str, declared: tuple[Declared, ...]) -> Iterator[Fault]:
    if not any(one.token is not None for one in declared):
        return
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return
    if mode & 0o077:
        yield Fault(
            f"{path} has a token, and other users can read it (mode {mode:o})",
            f"Run `chmod 600 {path}`.",
            None if os.path.islink(path) else Mode(path, mode, 0o600),
        )


def codex_environments(seen: CodexEnvironments) -> Finding:
    if seen.path is None:
        return Finding("ok", "Codex has no environments of its own")
    if not seen.faults:
        return Finding("ok", f"Codex's environments: {seen.declared}", [seen.path])
    return faulty("Codex's environments", seen.faults)


CHECKS = (Check("codex.environments", (environments,), codex_environments),)
