"""Every command line of the README runs, in a project as a stranger has one.

The commands for a server are run from another machine: tests/end_to_end/test_another_machine.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
ELSEWHERE = "You run machines for others"
# What the agents are told, which need a model; tests/end_to_end has them run for real.
AGENTS = {
    "codex": "exec -s workspace-write run the tests",
    "claude": "",
}
EXITS = {
    "outfitter init": 1,  # there is nobody to ask
    "outfitter trust": 1,  # there is nobody to ask
    "outfitter env diff here login": 1,  # there are differences
}


def commands(section: str) -> list[str]:
    """The command lines of a section, without the words behind them."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    text = "".join(block for language, block in blocks if not language).replace("\\\n", "")
    lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+# .*$", "", line) for line in lines]


SECTIONS = {
    text.partition("\n")[0]: commands(text.partition("\n## ")[0]) for text in README.split("\n### ")[1:]
}


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A project with a virtual environment and an outfitter.toml, and a home; its directory is PWD."""
    home = tmp_path_factory.mktemp("home")
    project, programs = home / "project", home / "bin"
    for folder in (project, programs, home / ".codex"):
        folder.mkdir()
    venv.create(project / ".venv", symlinks=True)
    (project / "outfitter.toml").write_text('[env]\nset = { APP_ENV = "test" }\n')
    (project / "examples").symlink_to(ROOT / "examples")
    for name in AGENTS:
        (programs / name).write_text(f'#!/bin/sh\necho "$@" > "{home}/{name}"\n')
        (programs / name).chmod(0o755)
    (programs / "outfitter").write_text(f'#!/bin/sh\nexec {sys.executable} -m outfitter "$@"\n')
    (programs / "outfitter").chmod(0o755)
    return {
        "HOME": str(home),
        "PATH": f"{programs}:/usr/bin:/bin",
        "PWD": str(project),
        "LANG": "C.UTF-8",
    }


def test_every_kind_of_user_has_commands() -> None:
    assert [title for title, lines in SECTIONS.items() if len(lines) < 2] == []
    assert ELSEWHERE in SECTIONS


@pytest.mark.parametrize("title", [title for title in SECTIONS if title != ELSEWHERE])
def test_the_commands_of_a_section_run(title: str, environ: dict[str, str]) -> None:
    for command in SECTIONS[title]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=environ["PWD"],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == EXITS.get(command, 0), f"{command}: {done.stderr}"
        name = command.partition(" ")[0]
        if name in AGENTS:
            assert Path(environ["HOME"], name).read_text().startswith(AGENTS[name])
