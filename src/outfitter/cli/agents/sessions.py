"""What is remembered of an agent's session: how it was launched, so that a resume is launched alike.

One small file per session, readable by its owner alone. No variable and no prompt is written down.
"""

from __future__ import annotations

import json
import os
import time
from hashlib import sha256
from typing import TYPE_CHECKING

from ...contract import privatefile
from ...errors import SettingInvalid
from ...record import fields, record
from ..records import state_home

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT_SECONDS = 90 * 86_400  # agents themselves forget their sessions after a month or two
_MOST = 1000  # files, so that a harness with many launches does not fill the folder


@record
class AgentSession:
    """A session of an agent. `on` is the environment that it ran on."""

    backend: str
    session: str
    on: str
    cwd: str
    kind: str
    contract: str
    sandbox: str
    guards: tuple[str, ...]
    started: float
    add_dirs: tuple[str, ...] = ()


class AgentSessions:
    """The files of one user on this machine."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = os.path.join(state_home(environ), "agents")

    def add(self, one: AgentSession) -> None:
        """Raises SettingInvalid."""
        path = self._path(one.backend, one.on, one.session)
        content = {name: getattr(one, name) for name in fields(AgentSession)}
        try:
            privatefile.write(path, json.dumps(content).encode())
        except OSError as error:
            raise SettingInvalid(f"cannot write {path}: {error.strerror}") from None
        self._forget_old()

    def find(self, backend: str, on: str, session: str, cwd: str) -> AgentSession | None:
        """The session with this id; without one, the last that was started in a directory.

        Raises SettingInvalid where that cannot be read: a resume must not have more than its launch had.
        """
        if session:
            return self._read(self._path(backend, on, session))
        there = [one for one in self._all() if (one.backend, one.on, one.cwd) == (backend, on, cwd)]
        return max(there, key=lambda one: one.started, default=None)

    def _path(self, backend: str, on: str, session: str) -> str:
        # Ids are the agents' own, and may be anything.
        name = sha256(f"{backend}\0{on}\0{session}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return os.path.join(self._folder, f"{name}.json")

    def _all(self) -> list[AgentSession]:
        try:
            names = os.listdir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _cannot_read(self._folder, error) from None
        found = [self._read(os.path.join(self._folder, name)) for name in names if name.endswith(".json")]
        return [one for one in found if one is not None]

    def _read(self, path: str) -> AgentSession | None:
        try:
            with open(path, encoding="utf-8") as file:
                told = json.load(file)
            lists = {"guards": tuple(told["guards"]), "add_dirs": tuple(told.get("add_dirs", ()))}
            return AgentSession(**{**told, **lists})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _cannot_read(path, error) from None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None  # not one of ours

    def _forget_old(self) -> None:
        try:
            with os.scandir(self._folder) as entries:
                files = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
            for place, (moment, path) in enumerate(files):
                if len(files) - place > _MOST or time.time() - moment > _KEPT_SECONDS:
                    os.unlink(path)
        except OSError:
            pass  # another launch clears up as well


def _cannot_read(path: str, error: OSError) -> SettingInvalid:
    return SettingInvalid(f"cannot read how the session was launched: {path}: {error.strerror}")
