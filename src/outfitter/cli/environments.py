"""outfitter env list: the named environments and how they are."""

from __future__ import annotations

import asyncio
import os
from json import dumps
from typing import TYPE_CHECKING, Any

from ..environments.file import load
from ..environments.manager import EnvironmentManager
from ..errors import OutfitterError
from .console import say, waiting
from .follow import status_of
from .table import table

if TYPE_CHECKING:
    from ..environments.file import Configuration
    from ..environments.manager import Environment, Status


def list_environments(flags: dict[str, Any]) -> int:
    """Prints the list; returns the exit status. Raises SettingInvalid."""
    configuration = load(os.environ, flags["codex_home"])
    return status_of(lambda: _list(configuration, as_json=flags["json"]), 1)


async def _list(configuration: Configuration, *, as_json: bool) -> int:
    async with EnvironmentManager(configuration) as manager:
        environments = manager.all()
        with waiting("waiting for the executors"):
            # Servers are dialled when the manager starts: wait for that. Programs are not started for a list.
            dialled = [one for one in environments if one.declared and one.declared.url is not None]
            await asyncio.gather(*map(_settled, dialled))
            states = await asyncio.gather(*(one.status() for one in environments))
    default = configuration.default
    found = list(zip(environments, states, strict=True))
    if as_json:
        print(dumps([_entry(one, status, default) for one, status in found]))
        return 0
    if not found:
        say("no named environment is configured")
        return 0
    rows = []
    for one, status in found:
        name = f"{one.id} *" if one.id == default else one.id
        rows.append((name, status.state, one.where, "" if status.state == "ready" else status.text))
    print(table(("NAME", "STATE", "WHERE", ""), rows))
    return 0


async def _settled(environment: Environment) -> None:
    try:
        await environment.client()
    except OutfitterError:
        pass  # its status says so


def _entry(environment: Environment, status: Status, default: str | None) -> dict[str, object]:
    declared = environment.declared
    return {
        "id": environment.id,
        "default": environment.id == default,
        "state": status.state,
        "text": status.text,
        "where": environment.where,
        "file": None if declared is None else declared.file,
        "line": None if declared is None else declared.line,
    }
