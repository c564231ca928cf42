"""What a project's own environment costs per command, warm: on our server, and by the tools' own wrappers.

The projects are as small as can be, which favours the wrappers: they resolve anew for each command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from bench.client import Launch
from bench.errors import BenchError

__all__ = ["WRAPPERS", "Projects"]

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The tools, and how each runs a command in its environment.
WRAPPERS: Final = {
    "direnv": "direnv exec",
    "mise": "mise exec",
    "nix": "nix develop -c",
    "uv": "uv run --no-sync",
}
PATIENCE: Final = 300  # seconds for setting one up; nix evaluates for the first time

_BASH: Final = shutil.which("bash") or "/bin/bash"
_FLAKE: Final = f"""\
{{
  outputs = {{ self, ... }}:
    let shell = system: derivation {{
      name = "shell"; inherit system; builder = "{_BASH}"; outputs = [ "out" ];
      stdenv = ./stdenv; FROM_PROJECT = "yes";
    }};
    in {{
      devShells.x86_64-linux.default = shell "x86_64-linux";
      devShells.aarch64-linux.default = shell "aarch64-linux";
    }};
}}
"""
_FILES: Final[Mapping[str, Mapping[str, str]]] = {
    "direnv": {".envrc": "export FROM_PROJECT=yes\nPATH_add bin\n"},
    "mise": {"mise.toml": '[env]\nFROM_PROJECT = "yes"\n_.path = ["bin"]\n'},
    "nix": {
        "flake.nix": _FLAKE,
        "stdenv/setup": "export PATH=/usr/bin:/bin FROM_PROJECT\n",
    },
    "uv": {"pyproject.toml": '[project]\nname = "small"\nversion = "0"\n'},
    "none": {},
}


class Projects:
    """One small project for each tool that is installed, trusted, below a home."""

    def __init__(self, home: str, env: Mapping[str, str], outfitter: str) -> None:
        self.folder = os.path.join(home, "projects")
        self._env = {**env, "PATH": f"{ROOT}/.tools/bin:{env['PATH']}"}
        self.names = [name for name in WRAPPERS if shutil.which(name, path=self._env["PATH"])]
        if not os.path.exists(self.folder):
            self._make(home, outfitter)

    def _make(self, home: str, outfitter: str) -> None:
        store = os.path.join(home, "nix")
        self._write(
            os.path.join(home, ".config/nix/nix.conf"),
            "build-users-group =\nsandbox = false\nexperimental-features = nix-command flakes\n"
            f"store = local?store={store}/store&state={store}/var&log={store}/log\n",
        )
        for name in ("none", *self.names):
            for file, text in _FILES[name].items():
                self._write(os.path.join(self.root(name), file), text)
            os.makedirs(os.path.join(self.root(name), ".git"), exist_ok=True)
        allow = {
            "direnv": ("direnv", "allow", "."),
            "mise": ("mise", "trust", "-q", "mise.toml"),
            "nix": (outfitter, "trust", "--yes", "."),
            "uv": ("uv", "venv", "-q", "--offline"),
        }
        for name in self.names:
            self._run(name, *allow[name])

    def root(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def launches(self) -> dict[str, Launch]:
        """`true` in each project, as our client asks for it."""
        return {
            name: Launch(
                "/bin/true",
                env={},
                more={"cwd": f"file://{self.root(name)}", "contract": {}, "envPolicy": None},
            )
            for name in ("none", *self.names)
        }

    def wrappers(self, seconds: Callable[..., float]) -> dict[str, Callable[[], float]]:
        """`true` as each tool runs it, and on its own; `seconds` times a command line in a folder."""
        words = {
            "none": (),
            "direnv": ("direnv", "exec", "."),
            "mise": ("mise", "exec", "-q", "--"),
            "nix": ("nix", "develop", "--offline", f"path:{self.root('nix')}", "-c"),
            "uv": ("uv", "run", "-q", "--offline", "--no-sync", "--"),
        }

        def timed(name: str) -> Callable[[], float]:
            argv = [self._find(word) if place == 0 else word for place, word in enumerate(words[name])]
            return lambda: seconds(*argv, "/bin/true", cwd=self.root(name), env=self._env)

        return {name: timed(name) for name in ("none", *self.names)}

    def _find(self, name: str) -> str:
        return shutil.which(name, path=self._env["PATH"]) or name

    def _run(self, name: str, *argv: str) -> None:
        done = subprocess.run(
            (self._find(argv[0]), *argv[1:]),
            cwd=self.root(name),
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise BenchError(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")

    @staticmethod
    def _write(path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
