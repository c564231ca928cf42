"""Codex's own configuration."""

from __future__ import annotations

from ...errors import FileInvalid
from ...places import codex_file
from ...record import KW_ONLY, record
from ..config import known_place, read_file
from .check import Check, Finding
from .fixes import Setting
from .machine import Configured, configured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine


@record
class Codex:
    """Codex's config.toml: what it says about environments, None when it is not there."""

    path: str
    says: Sequence[str] | None
    _: KW_ONLY
    imported: bool = False
    mistakes: Sequence[str] = ()


def codex(machine: Machine) -> Codex:
    path = known_place(codex_file, machine.environ)
    if path is None:
        return Codex("", None)
    settings = machine.part(configured).settings
    imported = any(kind == "codex" for _, kind, _ in settings.files)
    try:
        said = read_file(path, "codex", machine.home)
    except FileInvalid as error:
        return Codex(path, (), mistakes=[str(mistake) for mistake in error.mistakes])
    if said is None:
        return Codex(path, None)
    says = ["[shell_environment_policy]"] if said.policy is not None else []
    if said.login is not None:
        says.append("allow_login_shell")
    return Codex(path, says, imported=imported)


def codex_config(configured: Configured, codex: Codex) -> Finding:
    if codex.mistakes:
        return Finding(
            "warning",
            "Codex's configuration cannot be read",
            codex.mistakes,
            f"Correct {codex.path}; Codex does not read it either.",
        )
    if codex.says is None:
        return Finding("ok", "no Codex configuration")
    if not codex.says:
        return Finding("ok", "Codex's configuration has no setting about environments", [codex.path])
    if codex.imported:
        return Finding("ok", "imported", [codex.path])
    return Finding(
        "warning",
        f"Codex's {' and '.join(codex.says)} {'does' if len(codex.says) == 1 else 'do'} not apply here",
        [codex.path],
        f"Write codex = true under [import] in {configured.file}; "
        "`outfitter config import-codex` prints the result.",
        Setting(configured.file, "import", "codex", "true"),
    )


CHECKS = (Check("codex.config", (configured, codex), codex_config),)
