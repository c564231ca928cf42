"""A scratch project and a scratch home for tests of providers, and what a resolution starts from there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from outfitter.env.lists import ListValue
from outfitter.providers.base import Context, Resolution
from outfitter.shell.activation import scrub, tool_environment
from tests.support.machine import PROC, SECOND, alive

LONG = 60.0 * SECOND  # for tools that finish, on a machine that is busy: mise has taken 20 s
PATH = "/usr/local/bin:/usr/bin:/bin"


class Project:
    """Every process that is started for it carries a token."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "project"
        self.home.mkdir()
        self.root.mkdir()
        self.token = f"{uuid.uuid4()}"
        self.env = {"HOME": str(self.home), "PATH": PATH, "LANG": "C.UTF-8", "XDG_TEST": self.token}

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def context(
        self,
        env: Mapping[str, str] | None = None,
        *,
        options: Mapping[str, object] | None = None,
        timeout: float = LONG,
        mode: str = "snapshot",
    ) -> Context:
        """As for a command whose lower layers give `env`."""
        clean, _ = scrub(self.env if env is None else env)
        tool_env = tool_environment(clean)
        return Context(clean, tool_env, str(self.home), mode=mode, options=options or {}, timeout=timeout)

    def left_behind(self) -> list[int]:
        """Living processes with the token in their environment."""
        found = []
        for entry in os.listdir(f"{PROC}"):
            try:
                if entry.isdigit() and self.token.encode() in Path(f"{PROC}/{entry}/environ").read_bytes():
                    found += [int(entry)] if alive(int(entry)) else []
            except OSError:
                continue
        return found


def applied(said: Resolution, env: Mapping[str, str]) -> dict[str, str]:
    """The environment that a resolution makes, by itself, of this one."""
    assert said.state == "applied", said.note
    values = {name: value for name, value in env.items() if name not in said.unset}
    values.update(said.set)
    for one in said.operations:
        value = ListValue(one.variable)
        if one.variable in values:
            value.set(values[one.variable], 0, "base")
        value.operate(one.op, one.values, 3, "provider", None)
        values[one.variable] = value.text()
    return values
