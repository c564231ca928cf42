"""The sandbox of a command: what was asked for, what the files make of it, and whose word each part is.

The user's file speaks for commands that ask for nothing. The project's takes away, and never adds.
"""

from __future__ import annotations

from ..core.narrowing import narrowed
from ..core.permissions import bind
from ..core.sandbox import FULL, Sandbox, both_domains, here
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.permissions import Confinement
    from .settings import SandboxSettings, Settings


@record
class Word:
    """What one speaker asks for, and where each part of it stands, for people: by field and entry of the
    Sandbox ("mode", "writable /srv")."""

    sandbox: Sandbox
    places: Mapping[str, str]

    def place(self, part: str) -> str:
        return self.places.get(part) or self.places.get("mode", "default")


@record
class Composed:
    """What holds for a command. `asked` is the request's word, or the user's; `project` takes away from it.
    `domains` is None where all may be reached."""

    confinement: Confinement
    domains: tuple[str, ...] | None
    asked: Word | None
    project: Word | None

    @property
    def mode(self) -> str:
        return FULL if self.asked is None else self.asked.sandbox.mode


_FIELDS = {"allow_write": "writable", "allow_domain": "domains", "deny_read": "deny_read"}


def said(settings: SandboxSettings | None) -> Word | None:
    """A file's word; None if it has none."""
    if settings is None:
        return None
    places = {}
    for part, source in settings.places.items():
        key, _, entry = part.partition(" ")
        places[f"{_FIELDS.get(key, key)} {entry}".strip()] = str(source)
    return Word(settings.sandbox, places)


def compose(asked: Word | None, settings: Settings, *, cwd: str, tmpdir: str | None) -> Composed:
    """What holds for a command of ours in a directory. Raises InvalidParams, SettingInvalid."""
    asked = asked or said(settings.user_sandbox)
    project = said(settings.project_sandbox)
    confinement = _bound(asked, cwd, tmpdir)
    domains = _domains(asked)
    if project is not None:
        confinement = narrowed(confinement, _bound(project, cwd, tmpdir))
        domains = both_domains(domains, _domains(project))
    return Composed(confinement, domains, asked, project)


def _bound(word: Word | None, cwd: str, tmpdir: str | None) -> Confinement:
    return bind(here(Sandbox(FULL) if word is None else word.sandbox, cwd), cwd=cwd, tmpdir=tmpdir)


def _domains(word: Word | None) -> tuple[str, ...] | None:
    return None if word is None or word.sandbox.network else word.sandbox.domains
