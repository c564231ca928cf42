"""A user's home and a project, both scratch, and what commands get there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from outfitter.client.client import Client
from outfitter.contract.base import Base, base_of
from outfitter.contract.config import Configuration
from outfitter.contract.contract import Asked, Contract
from outfitter.contract.trust import PROJECT, tables_of
from outfitter.errors import FileInvalid

from .machine import SECOND
from .portable import unmarked

PATH = "/usr/local/bin:/usr/bin:/bin"


class Place:
    """A home with its configuration, a temporary folder, and a project: a repository of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.temporary = folder / "tmp"
        self.project = folder / "project"
        self.elsewhere = folder / "elsewhere"
        for path in (self.home, self.temporary, self.project / ".git", self.elsewhere / ".git"):
            path.mkdir(parents=True)

    # Files

    @property
    def user_file(self) -> Path:
        return self.home / ".config/outfitter/config.toml"

    @property
    def project_file(self) -> Path:
        return self.project / "outfitter.toml"

    def user(self, text: str) -> None:
        self.write(self.user_file, text)

    def says(self, text: str, *, trusted: bool = True) -> None:
        """What the project's file says, and that the user has allowed it."""
        self.write(self.project_file, text)
        if trusted:
            self.trust()

    def trust(self, directory: Path | None = None) -> None:
        """What `outfitter trust` does about the variables of the project's file."""
        allow(directory or self.project, self.environ())

    def profile(self, text: str, name: str = ".bash_profile") -> None:
        self.write(self.home / name, text)

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def pipes(self) -> list[str]:
        """What is left where reports came through."""
        return sorted(os.listdir(self.temporary))

    # What is made of it

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.temporary),
            "CODEX_HOME": str(self.home / ".codex"),
            **more,
        }

    def base(self, kind: str = "daemon", **more: str) -> Base:
        return base_of(kind, self.environ(**more))

    def contract(self, kind: str = "daemon", **more: str) -> Contract:
        values = self.environ(**more)
        return Contract(base_of(kind, values), Configuration(values), "/bin/account-shell")


def allow(folder: Path, environ: Mapping[str, str]) -> None:
    """What `outfitter trust` does about the variables of a project's file, in this environment."""
    contract = Contract(base_of("launcher", environ), Configuration(environ), "/bin/account-shell")
    try:
        tables = tables_of(contract.settings(str(folder)))
    except FileInvalid:
        return
    if tables is not None:
        contract.projects.store.grant(PROJECT, tables.root, tables.digest)


def allow_suggestions(contract: Contract, folder: Path) -> None:
    """What `outfitter trust` does about what providers read from a project's files."""
    asked = Asked(str(folder), {})
    settings, projects = contract.settings(asked.cwd), contract.projects
    for use in contract.uses(asked.cwd, settings):
        context = projects.context(use, contract.lower(asked).values, settings)
        if projects.trust(use, context).state == "suggested":
            trust = projects.vouched(use, use.provider.resolve(use.found, context))
            projects.store.grant(use.provider.id, use.found.root, trust.digest)


def variables(printed: bytes) -> dict[str, str]:
    """What `env -0` has printed."""
    pairs = unmarked(printed).decode("utf-8", "surrogateescape").split("\0")[:-1]
    return dict(pair.split("=", 1) for pair in pairs)


def wait_for(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario on a loop of its own, within its time."""

    async def in_time() -> None:
        await asyncio.wait_for(scenario, 30 * SECOND)

    asyncio.run(in_time())


async def environment_of(client: Client, **settings: Any) -> dict[str, str]:
    """What a real command gets."""
    done = await client.run(["/usr/bin/env", "-0"], **settings)
    assert done.exit_code == 0, done.stderr
    return variables(done.stdout)


def values_in(answer: object) -> list[str]:
    """Every text that stands in an answer as a `value`, whatever it is the value of."""
    found: list[str] = []
    if isinstance(answer, Mapping):
        for key, member in answer.items():
            found += [member] if key == "value" and isinstance(member, str) else values_in(member)
    elif isinstance(answer, list):
        for member in answer:
            found += values_in(member)
    return found
